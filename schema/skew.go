package schema

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// The limits from which a key is reported to spread rows badly.
const (
	skewRows    = 1000 // fewer rows prove nothing
	skewShare   = 5    // per cent of all rows that have one key
	skewBuckets = 10   // buckets in use, or values, for each shard
	skewOrder   = 0.95 // correlation of values with the order in which rows were written
)

// skew warns of a key that puts too many rows in one place. counts has the number of rows of each
// bucket: exact, because all rows were counted anyway.
func (d *declaration) skew(counts [][]string, total int64) error {
	if total <= skewRows || len(d.shards) == 0 {
		return nil
	}
	key := strings.Join(d.req.Columns, ", ")
	if len(counts) < skewBuckets*len(d.snap.Shards) {
		d.warn(fmt.Sprintf("%d rows of %s have keys (%s) in %d of %d buckets only", total, d.req.name(), key, len(counts), d.snap.BucketCount),
			fmt.Sprintf("%d shards cannot share them evenly. A key with more distinct values spreads better.", len(d.snap.Shards)))
	}
	var most, bucket int64
	for _, r := range counts {
		if n := number(r[1]); n > most {
			most, bucket = n, number(r[0])
		}
	}
	if most*100 <= total*skewShare {
		return nil
	}
	var columns []string
	for _, c := range d.req.Columns {
		columns = append(columns, quote.Ident(c))
	}
	list := strings.Join(columns, ", ")
	rows, err := d.home.Exec(fmt.Sprintf("SELECT count(*), concat_ws(', ', %s) FROM %s WHERE %s = %d GROUP BY %s ORDER BY 1 DESC LIMIT 1", list, d.req.Table.SQL(), d.bucket, bucket, list))
	if err != nil {
		return err
	}
	if len(rows) == 1 && number(rows[0][0])*100 > total*skewShare {
		value := rows[0][1]
		if len(value) > 60 {
			value = strings.ToValidUTF8(value[:60], "") + "…"
		}
		d.warn(fmt.Sprintf("%s of %d rows of %s (%d %%) have the same key (%s) = (%s)", rows[0][0], total, d.req.name(), number(rows[0][0])*100/total, key, value),
			"All of them are on one shard. A key with more even values, or one more column in it, spreads better.")
	}
	return nil
}

// foresee warns of what PostgreSQL's statistics say against a key: few values, a value that many rows have, and values
// that count up where the vindex keeps their order. counted says that skew has counted all rows.
func foresee(s *session, req *Request, t *directory.Table, shards int, counted bool, notice Notice) error {
	rows, err := s.Exec(fmt.Sprintf(`SELECT s.attname, CASE WHEN s.n_distinct < 0 THEN -s.n_distinct * c.reltuples ELSE s.n_distinct END, coalesce(s.most_common_freqs[1], 0), coalesce(s.correlation, 0)
FROM pg_catalog.pg_stats s JOIN pg_catalog.pg_class c ON c.oid = %s::regclass WHERE s.schemaname = %s AND s.tablename = %s AND s.attname = ANY (%s) AND c.reltuples > %d ORDER BY s.inherited`,
		quote.Literal(req.Table.SQL()), quote.Literal(req.Table.Schema), quote.Literal(req.Table.Name), quote.Array(req.Columns), skewRows))
	if err != nil {
		return err
	}
	kind := t.Vindex.Kind
	for _, r := range rows {
		distinct, _ := strconv.ParseFloat(r[1], 64)
		most, _ := strconv.ParseFloat(r[2], 64)
		order, _ := strconv.ParseFloat(r[3], 64)
		if few := float64(skewBuckets * shards); len(req.Columns) == 1 && !counted && distinct > 0 && distinct < few {
			notice.warn(fmt.Sprintf("the key column %q of %s has about %.0f values only", r[0], req.name(), distinct),
				fmt.Sprintf("%d shards cannot share them evenly. A key with more distinct values, at least %.0f, spreads better.", shards, few))
		}
		if len(req.Columns) == 1 && !counted && most*100 > skewShare {
			notice.warn(fmt.Sprintf("about %.0f %% of the rows of %s have the same value of the key column %q", most*100, req.name(), r[0]),
				"All of them are on one shard. A key with more even values, or one more column in it, spreads better.")
		}
		if (kind == "range" || kind == "identity") && math.Abs(order) > skewOrder {
			notice.warn(fmt.Sprintf("values of the key column %q of %s come in the order of time, and vindex %s keeps their order", r[0], req.name(), kind),
				"All new rows go to one shard. The vindexes hash and reverse_bits spread values that count up.")
		}
	}
	return nil
}

func (n Notice) warn(message, hint string) {
	n(&pgerr.Error{Severity: pgerr.SeverityWarning, Code: "01000", Message: message, Hint: hint})
}

func (d *declaration) warn(message, hint string) {
	d.notice.warn(message, hint)
}
