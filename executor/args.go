package executor

import (
	"encoding/binary"

	"weft/datum"
	"weft/heat"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/parser"
	"weft/plan"
)

// Args are the values of one execution. The caller owns all their bytes.
type Args struct {
	// Text is the client's text; Literals are what its scan under Options found.
	Text     []byte
	Literals []parser.Literal
	Options  parser.Options

	// Params are the values of a Bind message.
	Params Params
	// Types are the types of the parameters as the server resolved them, 0 for an unknown type.
	// Types overrule the types in the plan.
	Types []datum.Type

	// Settings tells the values of custom parameters, for Policies. Nil if none is known.
	Settings Settings

	// Generated are the values weft supplies, as text.
	Generated [][]byte

	// Found holds what lookups said of the values of this execution.
	Found map[*plan.LookupKey]*Found

	// ASCII says that client_encoding or the server's encoding is not UTF8, so only values of
	// plain ASCII are known to be stored as they were sent.
	ASCII bool

	// Watch are the keys whose values are wanted, and Database is the database that the plan is for.
	// Nil for none.
	Watch    *heat.Watch
	Database string

	// Limits are the keys and buckets that are limited. Nil for none.
	Limits *throttle.Places
	// Hot are the keys that are hot. Nil for none.
	Hot *queue.Table
}

// Settings tells the values of custom parameters of a session.
type Settings interface {
	// Setting returns the value that a parameter has for certain while the statement runs. The name is
	// in lower case.
	Setting(name string) (value string, known bool)
}

// Params is a view of the parameters in the body of a Bind message.
type Params struct {
	formats []byte // format codes of two bytes
	values  []byte // values with their lengths; may hold more bytes after the last value
	count   int
}

// DecodeParams reads what follows the names in the body of a Bind message. It reports false if
// the formats or the counts are malformed; values are checked when they are used.
func DecodeParams(body []byte) (Params, bool) {
	if len(body) < 2 {
		return Params{}, false
	}
	n := 2 * int(binary.BigEndian.Uint16(body))
	if len(body) < 2+n+2 {
		return Params{}, false
	}
	p := Params{formats: body[2 : 2+n], values: body[2+n+2:], count: int(binary.BigEndian.Uint16(body[2+n:]))}
	if n > 2 && n != 2*p.count {
		return Params{}, false
	}
	return p, true
}

// Len returns the number of parameters.
func (p Params) Len() int { return p.count }

// At returns parameter i and its format code; nil is NULL. It reports false if there is no such
// parameter or the message is malformed.
func (p Params) At(i int) (v []byte, format int16, ok bool) {
	if i < 0 || i >= p.count {
		return nil, 0, false
	}
	at := 0
	for range i {
		if _, at, ok = p.value(at); !ok {
			return nil, 0, false
		}
	}
	v, _, ok = p.value(at)
	return v, int16(p.format(i)), ok
}

// format returns the format of parameter i: no code means text for all, one
// code is for all.
func (p Params) format(i int) datum.Format {
	switch len(p.formats) {
	case 0:
		return datum.TextFormat
	case 2:
		i = 0
	}
	return datum.Format(binary.BigEndian.Uint16(p.formats[2*i:]))
}

// value cuts the value at an offset out of values: nil is NULL. next is the
// offset of the value after it.
func (p Params) value(at int) (v []byte, next int, ok bool) {
	if len(p.values)-at < 4 {
		return nil, 0, false
	}
	size := int(int32(binary.BigEndian.Uint32(p.values[at:])))
	at += 4
	switch {
	case size == -1:
		return nil, at, true
	case size < 0 || size > len(p.values)-at:
		return nil, 0, false
	}
	return p.values[at : at+size : at+size], at + size, true
}

// param returns parameter i. It keeps the offsets of the parameters before i, so that asking for
// all parameters in any order takes one walk.
func (b *Binder) param(i int) (v []byte, ok bool) {
	p := &b.args.Params
	if i < 0 || i >= p.count {
		return nil, false
	}
	if len(b.offsets) == 0 {
		b.offsets = append(b.offsets, 0)
	}
	for len(b.offsets) <= i {
		_, next, ok := p.value(b.offsets[len(b.offsets)-1])
		if !ok {
			return nil, false
		}
		b.offsets = append(b.offsets, next)
	}
	v, _, ok = p.value(b.offsets[i])
	return v, ok
}

// TextParams makes parameters of values that come from no message, all in text format; nil is
// NULL.
func TextParams(values [][]byte) Params {
	p := Params{count: len(values)}
	for _, v := range values {
		size := uint32(len(v))
		if v == nil {
			size = 0xffffffff
		}
		p.values = append(binary.BigEndian.AppendUint32(p.values, size), v...)
	}
	return p
}
