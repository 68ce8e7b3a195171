package executor

import (
	"encoding/binary"

	"weft/datum"
	"weft/parser"
	"weft/plan"
)

// value returns the value of a source that is no array. It reports false if only the server knows
// the value.
func (b *Binder) value(src *plan.Source) (datum.Value, bool) {
	if src.Negative && src.Kind != plan.Literal || src.Kind == plan.Computed {
		if src.Kind == plan.Computed && src.Expr.Func() != "" {
			return b.cased(src.Expr)
		}
		return b.computed(src)
	}
	v, ok := b.plain(src)
	return v, ok && (!b.args.ASCII || isASCII(v))
}

// plain is value for a source that needs no arithmetic.
func (b *Binder) plain(src *plan.Source) (datum.Value, bool) {
	a := b.args
	switch src.Kind {
	case plan.Literal:
		if src.Index >= len(a.Literals) {
			return datum.Value{}, false
		}
		return b.literal(a.Literals[src.Index], src)
	case plan.Param:
		raw, ok := b.param(src.Index)
		if !ok {
			return datum.Value{}, false
		}
		typ, ok := b.paramType(src)
		return datum.Value{Type: typ, Format: a.Params.format(src.Index), Bytes: raw}, ok
	case plan.Generated:
		if src.Index >= len(a.Generated) {
			return datum.Value{}, false
		}
		return datum.Value{Type: src.Type, Bytes: a.Generated[src.Index]}, true
	case plan.Constant:
		start := len(b.buf)
		b.buf = append(b.buf, src.Text...)
		return datum.Value{Type: src.Type, Bytes: b.since(start)}, true
	case plan.Setting:
		if a.Settings == nil {
			return datum.Value{}, false
		}
		text, ok := a.Settings.Setting(src.Text)
		start := len(b.buf)
		b.buf = append(b.buf, text...)
		return datum.Value{Type: src.Type, Bytes: b.since(start)}, ok
	case plan.Null:
		return datum.Value{Type: src.Type}, true
	}
	return datum.Value{}, false
}

// literal returns the value of a literal that is taken for src.Type.
func (b *Binder) literal(l parser.Literal, src *plan.Source) (datum.Value, bool) {
	start := len(b.buf)
	var natural datum.Type
	switch l.Kind {
	case parser.String, parser.NationalString:
		v := datum.Value{Type: src.Type}
		if l.Kind == parser.NationalString && (src.Type == datum.Unknown || src.Type == 0) {
			v.Type = datum.Bpchar
		}
		var ok bool
		b.buf, ok = l.AppendValue(b.buf, b.args.Text, b.args.Options)
		v.Bytes = b.since(start)
		return v, ok && !src.Negative
	case parser.Int:
		natural = datum.Int4
	case parser.IntMin:
		natural = datum.Int8
		if src.Negative {
			natural = datum.Int4
		}
	case parser.Int8:
		natural = datum.Int8
	case parser.Int8Min:
		natural = datum.Numeric
		if src.Negative {
			natural = datum.Int8
		}
	case parser.Numeric:
		natural = datum.Numeric
	default:
		return datum.Value{}, false
	}
	v := datum.Value{Type: natural, Bytes: b.args.Text[l.Start:l.End]}
	switch {
	case src.Type == 0 || src.Type == datum.Unknown || src.Type == natural:
	case isInteger(natural) && (isInteger(src.Type) || src.Type == datum.Numeric):
		v.Type = src.Type
	default:
		return v, false // the cast changes the value: it rounds, or makes a text of the number
	}
	if src.Negative {
		b.buf = append(append(b.buf, '-'), v.Bytes...)
		v.Bytes = b.since(start)
	}
	return v, true
}

// since returns the bytes appended to the buffer from start on, never nil, which would be NULL.
func (b *Binder) since(start int) []byte {
	if b.buf == nil {
		b.buf = make([]byte, 0, 64)
	}
	return b.buf[start:len(b.buf):len(b.buf)]
}

// paramType returns the type of a parameter's value. It reports false if the text casts the
// parameter to a type with other values.
func (b *Binder) paramType(src *plan.Source) (datum.Type, bool) {
	var typ datum.Type
	if src.Index < len(b.args.Types) {
		typ = b.args.Types[src.Index]
	}
	if typ == 0 && src.Index < len(b.plan.Params) {
		typ = b.plan.Params[src.Index]
	}
	if src.Kind == plan.ParamArray && typ != 0 && typ != datum.Unknown {
		if typ = elementType(typ); typ == 0 {
			return 0, false
		}
	}
	cast := src.Type
	switch {
	case typ == 0 || typ == datum.Unknown:
		return cast, true
	case cast == 0 || cast == datum.Unknown || cast == typ:
		return typ, true
	case isInteger(typ) && (isInteger(cast) || cast == datum.Numeric):
		return typ, true // the same number, or an error on any shard
	case (typ == datum.Text || typ == datum.Varchar) && (cast == datum.Text || cast == datum.Varchar):
		return typ, true
	}
	return typ, false
}

