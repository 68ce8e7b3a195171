package schema

import (
	"fmt"
	"strings"

	"weft/pgerr"
	"weft/quote"
)

// The limits from which a key is reported to spread rows badly.
const (
	skewRows    = 1000 // fewer rows prove nothing
	skewShare   = 10   // per cent of all rows that have one key
	skewBuckets = 4    // buckets in use for each shard
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

func (d *declaration) warn(message, hint string) {
	d.notice(&pgerr.Error{Severity: pgerr.SeverityWarning, Code: "01000", Message: message, Hint: hint})
}
