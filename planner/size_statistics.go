package planner

import (
	"fmt"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
)

// estimates are the columns of pg_class that say how large a relation was when it was looked at, as a
// shard is asked for them and as they are added up. A table that one shard has never looked at counts
// as empty there; only if none has, nothing is known.
var estimates = map[string][2]string{
	"reltuples":     {"NULLIF(c.reltuples, '-1'::pg_catalog.float4)::pg_catalog.float8", "COALESCE(pg_catalog.sum(%s), -1)::pg_catalog.float4"},
	"relpages":      {"c.relpages::pg_catalog.int8", "LEAST(pg_catalog.sum(%s), 2147483647)::pg_catalog.int4"},
	"relallvisible": {"c.relallvisible::pg_catalog.int8", "LEAST(pg_catalog.sum(%s), 2147483647)::pg_catalog.int4"},
}

// estimate is a reference to one of these columns.
type estimate struct {
	at     int32 // where it stands in the text
	of     string
	column string
}

// estimate notes a reference to an estimate of pg_class.
func (l *level) estimate(ref *pg.ColumnRef) {
	names := nameList(ref.Fields)
	if len(names) != len(ref.Fields) {
		return
	}
	column := names[len(names)-1]
	if _, is := estimates[column]; !is {
		return
	}
	for at := l; at != nil; at = at.parent {
		c, known := at.lookup(names)
		if c != nil {
			return
		}
		it, of := (*item)(nil), 0
		for _, s := range at.sources {
			for _, i := range s.items {
				if i.of == nil || i.of.rel == nil || !i.of.rel.System() || i.of.rel.Name.Name != "pg_class" || len(i.of.rv.Alias.GetColnames()) > 0 {
					continue
				}
				if len(names) == 1 || i.name == names[len(names)-2] {
					it = i
					of++
				}
			}
		}
		if of == 1 {
			l.a.touched.estimates = append(l.a.touched.estimates, estimate{at: ref.Location, of: it.name, column: column})
			l.a.touched.sizesInView = l.a.touched.sizesInView || l.a.text.stored
			return
		}
		if known || of > 1 {
			return
		}
	}
}

// askEstimates notes which columns of pg_class are asked for.
func (s *sizes) askEstimates() {
	for _, e := range s.a.touched.estimates {
		s.column(estimates[e.column][0], estimates[e.column][1])
		s.all = true
	}
}

// estimateAt returns the estimate that a reference means, or nil.
func (s *sizes) estimateAt(ref *pg.ColumnRef) *estimate {
	if ref == nil {
		return nil
	}
	for i := range s.a.touched.estimates {
		if e := &s.a.touched.estimates[i]; e.at == ref.Location && lastName(ref.Fields) == e.column {
			return e
		}
	}
	return nil
}

// estimated returns what stands for a reference to an estimate.
func (s *sizes) estimated(e *estimate, ref *pg.Node) *pg.Node {
	column := s.column(estimates[e.column][0], estimates[e.column][1])
	return s.sum(nameNode(e.of, "oid"), column, &pg.Node{Node: ref.Node})
}

// statistic is a family of statistics views: which of them has the rows of all relations, and what
// names a row's relation.
type statistic struct{ all, oid, name string }

// statistics are the views whose numbers are added up.
var statistics = map[string]statistic{
	"pg_stat_all_tables":     {"pg_stat_all_tables", "relid", "relname"},
	"pg_stat_user_tables":    {"pg_stat_all_tables", "relid", "relname"},
	"pg_statio_all_tables":   {"pg_statio_all_tables", "relid", "relname"},
	"pg_statio_user_tables":  {"pg_statio_all_tables", "relid", "relname"},
	"pg_stat_all_indexes":    {"pg_stat_all_indexes", "indexrelid", "indexrelname"},
	"pg_stat_user_indexes":   {"pg_stat_all_indexes", "indexrelid", "indexrelname"},
	"pg_statio_all_indexes":  {"pg_statio_all_indexes", "indexrelid", "indexrelname"},
	"pg_statio_user_indexes": {"pg_statio_all_indexes", "indexrelid", "indexrelname"},
}

// statistics notes a statistics view in FROM.
func (fr fromClause) statistics(rv *pg.RangeVar, rel *catalog.Relation) {
	if _, is := statistics[rel.Name.Name]; is && rel.System() {
		t := &fr.l.a.touched
		t.statistics = append(t.statistics, rv)
		t.sizesInView = t.sizesInView || fr.l.a.text.stored
	}
}

