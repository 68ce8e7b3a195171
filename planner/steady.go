package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/plan"
	"weft/quote"
)

// steadiness proves that a query has one answer: two sessions of one role and with the same settings that run it on one
// shard at the same time get the same rows. What is not proved here counts as unsteady, so the lists below name what is
// known to be steady.
type steadiness struct {
	a *analysis
	// ctes are the names of WITH queries, anywhere in the text at hand.
	ctes map[string]bool
	// seen are the relations that have been looked at.
	seen []*catalog.Relation
	// stored: the text at hand is a view's or a policy's, in which names are qualified.
	stored bool
}

// isSteady reports whether a plan that is complete is of a steady query. proved is what isProved has found before the tree was
// planned.
func isSteady(p *plan.Plan, proved bool) bool {
	return proved && p.Route == plan.Keyed && !p.Writes && !p.Locks && !p.AtCursor && !p.Lookups && !p.Strays && !p.Looks &&
		p.Generate == nil && p.Change == nil && p.Explain == nil && p.Function == nil && p.Routine == "" && p.Fires == nil
}

// isProved reports whether nothing in a statement can have another value for another session of the same role and settings.
func (s *steadiness) isProved(n *pg.Node) bool {
	env := s.a.env
	if n.GetSelectStmt() == nil || env.Schema == nil || env.Schema.Incomplete || len(env.Temporary) > 0 || env.Schema.HasPlainCast() {
		return false
	}
	if len(env.Path) == 0 || env.Path[0] != "pg_catalog" {
		return false // a name may mean something else than what is built in
	}
	return s.tree(n)
}

// tree looks at all nodes of a query.
func (s *steadiness) tree(n *pg.Node) bool {
	outer := s.ctes
	s.ctes = map[string]bool{}
	defer func() { s.ctes = outer }()
	parser.Walk(n, func(m any) bool {
		if c, ok := m.(*pg.CommonTableExpr); ok {
			s.ctes[c.Ctename] = true
		}
		return true
	})
	steady := true
	parser.Walk(n, func(m any) bool {
		steady = steady && s.node(m)
		return steady
	})
	return steady
}

// node looks at one node.
func (s *steadiness) node(m any) bool {
	switch m := m.(type) {
	case *pg.SelectStmt:
		return len(m.LockingClause) == 0 && m.IntoClause == nil
	case *pg.RangeVar:
		return s.table(m)
	case *pg.FuncCall:
		return s.function(nameList(m.Funcname))
	case *pg.TypeName:
		names := nameList(m.Names)
		return len(names) > 0 && (len(names) == 1 || names[0] == "pg_catalog") && steadyTypes[names[len(names)-1]] && !m.Setof && !m.PctType
	case *pg.ColumnRef:
		return s.field(m.Fields)
	case *pg.A_Indirection:
		return s.field(m.Indirection)
	case *pg.A_Expr, *pg.SubLink, *pg.SortBy:
		return s.operators(m)
	case *pg.JoinExpr, *pg.CaseExpr:
		return !s.a.env.Schema.HasPlainOperator("=") // that USING and CASE compare with
	case *pg.Node, *pg.RawStmt, *pg.ResTarget, *pg.A_Star, *pg.A_Const, *pg.ParamRef, *pg.BoolExpr, *pg.NullTest, *pg.BooleanTest, *pg.CaseWhen,
		*pg.CoalesceExpr, *pg.MinMaxExpr, *pg.TypeCast, *pg.A_ArrayExpr, *pg.A_Indices, *pg.RowExpr, *pg.WindowDef,
		*pg.RangeSubselect, *pg.RangeFunction, *pg.Alias, *pg.List, *pg.String, *pg.Integer, *pg.Float, *pg.Boolean, *pg.BitString, *pg.CommonTableExpr, *pg.WithClause,
		*pg.GroupingSet, *pg.GroupingFunc, *pg.SQLValueFunction, *pg.CollateClause, *pg.NamedArgExpr:
		return true
	}
	return false
}

// steadyTypes are built-in types. Casts to them run built-in code, which depends on settings at most.
var steadyTypes = set("bool", "int2", "int4", "int8", "float4", "float8", "numeric", "text", "varchar", "bpchar", "char", "name", "bytea", "uuid", "json", "jsonb",
	"date", "time", "timetz", "timestamp", "timestamptz", "interval", "inet", "cidr", "oid")

