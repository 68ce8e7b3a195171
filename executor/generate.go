package executor

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/quote"
	"weft/wire"
)

// LiteralEdits returns the edits that write the values weft supplies into a text of the simple
// protocol. literals are those of the text's scan; values has one for each of g.Values.
func LiteralEdits(g *plan.Generate, text []byte, literals []parser.Literal, values [][]byte) (parser.Edits, error) {
	if len(values) != len(g.Values) {
		return nil, fmt.Errorf("generate: got %d values for %d", len(values), len(g.Values))
	}
	return edits(g, text, literals, func(i int) string { return quote.Literal(string(values[i])) + "::" + g.Values[i].Type })
}

// ParamEdits returns the edits that make the values weft supplies parameters of a text of the
// extended protocol, after the text's own count parameters. The edits do not depend on values: a
// text is edited when it is parsed, and AppendBind adds values to each execution.
func ParamEdits(g *plan.Generate, text []byte, literals []parser.Literal, count int) (parser.Edits, error) {
	if count+len(g.Values) > math.MaxUint16 {
		return nil, tooMany(count + len(g.Values))
	}
	return edits(g, text, literals, func(i int) string { return "$" + strconv.Itoa(count+1+i) + "::" + g.Values[i].Type })
}

// edits returns the edits of g in a text, where value writes the i-th value.
func edits(g *plan.Generate, text []byte, literals []parser.Literal, value func(int) string) (parser.Edits, error) {
	var out parser.Edits
	var last plan.Edit // the previous edit, which is at offset at
	at := -1
	for _, e := range g.Edits {
		var start int
		var ok bool
		if at >= 0 && e.After == last.After && e.Offset >= last.Offset {
			start, ok = parser.PlaceFrom(text, literals, e.After, at, e.Offset-last.Offset)
		} else {
			start, ok = parser.Place(text, literals, e.After, e.Offset)
		}
		last, at = e, start
		if !ok {
			return nil, fmt.Errorf("generate: the text has no place %d bytes after literal %d", e.Offset, e.After)
		}
		end := start + e.Delete
		if end > len(text) || e.Value >= len(g.Values) {
			return nil, fmt.Errorf("generate: an edit goes beyond the text")
		}
		written := e.Text
		if e.Value >= 0 {
			written = value(e.Value)
		}
		out = append(out, parser.Edit{Start: start, End: end, New: written})
	}
	return out, nil
}

// AppendBind appends to dst what follows the names in the body of a Bind message, with values in
// text format added after the message's own parameters. body is not changed and not kept.
func AppendBind(dst, body []byte, values [][]byte) ([]byte, error) {
	p, ok := DecodeParams(body)
	if !ok {
		return dst, wire.ErrMalformed
	}
	end := 0
	for range p.count {
		if _, end, ok = p.value(end); !ok {
			return dst, wire.ErrMalformed
		}
	}
	total := p.count + len(values)
	if total > math.MaxUint16 {
		return dst, tooMany(total)
	}
	switch {
	case len(p.formats) == 0 || len(p.formats) == 2 && p.format(0) == 0:
		// All parameters are text, and so are the added values.
		dst = append(dst, body[:2+len(p.formats)]...)
	default:
		dst = binary.BigEndian.AppendUint16(dst, uint16(total))
		for i := range p.count {
			dst = binary.BigEndian.AppendUint16(dst, uint16(p.format(i)))
		}
		for range values {
			dst = binary.BigEndian.AppendUint16(dst, 0)
		}
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(total))
	dst = append(dst, p.values[:end]...)
	for _, v := range values {
		dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(v))), v...)
	}
	return append(dst, p.values[end:]...), nil // the formats of the results
}

// AppendParameters appends to dst the body of a ParameterDescription without its last extra
// parameters, which are weft's and not the client's.
func AppendParameters(dst, body []byte, extra int) ([]byte, error) {
	if len(body) < 2 || len(body) != 2+4*int(binary.BigEndian.Uint16(body)) {
		return dst, wire.ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(body)) - extra
	if n < 0 {
		return dst, wire.ErrMalformed
	}
	return append(binary.BigEndian.AppendUint16(dst, uint16(n)), body[2:2+4*n]...), nil
}

func tooMany(n int) error {
	return pgerr.New(pgerr.ProgramLimitExceeded, "the statement would have %d parameters with those weft adds, and %d are possible", n, math.MaxUint16).
		WithHint("Insert fewer rows at a time, or write the values into the text.")
}
