package planner

import (
	"errors"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/program/flow"
)

// flow reads the function of a trigger.
func (re reach) flow(rel *catalog.Relation, t *table, tr *catalog.Trigger, f *catalog.Function) (*flow.Body, error) {
	if re.a.env.Schema == nil || f.Body == "" {
		return nil, errors.ErrUnsupported
	}
	known := re.a.env.Schema.Flow(rel, tr)
	for other := range re.a.env.Schema.Relations() {
		if other.Name.Name == rel.Name.Name && other.Name != rel.Name {
			known.Columns = nil // a variable's type may be the other one's, maybe that of CREATE TYPE
		}
	}
	if temporary := re.a.env.Temporary; len(temporary) > 0 {
		// A temporary table of the session is found before another of its name.
		if typeOf := known.TypeOf; typeOf != nil {
			known.TypeOf = func(names []string) string {
				if len(names) < 2 || temporary[names[len(names)-2]] {
					return ""
				}
				return typeOf(names)
			}
		}
		if temporary[rel.Name.Name] {
			known.Columns = nil
		}
	}
	for _, k := range keysOf(t) {
		known.Keys = append(known.Keys, flow.Key{Name: k.Name, Type: sqlType(k)})
	}
	return flow.Read(f.Body, known)
}

// sqlType returns the type of a key column below its domains.
func sqlType(k directory.Column) string {
	switch datum.Type(k.Type) {
	case datum.Int2, datum.Int4, datum.Int8:
		return "integer"
	case datum.Text, datum.Varchar:
		return "text"
	case datum.UUID:
		return "uuid"
	}
	return k.TypeName
}

// lineNaming returns the line of a trigger's function that names a relation, and the SQL there.
func (re reach) lineNaming(rel *catalog.Relation, t *table, tr *catalog.Trigger, f *catalog.Function, name string) (line int, sql string) {
	body, err := re.flow(rel, t, tr, f)
	if err != nil {
		return 0, ""
	}
	for i := range body.Statements {
		st := &body.Statements[i]
		if tree, err := parser.Parse(st.SQL); err == nil {
			parser.Walk(tree, func(m any) bool {
				switch m := m.(type) {
				case *pg.RangeVar:
					if m.Relname == name && line == 0 {
						line, sql = st.Line, st.SQL
					}
				case *pg.String:
					if strings.Contains(m.Sval, name) && line == 0 {
						line, sql = st.Line, st.SQL
					}
				}
				return line == 0
			})
		}
	}
	return line, sql
}

// nullable reports whether a statement stores rows of a table whose key may be NULL.
func (re reach) nullable(stmt *pg.Node) bool {
	nullable := false
	look := func(rv *pg.RangeVar) {
		rel, t := re.a.relation(rv)
		for _, k := range keysOf(t) {
			if c := rel.Column(k.Name); c == nil || !c.NotNull {
				nullable = true
			}
		}
		nullable = nullable || rel != nil && rel.Kind == catalog.View
	}
	parser.Walk(stmt, func(m any) bool {
		switch m := m.(type) {
		case *pg.InsertStmt:
			look(m.Relation)
		case *pg.MergeStmt:
			look(m.Relation)
		case *pg.UpdateStmt:
			if _, t := re.a.relation(m.Relation); t == nil || slices.ContainsFunc(m.TargetList, func(n *pg.Node) bool { return isKey(t, n.GetResTarget().GetName()) }) {
				look(m.Relation)
			}
		}
		return true
	})
	return nullable
}
