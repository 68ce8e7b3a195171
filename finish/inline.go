package finish

import (
	"encoding/binary"
	"slices"
	"strconv"

	"weft/pgerr"
	"weft/plan"
	"weft/quote"
	"weft/wire"
)

// OIDs of text and text[].
const (
	textType  = 25
	textArray = 1009
)

// AppendInput appends the subquery that returns the rows of a piece. It must be called with all
// rows in, like AppendTypes and AppendBind, whose parameters it refers to.
func (in *Inputs) AppendInput(dst []byte, piece int) []byte {
	p := &in.inputs[piece]
	if p.byRow && p.rows == 0 {
		return p.appendNothing(dst)
	}
	dst = append(dst, "(SELECT "...)
	dst = p.shape.appendItems(dst, "u.", 1)
	dst = append(dst, " FROM ("...)
	param := in.firstParam(piece)
	if p.byRow {
		dst = append(dst, "VALUES "...)
		for r := range p.rows {
			if r > 0 {
				dst = append(dst, ", "...)
			}
			dst = append(dst, '(')
			dst = appendParams(dst, "", param, len(p.shape.Columns), "")
			dst = append(dst, ')')
			param += len(p.shape.Columns)
		}
	} else if p.composites() {
		// Several calls of unnest in a SELECT list run side by side. In FROM, unnest would split
		// a composite into its columns.
		dst = append(dst, "SELECT "...)
		dst = appendParams(dst, "pg_catalog.unnest(", param, len(p.shape.Columns), ")")
	} else {
		// PostgreSQL keeps the rows of a function in FROM, for reading them again inside a nested
		// loop or a subquery.
		dst = dst[:len(dst)-1]
		dst = append(dst, "ROWS FROM ("...)
		dst = appendParams(dst, "pg_catalog.unnest(", param, len(p.shape.Columns), ")")
	}
	dst = append(dst, ") u("...)
	dst = appendNames(dst, 1, len(p.shape.Columns))
	return append(dst, "))"...)
}

// composites reports whether a column may be a composite.
func (p *input) composites() bool {
	for i := range p.shape.Columns {
		c := &p.shape.Columns[i]
		switch {
		case Carry(c) == Text:
		case c.SQL == "", c.Type >= firstAssigned, c.Type == 71, c.Type == 75, c.Type == 81, c.Type == 83: // the last four are row types of catalogs
			return true
		}
	}
	return false
}

func appendParams(dst []byte, before string, first, n int, after string) []byte {
	for i := range n {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, before...)
		dst = append(dst, '$')
		dst = strconv.AppendInt(dst, int64(first+i), 10)
		dst = append(dst, after...)
	}
	return dst
}

// appendNothing appends the subquery of a piece without rows.
func (p *input) appendNothing(dst []byte) []byte {
	dst = append(dst, "(SELECT "...)
	dst = p.shape.appendItems(dst, "u.", 1)
	dst = append(dst, " FROM (SELECT "...)
	for i := range p.shape.Columns {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, "NULL::"...)
		if c := &p.shape.Columns[i]; c.Type == xmlType {
			dst = append(dst, "pg_catalog.text"...)
		} else {
			dst = append(dst, c.SQL...)
		}
	}
	dst = append(dst, " WHERE false) u("...)
	dst = appendNames(dst, 1, len(p.shape.Columns))
	return append(dst, "))"...)
}

// appendItems appends the SELECT list that gives columns c1, c2, … their names, types and
// collations again. The subquery around the list makes a COLLATE implicit, as a column's
// collation is.
func (s *Shape) appendItems(dst []byte, prefix string, first int) []byte {
	for i := range s.Columns {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		c := &s.Columns[i]
		typ := at(s.Types, i)
		if typ == "" && (c.Mod >= 0 || Carry(c) == Text) {
			typ = c.SQL
		}
		if c.Type == xmlType {
			dst = append(dst, "XMLPARSE(CONTENT "...)
		}
		dst = append(dst, prefix...)
		dst = append(dst, 'c')
		dst = strconv.AppendInt(dst, int64(first+i), 10)
		if c.Type == xmlType {
			dst = append(dst, ')')
		}
		if typ != "" {
			dst = append(dst, "::"...)
			dst = append(dst, typ...)
		}
		if coll := at(s.Collations, i); coll != "" {
			dst = append(dst, " COLLATE "...)
			dst = append(dst, coll...)
		}
		dst = append(dst, " AS "...)
		dst = quote.AppendIdent(dst, c.Name)
	}
	return dst
}

// paramCount is the number of parameters that an input becomes.
func (p *input) paramCount() int {
	if p.byRow {
		return p.rows * len(p.shape.Columns)
	}
	return len(p.arrays)
}

func (in *Inputs) paramCount() int {
	n := 0
	for i := range in.inputs {
		n += in.inputs[i].paramCount()
	}
	return n
}

// firstParam is the number of the first parameter of an input. The client's parameters come
// before those of all inputs.
func (in *Inputs) firstParam(piece int) int {
	n := in.params + 1
	for i := range piece {
		n += in.inputs[i].paramCount()
	}
	return n
}

