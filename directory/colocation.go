package directory

import (
	"encoding/json"
	"hash/fnv"

	"weft/datum"
)

// Colocation is a number for the tables of a database whose rows with equal keys are on one shard:
// tables with the same vindex and the same kinds of key columns have the same number. It is not 0,
// except for a table without a key.
func (t *Table) Colocation() uint32 {
	if len(t.Columns) == 0 {
		return 0
	}
	h := fnv.New32a()
	e := json.NewEncoder(h)
	_ = e.Encode([]any{t.Vindex.Kind, t.Vindex.Name}) // neither a hash nor what was JSON fails
	if len(t.Vindex.Params) > 0 {
		_ = e.Encode(t.Vindex.Params)
	}
	if t.Vindex.Buckets > 0 {
		_ = e.Encode(t.Vindex.Buckets)
	}
	for _, c := range t.Columns {
		_ = e.Encode(kindOf(datum.Type(c.Type)))
	}
	return max(h.Sum32(), 1)
}

// kindOf groups the types whose equal values hash alike.
func kindOf(t datum.Type) datum.Type {
	switch t {
	case datum.Int2, datum.Int4:
		return datum.Int8
	case datum.Varchar, datum.Bpchar:
		return datum.Text
	}
	return t
}
