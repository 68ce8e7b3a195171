package parser

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"
)

// The views that show process ids.

// sources takes items of FROM.
func (r *identityRewriter) sources(items ...*pg_query.Node) {
	for _, item := range items {
		if v := item.GetRangeVar(); v != nil {
			r.view(v)
		}
	}
}

func (r *identityRewriter) view(v *pg_query.RangeVar) {
	def, ok := identityViews[v.Relname]
	if !ok || len(r.Pairs) == 0 || (v.Schemaname != "" && v.Schemaname != "pg_catalog") || (v.Schemaname == "" && r.ctes[v.Relname]) {
		return
	}
	columns := slices.Clone(def.columns)
	for i, column := range columns {
		if slices.Contains(def.pids, column) {
			columns[i] = r.toSession(column) + " AS " + column
		}
	}
	r.instead(v, "(SELECT "+strings.Join(columns, ", ")+" FROM pg_catalog."+v.Relname+")")
}

// instead puts a subquery in the place of a relation, under its name.
func (r *identityRewriter) instead(v *pg_query.RangeVar, query string) {
	first := r.at(v.Location)
	if first < 0 {
		r.err = ErrIdentity
		return
	}
	last := first
	if v.Catalogname != "" {
		last += 2
	}
	if v.Schemaname != "" {
		last += 2
	}
	before, after := "", ""
	if r.is(last+1, pg_query.Token_ASCII_42) {
		last++ // pg_locks *
	}
	switch {
	case r.is(first-1, pg_query.Token_ONLY):
		first--
	case r.is(first-1, pg_query.Token_ASCII_40) && r.is(first-2, pg_query.Token_ONLY):
		first -= 2
		last++
	}
	if r.is(first-1, pg_query.Token_TABLE) {
		first--
		before = "SELECT * FROM "
	}
	if last >= len(r.tokens) {
		r.err = ErrIdentity
		return
	}
	if v.Alias == nil {
		after = " AS " + v.Relname
		r.bare[v.Relname] = true
	}
	r.replace(int(r.tokens[first].Start), int(r.tokens[last].End), before+query+after)
}

// The text.
