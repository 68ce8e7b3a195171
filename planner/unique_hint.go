package planner

import (
	"fmt"
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/parser"
	"weft/quote"
)

// Some indexes cannot have a lookup. A stored generated column has the values of an expression, and NULL
// for rows that the index leaves out: PostgreSQL computes it, and a lookup keeps it unique.

// textFunctions are built-in functions that return text.
var textFunctions = []string{"lower", "upper", "initcap", "btrim", "ltrim", "rtrim", "replace", "left", "right", "substr", "substring", "md5", "translate", "reverse"}

// GeneratedHint tells how a lookup can keep unique what a unique index of rel keeps unique: the statements that make generated columns and an
// index of them, and drop at the end. definition is CREATE UNIQUE INDEX. It returns "" if there is no such way.
func GeneratedHint(rel *catalog.Relation, definition, drop string) string {
	tree, err := parser.ParseTree(definition, parser.Options{})
	if err != nil || len(tree.Statements) != 1 {
		return ""
	}
	return generatedHint(rel, tree.Statements[0].Stmt.GetIndexStmt(), drop)
}

func generatedHint(rel *catalog.Relation, n *pg.IndexStmt, drop string) string {
	if n == nil || n.NullsNotDistinct || rel.Parent != nil {
		return ""
	}
	condition := ""
	if columns := indexed(n).columns; !catalog.WholePredicate(n.WhereClause, columns) {
		if condition = expressionText(n.WhereClause); condition == "" {
			return ""
		}
	}
	var columns, adds []string
	for _, p := range n.IndexParams {
		e := p.GetIndexElem()
		if len(e.GetCollation()) > 0 || len(e.GetOpclass()) > 0 {
			return ""
		}
		g := generatedFor(rel, e)
		if g.kind == "" {
			return ""
		}
		if condition != "" {
			// NULL in one column leaves the row out.
			g.text, condition = "CASE WHEN "+condition+" THEN "+g.text+" END", ""
			if g.made == "" {
				g.made = g.column + "_unique"
			}
		}
		if g.made == "" {
			columns = append(columns, g.column)
			continue
		}
		for base, i := g.made, 2; rel.Column(g.made) != nil || slices.Contains(columns, g.made); i++ {
			g.made = fmt.Sprintf("%s_%d", base, i)
		}
		columns = append(columns, g.made)
		adds = append(adds, fmt.Sprintf("ADD COLUMN %s %s GENERATED ALWAYS AS (%s) STORED", sqlNames([]string{g.made}), g.kind, g.text))
	}
	if len(adds) == 0 {
		return ""
	}
	hint := fmt.Sprintf("A lookup can keep generated columns with these values: ALTER TABLE %s %s; CREATE UNIQUE INDEX ON %s (%s)",
		sqlName(rel.Name), strings.Join(adds, ", "), sqlName(rel.Name), sqlNames(columns))
	if drop != "" {
		hint += "; " + drop
	}
	return hint + "."
}

// itemColumn is a column that has the values of one item of an index.
type itemColumn struct {
	column string // whose values they are
	made   string // the name of the generated column; empty if the column itself has the values
	kind   string // the type; empty if it is unknown
	text   string // the expression
}

func generatedFor(rel *catalog.Relation, e *pg.IndexElem) itemColumn {
	if name := e.GetName(); name != "" {
		c := rel.Column(name)
		switch {
		case c == nil || c.Nondeterministic:
			return itemColumn{}
		case c.TypeName == "citext" || strings.HasSuffix(c.TypeName, ".citext"):
			// Two values of citext are equal if they are so in lower case.
			return itemColumn{column: name, made: name + "_lower", kind: "text", text: "lower(" + sqlNames([]string{name}) + "::text)"}
		case !datum.Keyed(datum.Type(c.Base)) || c.Enum:
			return itemColumn{}
		}
		return itemColumn{column: name, kind: c.TypeName, text: sqlNames([]string{name})}
	}
	g := itemColumn{text: expressionText(e.GetExpr())}
	sound := g.text != ""
	parser.Walk(e.GetExpr(), func(m any) bool {
		if ref, ok := m.(*pg.ColumnRef); ok && len(ref.Fields) > 0 {
			name := ref.Fields[len(ref.Fields)-1].GetString_().GetSval()
			c := rel.Column(name)
			sound = sound && c != nil && !c.Nondeterministic
			if g.column == "" {
				g.column = name
			}
		}
		return true
	})
	if !sound || g.column == "" {
		return itemColumn{}
	}
	switch f, x := e.GetExpr().GetFuncCall(), e.GetExpr().GetAExpr(); {
	case f != nil && slices.Contains(textFunctions, lastName(f.Funcname)) && (len(f.Funcname) == 1 || nameList(f.Funcname)[0] == "pg_catalog"):
		g.made, g.kind = g.column+"_"+lastName(f.Funcname), "text"
	case x != nil && slices.Contains([]string{"->>", "#>>"}, lastName(x.Name)):
		g.made, g.kind = g.column+"_value", "text"
	}
	return g
}

// expressionText writes an expression as SQL; empty if that cannot be done.
func expressionText(n *pg.Node) string {
	const head = "SELECT "
	sql, err := parser.Deparse(&pg.Node{Node: &pg.Node_SelectStmt{SelectStmt: &pg.SelectStmt{
		TargetList:  []*pg.Node{{Node: &pg.Node_ResTarget{ResTarget: &pg.ResTarget{Val: n}}}},
		LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE,
	}}})
	if err != nil {
		return ""
	}
	return strings.TrimPrefix(sql, head)
}

// PlainUnique is the definition of a unique index on columns, for GeneratedHint.
func PlainUnique(table catalog.Name, columns []string) string {
	return "CREATE UNIQUE INDEX ON " + table.SQL() + " (" + quote.Idents(columns) + ")"
}