// readTotals makes the query read statistics views with the numbers of all shards. It reports false
// if it cannot.
func (s *sizes) readTotals(sel *pg.SelectStmt) bool {
	read := map[string]bool{}
	at := map[int32]string{}
	for _, rv := range s.a.touched.statistics {
		st := statistics[rv.Relname]
		at[rv.Location] = rv.Relname
		if !read[st.all] {
			read[st.all] = true
			s.piece("statistics of sharded tables", s.statisticsText(st), st.totals)
		}
	}
	ok := true
	parser.Walk(sel, func(m any) bool {
		switch m := m.(type) {
		case *pg.RangeTableSample:
			ok = ok && at[m.Relation.GetRangeVar().GetLocation()] == ""
		case *pg.ColumnRef:
			// The view becomes a subquery, which has no schema.
			if names := nameList(m.Fields); len(names) > 2 && statistics[names[1]].all != "" && names[0] == "pg_catalog" {
				m.Fields = m.Fields[1:]
			}
		case *pg.Node:
			rv := m.GetRangeVar()
			if rv == nil || at[rv.Location] != rv.Relname {
				return true
			}
			alias := rv.Alias
			if alias == nil {
				alias = &pg.Alias{Aliasname: rv.Relname}
			}
			m.Node = &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{Subquery: selectNode(statistics[rv.Relname].read(rv)), Alias: alias}}
			return false
		}
		return ok
	})
	return ok
}

// statisticsText returns the query for the shards: all numbers and times of each relation as JSON, so
// that it does not matter which there are in this version of PostgreSQL.
func (s *sizes) statisticsText(st statistic) string {
	return fmt.Sprintf("SELECT pg_catalog.format('%%I.%%I', s.schemaname, s.%s) AS name, pg_catalog.to_jsonb(s) - ARRAY['relid', 'indexrelid', 'schemaname', 'relname', 'indexrelname'] AS numbers"+
		" FROM pg_catalog.%s s WHERE (s.schemaname, s.%s) IN %s", st.name, st.all, st.name, s.names())
}

// totals returns a common table expression with the sums of numbers and the latest times of each
// relation.
func (st statistic) totals(piece int) *pg.Node {
	in := written(`SELECT weft_one.weft_relation, pg_catalog.jsonb_object_agg(weft_one.weft_key, weft_one.weft_value) AS weft_numbers FROM (
		SELECT pg_catalog.to_regclass(weft.c1)::pg_catalog.oid AS weft_relation, e.key AS weft_key,
			CASE pg_catalog.jsonb_typeof(e.value) WHEN 'number' THEN pg_catalog.to_jsonb(pg_catalog.sum(
				CASE pg_catalog.jsonb_typeof(e.value) WHEN 'number' THEN (e.value #>> '{}')::pg_catalog.numeric END))
			ELSE pg_catalog.to_jsonb(pg_catalog.max((e.value #>> '{}') COLLATE "C")) END AS weft_value
		FROM weft, LATERAL pg_catalog.jsonb_each(weft.c2) e WHERE pg_catalog.jsonb_typeof(e.value) <> 'null'
		GROUP BY weft.c1, e.key, pg_catalog.jsonb_typeof(e.value)) weft_one GROUP BY weft_one.weft_relation`)
	in.FromClause[0].GetRangeSubselect().Subquery.GetSelectStmt().FromClause[0] = inputNode(piece, 2, nil)
	return totals(st.sumsName(), in)
}

func (st statistic) sumsName() string { return "weft" + strings.TrimPrefix(st.all, "pg") }

// read returns a query that is the view with these sums.
func (st statistic) read(rv *pg.RangeVar) *pg.SelectStmt {
	in := written(fmt.Sprintf(`SELECT weft_row.* FROM weft_view LEFT JOIN %s weft_size ON weft_size.weft_relation OPERATOR(pg_catalog.=) weft_view.%s,
		LATERAL pg_catalog.jsonb_populate_record(weft_view, weft_size.weft_numbers) weft_row`, st.sumsName(), st.oid))
	view := proto.Clone(rv).(*pg.RangeVar)
	view.Alias = &pg.Alias{Aliasname: "weft_view"}
	in.FromClause[0].GetJoinExpr().Larg = &pg.Node{Node: &pg.Node_RangeVar{RangeVar: view}}
	return in
}
