package advise

import (
	"fmt"
	"math"
	"slices"

	"weft/catalog"
	"weft/quote"
)

const (
	// saltedPart is the part of one shard's share that one place of a salted value may have.
	saltedPart = 0.25
	// maxSpread bounds over how many places one value is spread.
	maxSpread = 256
	// inWrites is the share of the writes of a table that must say the second column.
	inWrites = 0.8
)

// Salt advises to spread a value that is too heavy for one shard over several places.
type Salt struct {
	Table  string `json:"table"`
	Key    string `json:"key"`
	Second string `json:"second"`
	Spread int    `json:"spread"`
	// Price is how many times the work of reads grows: the share of the reads of the table that know the
	// key alone, times the spread.
	Price float64 `json:"price"`
	SQL   string  `json:"sql"`
	Note  string  `json:"note"`
}

// spreadFor is how many places a value with that share of all work needs: each should have a quarter
// of one shard's share at most.
func spreadFor(share float64, shards int) int {
	n := math.Ceil(math.Log2(share / (saltedPart / float64(shards))))
	return int(min(math.Pow(2, max(n, 1)), maxSpread))
}

// salt advises a second column for the sharded table with the most writes, if one value is too heavy.
func (w *work) salt(c *Candidate) *Salt {
	if c.Largest < 1/(2*float64(w.in.Shards)) {
		return nil
	}
	var table catalog.Name
	most := 0.0
	for _, r := range c.Sharded {
		if u := w.usage[r.Table]; u.writes > most {
			table, most = r.Table, u.writes
		}
	}
	if most == 0 {
		return nil
	}
	key := c.hyp.keys[table]
	second := w.second(table, key)
	if second == "" {
		return nil
	}
	s := &Salt{Table: Display(table), Key: key, Second: second, Spread: spreadFor(c.Largest, w.in.Shards)}
	s.Price = w.price(Ref{table, key}, Ref{table, second}, s.Spread)
	s.SQL = fmt.Sprintf("SELECT weft.shard_table(%s, %s, vindex => 'salted', spread => '%d');",
		quote.Literal(written(table)), quote.Literal(word(key)+", "+word(second)), s.Spread)
	s.Note = "tables that are to be joined with it on one shard need the same two columns; a counter is better split into rows, one for each of several numbers, which reads sum up"
	return s
}

// second returns the column with the most values that nearly all writes of a table say.
func (w *work) second(table catalog.Name, key string) string {
	writes, said := 0.0, map[string]float64{}
	for i := range w.statements {
		s := &w.statements[i]
		if !slices.Contains(s.sight.written, table) {
			continue
		}
		writes += s.calls
		var columns []string
		for _, r := range slices.Concat(s.sight.known, s.sight.values) {
			if r.Table == table {
				columns = appendNew(columns, r.Column)
			}
		}
		for _, column := range columns {
			said[column] += s.calls
		}
	}
	stats := w.in.Tables[table]
	best, most := "", 0.0
	rel := w.in.Schema.Relation(table)
	for i := range rel.Columns {
		name := rel.Columns[i].Name
		if name == key || said[name] < inWrites*writes || w.kind(Ref{table, name}) == 0 || !rel.Columns[i].NotNull {
			continue
		}
		if d := max(stats.Columns[name].distinct(stats.Rows), 1); d > most {
			best, most = name, d
		}
	}
	return best
}

// price is how many times the work of the reads of a table grows, if those that know the key alone
// visit all places of a value.
func (w *work) price(key, second Ref, spread int) float64 {
	reads, alone := 0.0, 0.0
	for i := range w.statements {
		s := &w.statements[i]
		if !slices.Contains(s.sight.tables, key.Table) || slices.Contains(s.sight.written, key.Table) {
			continue
		}
		reads += s.weight
		if slices.Contains(s.sight.values, key) && !slices.Contains(s.sight.values, second) {
			alone += s.weight
		}
	}
	part := ratio(alone, reads)
	return 1 - part + part*float64(spread)
}
