package parser

import pg_query "github.com/pganalyze/pg_query_go/v6"

// What weft keeps in a database is not the user's, and is made anew where it is needed. pg_dump leaves out schemas whose
// names begin with pg_, and all that is in them; what is outside of the schema is taken from the list.
const (
	hiddenSchema = `(SELECT tableoid, oid, CASE WHEN nspname IN ('weft', 'weft_gate') AND pg_catalog.to_regclass('weft.own') IS NOT NULL THEN ('pg_' || nspname)::pg_catalog.name ELSE nspname END AS nspname, ` +
		`nspowner, nspacl FROM pg_catalog.pg_namespace)`
	ownFunctions = `(SELECT p.oid FROM pg_catalog.pg_proc p WHERE pg_catalog.to_regclass('weft.own') IS NOT NULL AND p.pronamespace = pg_catalog.to_regnamespace('weft'))`
)

// hides is by which query each catalog is replaced.
var hides = map[string]string{
	"pg_namespace":     hiddenSchema,
	"pg_trigger":       `(SELECT tableoid, * FROM pg_catalog.pg_trigger WHERE tgfoid NOT IN ` + ownFunctions + `)`,
	"pg_event_trigger": `(SELECT tableoid, * FROM pg_catalog.pg_event_trigger WHERE evtfoid NOT IN ` + ownFunctions + `)`,
}

// HideEdits returns the edits after which pg_dump does not find what is weft's own: its schema, the triggers and the
// event triggers that call functions of that. Schemas that are searched for, and not listed, are found as ever:
// somebody asks for them by name.
func HideEdits(text string, opt Options) (Edits, error) {
	r, tree, before, err := newIdentityRewriter(text, Identity{Options: opt})
	if err != nil {
		return nil, err
	}
	r.ctes, r.bare = map[string]bool{}, map[string]bool{}
	for _, raw := range tree.Stmts {
		walk(raw.Stmt, func(m any) bool {
			if s, ok := m.(*pg_query.SelectStmt); ok {
				r.hide(s, s.FromClause...)
			}
			return true
		})
	}
	return r.clientEdits(before)
}

// hide takes items of a query's FROM.
func (r *identityRewriter) hide(s *pg_query.SelectStmt, items ...*pg_query.Node) {
	for _, item := range items {
		if j := item.GetJoinExpr(); j != nil {
			r.hide(s, j.Larg, j.Rarg)
		}
		v := item.GetRangeVar()
		query, ok := hides[v.GetRelname()]
		if !ok || v.Schemaname != "" && v.Schemaname != "pg_catalog" || v.Relname == "pg_namespace" && s.WhereClause != nil {
			continue
		}
		r.instead(v, query)
	}
}
