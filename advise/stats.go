package advise

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"

	"weft/catalog"
	"weft/directory"
)

// TableSQL and ColumnSQL ask a server for the statistics of a database, for ReadStats.
const (
	TableSQL = `SELECT n.nspname, c.relname, c.reltuples,
 CASE c.relkind WHEN 'p' THEN (SELECT pg_catalog.sum(pg_catalog.pg_total_relation_size(t.relid)) FROM pg_catalog.pg_partition_tree(c.oid) t) ELSE pg_catalog.pg_total_relation_size(c.oid) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'weft') AND n.nspname !~ '^pg_t'`
	ColumnSQL = `SELECT s.schemaname, s.tablename, s.attname, s.n_distinct, s.null_frac, coalesce(s.correlation, 0), pg_catalog.array_to_string(s.most_common_freqs, ',')
FROM pg_catalog.pg_stats s WHERE s.schemaname NOT IN ('pg_catalog', 'information_schema', 'weft') ORDER BY s.inherited`
)

// ReadStats makes statistics of the rows of TableSQL and ColumnSQL.
func ReadStats(tables, columns [][]string) map[catalog.Name]TableStats {
	number := func(s string) float64 {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
			return 0
		}
		return f
	}
	out := map[catalog.Name]TableStats{}
	for _, r := range tables {
		t := TableStats{Rows: number(r[2]), Bytes: number(r[3]), Columns: map[string]ColumnStats{}}
		if t.Rows < 0 {
			t.Rows = t.Bytes / 100 // never analyzed
		}
		out[catalog.Name{Schema: r[0], Name: r[1]}] = t
	}
	for _, r := range columns {
		t, ok := out[catalog.Name{Schema: r[0], Name: r[1]}]
		if !ok {
			continue
		}
		c := ColumnStats{Distinct: number(r[3]), Null: number(r[4]), Correlation: number(r[5])}
		for f := range strings.SplitSeq(r[6], ",") {
			if part := number(f); part > 0 {
				c.Common = append(c.Common, part)
			}
		}
		t.Columns[r[2]] = c
	}
	return out
}

// MergeStats makes one picture of the statistics of all shards, the home shard's first.
func MergeStats(shards []map[catalog.Name]TableStats, declared []directory.Table) map[catalog.Name]TableStats {
	out := shards[0]
	for i := range declared {
		d := &declared[i]
		n := catalog.Name{Schema: d.Schema, Name: d.Name}
		if d.Kind != directory.Sharded {
			continue
		}
		var parts []TableStats
		for _, s := range shards {
			if t, ok := s[n]; ok {
				parts = append(parts, t)
			}
		}
		key := ""
		if len(d.Columns) > 0 {
			key = d.Columns[0].Name
		}
		out[n] = mergeTables(parts, key)
	}
	return out
}

// mergeTables adds up the parts of one sharded table. Values of the key are on one shard each.
func mergeTables(parts []TableStats, key string) TableStats {
	sum := TableStats{Columns: map[string]ColumnStats{}}
	for _, p := range parts {
		sum.Rows, sum.Bytes = sum.Rows+p.Rows, sum.Bytes+p.Bytes
	}
	for _, p := range parts {
		part := ratio(p.Rows, sum.Rows)
		for name, c := range p.Columns {
			m := sum.Columns[name]
			m.Null += c.Null * part
			if math.Abs(c.Correlation) > math.Abs(m.Correlation) {
				m.Correlation = c.Correlation
			}
			switch d := c.distinct(p.Rows); {
			case name == key || c.Distinct < 0:
				m.Distinct += d
			default:
				m.Distinct = max(m.Distinct, d)
			}
			for i, f := range c.Common {
				if name == key {
					m.Common = append(m.Common, f*part)
				} else if i < len(m.Common) {
					m.Common[i] += f * part
				} else {
					m.Common = append(m.Common, f*part)
				}
			}
			sum.Columns[name] = m
		}
	}
	for name, c := range sum.Columns {
		slices.SortFunc(c.Common, func(a, b float64) int { return cmp.Compare(b, a) })
		sum.Columns[name] = c
	}
	return sum
}