// steadyFunctions are built-in functions that are not immutable, and whose value depends on the arguments, the role, the
// settings and the time.
var steadyFunctions = set("now", "concat", "concat_ws", "format", "to_char", "age", "date_part", "date_trunc", "extract", "timezone", "array_to_string", "array_to_json",
	"row_to_json", "to_json", "to_jsonb", "json_agg", "jsonb_agg", "json_build_object", "jsonb_build_object", "json_build_array", "jsonb_build_array", "json_object_agg",
	"jsonb_object_agg", "current_setting", "to_timestamp", "to_date", "to_tsvector", "to_tsquery", "plainto_tsquery", "phraseto_tsquery", "websearch_to_tsquery",
	"ts_rank", "ts_headline", "length", "date", "timestamptz", "timestamp")

// function looks at the name of a function. A user's function of the same name, in whatever schema, may be meant.
func (s *steadiness) function(names []string) bool {
	if len(names) == 0 || len(names) > 2 || len(names) == 2 && names[0] != "pg_catalog" {
		return false
	}
	name := names[len(names)-1]
	t := s.a.env.Schema.Builtin(name)
	return t.Known && (t.Volatility == 'i' || t.Volatility == 's' && steadyFunctions[name]) && !runsSQL[name] && len(s.a.env.Schema.Functions(name)) == 0
}

// field looks at the last name of a reference. A function of a row can be written like a column of it.
func (s *steadiness) field(fields []*pg.Node) bool {
	for _, f := range fields {
		name := f.GetString_().GetSval()
		if name != "" && (len(s.a.env.Schema.Functions(name)) > 0 || s.a.env.Schema.Builtin(name).Volatility == 'v') {
			return false
		}
	}
	return true
}

// operators looks at the operators of a node. A user's operator of the same name, in whatever schema, may be meant.
func (s *steadiness) operators(m any) bool {
	if schema := operatorSchema(m); schema != "" && schema != "pg_catalog" {
		return false
	}
	return !slices.ContainsFunc(catalog.OperatorNames(m), s.a.env.Schema.HasPlainOperator)
}

// table looks at what a name in FROM means.
func (s *steadiness) table(rv *pg.RangeVar) bool {
	rel := s.a.env.Schema.Resolve(s.a.env.Path, rv.Relname)
	if rv.Schemaname != "" || s.stored {
		rel = s.a.env.Schema.Relation(catalog.Name{Schema: rv.Schemaname, Name: rv.Relname})
	}
	if rel == nil {
		return rv.Schemaname == "" && s.ctes[rv.Relname]
	}
	return s.relation(rel)
}

// relation looks at a table or view, and at the code that runs when it is read.
func (s *steadiness) relation(rel *catalog.Relation) bool {
	if slices.Contains(s.seen, rel) {
		return true
	}
	s.seen = append(s.seen, rel)
	if rel.System() || rel.Busy || rel.Rules || slices.ContainsFunc(rel.Columns, unsteadyColumn) {
		return false
	}
	switch rel.Kind {
	case catalog.View:
		return s.query(rel.Definition)
	case catalog.Table, catalog.PartitionedTable:
	default:
		return false
	}
	for _, child := range rel.Children {
		if !s.relation(child) {
			return false
		}
	}
	if !rel.RowSecurity {
		return true
	}
	for i := range rel.Policies {
		p := &rel.Policies[i]
		if p.Command != 'r' && p.Command != '*' {
			continue
		}
		if len(p.Expressions) == 0 || !p.Calls.Pure() {
			return false
		}
		for _, e := range p.Expressions {
			if !s.query("SELECT 1 FROM " + rel.Name.SQL() + " AS " + quote.Ident(rel.Name.Name) + " WHERE " + e) {
				return false
			}
		}
	}
	return true
}

// query looks at a query that the schema stores.
func (s *steadiness) query(sql string) bool {
	tree, err := parser.ParseTree(sql, parser.Options{})
	if err != nil || len(tree.Statements) != 1 || tree.Statements[0].Stmt.GetSelectStmt() == nil {
		return false
	}
	outer := s.stored
	s.stored = true
	defer func() { s.stored = outer }()
	return s.tree(tree.Statements[0].Stmt)
}

// unsteadyColumn reports whether the values of a column may be shown and compared by code of users: its type is neither built in nor an enum.
func unsteadyColumn(c catalog.Column) bool {
	const firstUserOID = 16384
	return c.Base >= firstUserOID && !c.Enum
}
