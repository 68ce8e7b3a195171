package executor

import (
	"weft/datum"
	"weft/plan"
)

// state says what the next step of a walk has found.
type state uint8

const (
	found   state = iota // a value
	none                 // no more keys
	unknown              // a value that only the server knows, so the set restricts nothing
)

// walk goes through the keys of a set.
type walk struct {
	b      *Binder
	column datum.Column
	set    plan.Set
	stored bool
	array  array // the array being walked through, if inside
	inside bool  // whether the walk is in an array
}

func (b *Binder) walk(in *plan.Instance, c datum.Column, set plan.Set) walk {
	return walk{b: b, column: c, set: set, stored: in.Stored}
}

// next returns the next key. It skips values that no row has.
func (w *walk) next() (datum.Key, state) {
	for {
		var v datum.Value
		switch {
		case w.inside:
			var more, ok bool
			if v, more, ok = w.array.next(&w.b.buf); !ok {
				return datum.Key{}, unknown
			}
			if w.inside = more; !more {
				continue
			}
			if v.Bytes == nil {
				// With array_nulls off, an unquoted NULL is a text.
				if w.array.bare && w.column.Type != datum.Int8 && w.column.Type != datum.Int4 {
					return datum.Key{}, unknown
				}
				continue
			}
			if w.b.args.ASCII && !isASCII(v) {
				return datum.Key{}, unknown
			}
		case len(w.set) == 0:
			return datum.Key{}, none
		default:
			src := &w.set[0]
			w.set = w.set[1:]
			switch src.Kind {
			case plan.Null:
				return datum.Key{}, found
			case plan.Array, plan.ParamArray:
				a, null, ok := w.b.elements(src)
				if !ok || w.stored {
					return datum.Key{}, unknown
				}
				w.array, w.inside = a, !null
				continue
			}
			var ok bool
			if v, ok = w.b.value(src); !ok {
				return datum.Key{}, unknown
			}
		}
		key, err := w.key(v)
		if err == nil {
			return key, found
		}
		if w.undecided(err) {
			return datum.Key{}, unknown
		}
	}
}

func (w *walk) key(v datum.Value) (datum.Key, error) {
	return w.column.Place(v, w.stored)
}

// undecided reports whether the value may match any key. If not, the value matches none: nothing
// equals it, or PostgreSQL refuses it on any shard.
func (w *walk) undecided(err error) bool {
	e, ok := err.(*datum.Error)
	return !ok || e.Verdict == datum.Undecided || w.stored && e.Verdict != datum.Invalid
}
