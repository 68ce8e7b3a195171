package proxy

import (
	"weft/finish"
	"weft/plan"
	"weft/pool"
)

// intake is the rows that have come from the shards and that a later text reads: the remainder
// of a query, a write, or a step before a write. The rows are parameters of that text, or, if
// they are too many, in temporary tables of a separate backend (stage.go).
//
// stager is not nil as long as the separate backend exists, and stage only while stager is not
// nil. A gathering whose role may not create temporary tables never has a stage again.
type intake struct {
	inputs *finish.Inputs
	stage  *finish.Stage
	stager *pool.Conn // the connection that has the stage
	noTemp bool       // the client's role may not create temporary tables
}

// keep keeps a row. It reports whether the rows are now too many to be parameters.
func (k *intake) keep(row []byte) (full bool, err error) {
	if k.stage != nil {
		return false, apart(k.stage.Add(row))
	}
	return k.inputs.Add(row)
}

// bind lets a text read the rows: fill names them in the text. bind returns the types and values
// of the text's parameters, which are the client's, given here, and those that carry rows.
func (k *intake) bind(fill *plan.Fill, types []uint32, values []byte) ([]uint32, []byte, error) {
	switch {
	case k.stage != nil:
		fill.Input = k.stage.AppendInput
		return types, values, nil
	case k.inputs != nil:
		fill.Input = k.inputs.AppendInput
		values, err := k.inputs.AppendBind(nil, values)
		return k.inputs.AppendTypes(types[:len(types):len(types)]), values, err
	}
	return types, values, nil
}

// keys returns the values of a column, if they are few enough to be sent to other shards.
func (k *intake) keys(piece, column int) (keySet, bool) {
	if k.inputs == nil || k.stage != nil {
		return keySet{}, false
	}
	value, typ, ok := k.inputs.Keys(piece, column)
	return keySet{value, typ}, ok
}
