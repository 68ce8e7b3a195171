package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// rowsFrom analyses functions in FROM. Their columns are known where the text tells them: without
// that, `INSERT … SELECT * FROM unnest($1::int[], $2::text[])`, which drivers use for many rows at
// once, could not be split by rows.
func (fr fromClause) rowsFrom(n *pg.RangeFunction, s *scope, left []*source) *source {
	fr.lateral(s, left).expressions(n.Functions)
	fr.l.expressions(n.Coldeflist)
	names, ok := fr.rowNames(n)
	if !ok {
		return opaque(n.Alias)
	}
	name := names[0]
	if a := n.Alias; a != nil && len(names) == 1 {
		names[0] = a.Aliasname // a function alone gives its alias to its column, too
	}
	if n.Ordinality {
		names = append(names, "ordinality")
	}
	cols := make([]output, len(names))
	for i, c := range names {
		cols[i] = output{c, &column{name: c}}
	}
	return simple(name, "", n.Alias, cols, false)
}

// rowNames returns the names of the columns of functions in FROM, one for each function, unless a
// function is not known to return a scalar.
func (fr fromClause) rowNames(n *pg.RangeFunction) (names []string, ok bool) {
	if len(n.Coldeflist) > 0 {
		return nil, false
	}
	for _, f := range n.Functions {
		items := f.GetList().GetItems()
		if len(items) == 0 || len(items) > 1 && len(items[1].GetList().GetItems()) > 0 {
			return nil, false
		}
		call := items[0].GetFuncCall()
		path := nameList(call.GetFuncname())
		if len(path) != 1 || len(fr.l.a.reach().userFunctions("", path[0])) > 0 || call.FuncVariadic {
			return nil, false
		}
		switch path[0] {
		case "generate_series", "generate_subscripts", "regexp_split_to_table", "string_to_table":
			names = append(names, path[0])
		case "unnest":
			// Each array counts as a function of its own.
			for _, arg := range call.Args {
				if !fr.scalars(arg) {
					return nil, false
				}
				names = append(names, path[0])
			}
		default:
			return nil, false
		}
	}
	return names, len(names) > 0
}

// scalars reports whether a value is an array whose elements have no columns.
func (fr fromClause) scalars(n *pg.Node) bool {
	c := n.GetTypeCast()
	if c == nil || c.TypeName == nil || len(c.TypeName.ArrayBounds) == 0 || c.TypeName.Setof || c.TypeName.PctType {
		return false
	}
	names := nameList(c.TypeName.Names)
	switch {
	case len(names) == 2 && names[0] == "pg_catalog":
		return scalarTypes[names[1]]
	case len(names) == 1 && scalarTypes[names[0]]:
		// No other schema's type of that name comes first.
		return len(fr.l.a.text.path) > 0 && fr.l.a.text.path[0] == "pg_catalog"
	}
	return fr.enum(names)
}

// scalarTypes are built-in types of which arrays are common.
var scalarTypes = set("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "money", "text", "varchar", "bpchar", "name", "bytea", "uuid",
	"date", "time", "timetz", "timestamp", "timestamptz", "interval", "json", "jsonb", "inet", "cidr", "macaddr", "oid")

// enum reports whether a name is that of an enum type that some column has.
func (fr fromClause) enum(names []string) bool {
	if fr.l.a.env.Schema == nil {
		return false
	}
	var wanted []string
	switch len(names) {
	case 1:
		for _, schema := range fr.l.a.text.path {
			wanted = append(wanted, schema+"."+names[0])
		}
	case 2:
		wanted = []string{names[0] + "." + names[1]}
	}
	for _, full := range wanted {
		for rel := range fr.l.a.env.Schema.Relations() {
			if rel.Schema+"."+rel.Name.Name == full {
				return false // the type of a table's rows
			}
			for i := range rel.Columns {
				if c := &rel.Columns[i]; c.Enum && c.Base == c.Type && c.TypeName == full {
					return true
				}
			}
		}
	}
	return false
}