// elements returns a walk over the elements of a source that is an array. null says that the
// array itself is NULL. ok is false if only the server knows the elements.
func (b *Binder) elements(src *plan.Source) (a array, null, ok bool) {
	var v datum.Value
	switch {
	case src.Negative:
	case src.Kind == plan.Array && src.Index < len(b.args.Literals):
		l := b.args.Literals[src.Index]
		if l.Kind != parser.String {
			return a, false, false
		}
		start := len(b.buf)
		b.buf, ok = l.AppendValue(b.buf, b.args.Text, b.args.Options)
		v = datum.Value{Type: src.Type, Bytes: b.since(start)}
	case src.Kind == plan.ParamArray:
		var raw []byte
		if raw, ok = b.param(src.Index); !ok {
			return a, false, false
		}
		var typ datum.Type
		typ, ok = b.paramType(src)
		v = datum.Value{Type: typ, Format: b.args.Params.format(src.Index), Bytes: raw}
		if raw == nil {
			return a, true, ok
		}
	}
	if !ok {
		return a, false, false
	}
	a, ok = newArray(v)
	return a, false, ok
}

// computed returns the value of integer arithmetic.
func (b *Binder) computed(src *plan.Source) (datum.Value, bool) {
	n, typ, null, ok := b.number(src)
	if !ok || null {
		return datum.Value{Type: typ}, ok
	}
	start := len(b.buf)
	b.buf = binary.BigEndian.AppendUint64(b.buf, uint64(n))
	// number has checked the range; every column takes an int8 for the same number.
	return datum.Value{Type: datum.Int8, Format: datum.BinaryFormat, Bytes: b.since(start)}, true
}

// cased returns a text in lower or upper case. It reports false unless the case of all characters is
// the same in all locales: ASCII, but for I and i, which Turkish pairs with other letters.
func (b *Binder) cased(e *plan.Expr) (datum.Value, bool) {
	v, ok := b.plain(&e.Left)
	switch {
	case !ok:
		return v, false
	case v.Bytes == nil:
		return datum.Value{Type: datum.Text}, true
	case v.Type != datum.Text && v.Type != datum.Varchar && v.Type != datum.Unknown && v.Type != 0:
		return v, false
	}
	start := len(b.buf)
	for _, c := range v.Bytes {
		switch {
		case c >= 0x80, e.Op == plan.Lower && c == 'I', e.Op == plan.Upper && c == 'i':
			return v, false
		case e.Op == plan.Lower && c >= 'A' && c <= 'Z', e.Op == plan.Upper && c >= 'a' && c <= 'z':
			c ^= 'a' - 'A'
		}
		b.buf = append(b.buf, c)
	}
	return datum.Value{Type: datum.Text, Bytes: b.since(start)}, true
}

// number evaluates a source that is a whole number. It reports false for any other source, and
// if PostgreSQL would raise an error.
func (b *Binder) number(src *plan.Source) (n int64, typ datum.Type, null, ok bool) {
	if src.Kind == plan.Computed {
		n, typ, null, ok = b.arithmetic(src.Expr)
	} else {
		unsigned := *src
		unsigned.Negative = src.Negative && src.Kind == plan.Literal
		var v datum.Value
		if v, ok = b.plain(&unsigned); !ok || !isInteger(v.Type) {
			return 0, 0, false, false
		}
		typ, null = v.Type, v.Bytes == nil
		if !null {
			k, err := datum.Column{Type: v.Type}.Match(v)
			n, ok = k.Int(), err == nil
		}
		if unsigned.Negative {
			return n, typ, null, ok
		}
	}
	if ok && isInteger(src.Type) && src.Type != typ {
		typ = src.Type
		ok = null || inRange(n, typ)
	} else if src.Type != 0 && src.Type != datum.Unknown && src.Type != typ {
		return 0, 0, false, false
	}
	if ok && src.Negative && !null {
		if n = -n; n == -n && n != 0 || !inRange(n, typ) {
			return 0, 0, false, false
		}
	}
	return n, typ, null, ok
}

// arithmetic evaluates +, - or * on two whole numbers. It reports false if the result overflows
// its type.
func (b *Binder) arithmetic(e *plan.Expr) (n int64, typ datum.Type, null, ok bool) {
	if e == nil {
		return 0, 0, false, false
	}
	x, xt, xnull, ok := b.number(&e.Left)
	if !ok {
		return 0, 0, false, false
	}
	y, yt, ynull, ok := b.number(&e.Right)
	if !ok {
		return 0, 0, false, false
	}
	typ = wider(xt, yt)
	if xnull || ynull {
		return 0, typ, true, true
	}
	switch e.Op {
	case '+':
		n = x + y
		ok = (n > x) == (y > 0)
	case '-':
		n = x - y
		ok = (n < x) == (y > 0)
	case '*':
		n = x * y
		ok = x == 0 || n/x == y && !(x == -1 && y == n && y != 0)
	default:
		ok = false
	}
	return n, typ, false, ok && inRange(n, typ)
}

func isInteger(t datum.Type) bool { return t == datum.Int2 || t == datum.Int4 || t == datum.Int8 }

// wider is the type of an operator's result on two integer types.
func wider(a, b datum.Type) datum.Type {
	switch {
	case a == datum.Int8 || b == datum.Int8:
		return datum.Int8
	case a == datum.Int4 || b == datum.Int4:
		return datum.Int4
	}
	return datum.Int2
}

// inRange reports whether an integer type holds n.
func inRange(n int64, t datum.Type) bool {
	switch t {
	case datum.Int2:
		return n == int64(int16(n))
	case datum.Int4:
		return n == int64(int32(n))
	}
	return true
}

// isASCII reports whether a value has the same bytes in all encodings: it is ASCII, or binary and
// of a type without characters.
func isASCII(v datum.Value) bool {
	if v.Format == datum.BinaryFormat && v.Type != datum.Text && v.Type != datum.Varchar && v.Type != datum.Bpchar {
		return true
	}
	for _, c := range v.Bytes {
		if c >= 0x80 {
			return false
		}
	}
	return true
}