// AppendTypes appends the types of the inputs' parameters, for a Parse. The caller has put the
// types of the client's parameters before them.
func (in *Inputs) AppendTypes(dst []uint32) []uint32 {
	for i := range in.inputs {
		p := &in.inputs[i]
		cols := p.shape.Columns
		if !p.byRow {
			for j := range cols {
				dst = append(dst, arrayType(&cols[j]))
			}
			continue
		}
		for range p.rows {
			for j := range cols {
				dst = append(dst, valueType(&cols[j]))
			}
		}
	}
	return dst
}

func arrayType(c *plan.Column) uint32 {
	if Carry(c) == Text {
		return textArray
	}
	return c.Array
}

func valueType(c *plan.Column) uint32 {
	if Carry(c) == Text {
		return textType
	}
	return c.Type
}

// AppendBind appends the part of a Bind that has the parameters: formats and values. client is the
// client's Bind from its formats on, empty if there is none; what follows the values there is
// left out. The caller appends the result formats.
func (in *Inputs) AppendBind(dst, client []byte) ([]byte, error) {
	formats, values, n, err := parameters(client)
	if err != nil {
		return nil, err
	}
	own := in.paramCount()
	switch {
	case n != in.params:
		return nil, pgerr.New(pgerr.ProtocolViolation, "bind message supplies %d parameters, but the statement requires %d", n, in.params)
	case n+own > maxParams:
		return nil, pgerr.New(pgerr.ProgramLimitExceeded, "the query needs more than %d parameters", maxParams)
	}
	dst = slices.Grow(dst, in.size()+len(values)+2*(n+own)+4)
	dst = appendFormats(dst, formats, n, own)
	dst = binary.BigEndian.AppendUint16(dst, uint16(n+own))
	dst = append(dst, values...)
	for i := range in.inputs {
		p := &in.inputs[i]
		dst = append(dst, p.values...)
		for j := range p.arrays {
			c := &p.shape.Columns[j]
			element := c.Type
			if Carry(c) == Text {
				element = textType
			}
			dst = p.arrays[j].append(dst, element, p.rows)
		}
	}
	return dst, nil
}

// size is how many bytes AppendBind needs for the inputs' values.
func (in *Inputs) size() int {
	n := 0
	for i := range in.inputs {
		p := &in.inputs[i]
		n += len(p.values)
		for j := range p.arrays {
			n += 24 + len(p.arrays[j].elements)
		}
	}
	return n
}

// parameters splits a client's parameters into format codes, values and their number.
func parameters(client []byte) (formats, values []byte, n int, err error) {
	if len(client) == 0 {
		return nil, nil, 0, nil
	}
	if len(client) < 2 {
		return nil, nil, 0, wire.ErrMalformed
	}
	end := 2 + 2*int(binary.BigEndian.Uint16(client))
	if len(client) < end+2 {
		return nil, nil, 0, wire.ErrMalformed
	}
	formats = client[2:end]
	n = int(binary.BigEndian.Uint16(client[end:]))
	if codes := len(formats) / 2; codes > 1 && codes != n {
		return nil, nil, 0, pgerr.New(pgerr.ProtocolViolation, "bind message has %d parameter formats but %d parameters", codes, n)
	}
	values = client[end+2:]
	rest := values
	for range n {
		if rest, err = skip(rest); err != nil {
			return nil, nil, 0, err
		}
	}
	return formats, values[:len(values)-len(rest)], n, nil
}

// appendFormats appends the formats of the client's n parameters, where no code means text and
// one code is for all, and of weft's own parameters, which are binary.
func appendFormats(dst, formats []byte, n, own int) []byte {
	if n == 0 {
		return append(dst, 0, 1, 0, 1)
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(n+own))
	for i := range n {
		switch len(formats) / 2 {
		case 0:
			dst = append(dst, 0, 0)
		case 1:
			dst = append(dst, formats...)
		default:
			dst = append(dst, formats[2*i:2*i+2]...)
		}
	}
	for range own {
		dst = append(dst, 0, 1)
	}
	return dst
}

// append appends the array as a binary parameter with its length.
func (a *array) append(dst []byte, element uint32, rows int) []byte {
	if rows == 0 {
		dst = append(dst, 0, 0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 0) // no dimensions, no NULLs
		return binary.BigEndian.AppendUint32(dst, element)
	}
	dst = binary.BigEndian.AppendUint32(dst, uint32(20+len(a.elements)))
	dst = append(dst, 0, 0, 0, 1) // dimensions
	if a.nulls {
		dst = append(dst, 0, 0, 0, 1)
	} else {
		dst = append(dst, 0, 0, 0, 0)
	}
	dst = binary.BigEndian.AppendUint32(dst, element)
	dst = binary.BigEndian.AppendUint32(dst, uint32(rows))
	dst = append(dst, 0, 0, 0, 1) // the lower bound
	return append(dst, a.elements...)
}
