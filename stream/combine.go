package stream

import (
	"slices"

	"weft/plan"
)

// newCombiner returns the combiner for an output, nil if PostgreSQL has to make the output.
func newCombiner(a *plan.Aggregate, o plan.Output, types []Type, m *memory) combiner {
	if o.Column < 0 || o.Column >= len(types) {
		return nil
	}
	t := types[o.Column]
	if t.Format != textFormat && t.Format != binaryFormat {
		return nil
	}
	switch o.Kind {
	case plan.Group:
		if i := slices.Index(a.Groups, o.Column); i >= 0 {
			return groupValue(i)
		}
	case plan.CombineCount:
		if t.OID == oidInt8 {
			return &integers{op: addInteger, zero: true, form: t, memory: m}
		}
	case plan.CombineSum:
		return newSum(t, m)
	case plan.CombineMin, plan.CombineMax:
		if compare, ok := t.comparer(); ok {
			return &extreme{compare: compare, max: o.Kind == plan.CombineMax, memory: m}
		}
	case plan.CombineAvg:
		if o.Count >= 0 && o.Count < len(types) && types[o.Count].OID == oidInt8 {
			return newAverage(t, types[o.Count], m)
		}
	case plan.CombineAnd, plan.CombineOr:
		if t.OID == oidBool {
			return &booleans{or: o.Kind == plan.CombineOr, format: t.Format, memory: m}
		}
	case plan.CombineBitAnd, plan.CombineBitOr:
		if t.OID == oidInt2 || t.OID == oidInt4 || t.OID == oidInt8 {
			if o.Kind == plan.CombineBitAnd {
				return &integers{op: andInteger, form: t, memory: m}
			}
			return &integers{op: orInteger, form: t, memory: m}
		}
	}
	return nil
}

func newSum(t Type, m *memory) combiner {
	switch t.OID {
	case oidInt8:
		return &integers{op: addInteger, form: t, memory: m}
	case oidNumeric:
		return &decimals{form: t, memory: m}
	case oidFloat4, oidFloat8:
		if t.Format == binaryFormat || t.Shortest {
			return &floats{form: t, memory: m}
		}
	}
	return nil
}

func newAverage(t, counts Type, m *memory) combiner {
	switch t.OID {
	case oidInt8, oidNumeric:
		return &decimals{form: t, average: true, counts: counts, memory: m}
	case oidFloat8:
		if t.Format == binaryFormat || t.Shortest {
			return &floats{form: t, average: true, counts: counts, memory: m}
		}
	}
	// A partial sum of float4 is rounded to float4, which an average must not be.
	return nil
}

// groupValue is the combiner for the n-th column that rows are grouped by.
type groupValue int

func (groupValue) grow()                         {}
func (groupValue) reset()                        {}
func (groupValue) add(int, []byte, []byte) error { return nil }

func (n groupValue) emit(dst []byte, _ int, key []byte) ([]byte, error) {
	at := 0
	var value []byte
	for range n + 1 {
		if value, at = field(key, at); at < 0 {
			return nil, errRow
		}
	}
	return appendField(dst, value), nil
}

// extreme is the combiner for the least or the greatest value.
type extreme struct {
	compare Comparer
	max     bool
	values  [][]byte // one for each group, nil for NULL
	memory  *memory
}

func (e *extreme) grow() { e.values = extend(e.values, nil, e.memory) }

func (e *extreme) reset() {
	e.memory.used -= int64(cap(e.values[0]))
	e.values[0] = nil
}

func (e *extreme) add(group int, value, _ []byte) error {
	if value == nil {
		return nil
	}
	old := e.values[group]
	if old != nil {
		if c := e.compare(value, old); c == 0 || c > 0 != e.max {
			return nil
		}
	}
	if old == nil || cap(old) < len(value) {
		e.memory.used += int64(len(value) - cap(old))
		old = make([]byte, 0, len(value))
	}
	e.values[group] = append(old[:0], value...)
	return nil
}

func (e *extreme) emit(dst []byte, group int, _ []byte) ([]byte, error) {
	return appendField(dst, e.values[group]), nil
}

// booleans is the combiner for bool_and and bool_or.
type booleans struct {
	or     bool
	format int16
	states []boolState
	memory *memory
}

type boolState struct{ seen, value bool }

func (b *booleans) grow() { b.states = extend(b.states, boolState{}, b.memory) }

func (b *booleans) reset() { b.states[0] = boolState{} }

func (b *booleans) add(group int, value, _ []byte) error {
	if value == nil {
		return nil
	}
	if len(value) != 1 {
		return errValue
	}
	v := value[0] == 't'
	if b.format == binaryFormat {
		v = value[0] != 0
	}
	s := &b.states[group]
	switch {
	case !s.seen:
		*s = boolState{true, v}
	case b.or:
		s.value = s.value || v
	default:
		s.value = s.value && v
	}
	return nil
}

func (b *booleans) emit(dst []byte, group int, _ []byte) ([]byte, error) {
	s := b.states[group]
	forms := [2][2]string{{"f", "t"}, {"\x00", "\x01"}}
	switch {
	case !s.seen:
		return appendField(dst, nil), nil
	case s.value:
		return appendField(dst, []byte(forms[b.format][1])), nil
	}
	return appendField(dst, []byte(forms[b.format][0])), nil
}
