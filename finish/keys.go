package finish

import (
	"encoding/binary"

	"weft/pgerr"
	"weft/plan"
)

// maxKeys is the greatest number of values that another piece is reduced to. More values would
// cost a shard more than they save.
const maxKeys = 10000

// Keys returns the gathered values of a column, without duplicates and NULLs, as a parameter that
// is an array, and the type of the array. It reports false if the values are not in arrays, too
// many, or not Reducible.
func (in *Inputs) Keys(piece, column int) (value []byte, typ uint32, ok bool) {
	p := &in.inputs[piece]
	c := &p.shape.Columns[column]
	if p.byRow || p.rows > maxKeys || !Reducible(c) {
		return nil, 0, false
	}
	seen := make(map[string]bool, p.rows)
	a := array{}
	n := 0
	for e := p.arrays[column].elements; len(e) >= 4; {
		size := int(int32(binary.BigEndian.Uint32(e)))
		if size < 0 {
			e = e[4:]
			continue
		}
		element := e[:4+size]
		e = e[4+size:]
		if !seen[string(element)] {
			seen[string(element)] = true
			a.elements = append(a.elements, element...)
			n++
		}
	}
	return a.append(nil, c.Type, n), c.Array, true
}

// Reducible reports whether the values of a column can be keys: they travel as elements, and every
// server numbers their type alike.
func Reducible(c *plan.Column) bool { return c.Type < firstAssigned && Carry(c) == Element }

// AppendParameters appends the part of a Bind that has the parameters, as AppendBind does, with
// weft's own binary values after the client's. Each own value has its length before it.
func AppendParameters(dst, client []byte, own ...[]byte) ([]byte, error) {
	formats, values, n, err := parameters(client)
	if err != nil {
		return nil, err
	}
	if n+len(own) > maxParams {
		return nil, pgerr.New(pgerr.ProgramLimitExceeded, "the query needs more than %d parameters", maxParams)
	}
	dst = appendFormats(dst, formats, n, len(own))
	dst = binary.BigEndian.AppendUint16(dst, uint16(n+len(own)))
	dst = append(dst, values...)
	for _, v := range own {
		dst = append(dst, v...)
	}
	return dst, nil
}

// Reduced appends the statement of a piece, restricted to the rows whose column is among the
// elements of a parameter.
func Reduced(dst, piece []byte, columns, column, param int) []byte {
	dst = appendReduced(dst, piece, columns, column)
	return append(appendParams(dst, "", param, 1, ""), ')')
}

// ReducedUnseen is Reduced for elements of a known type whose values are not known yet.
func ReducedUnseen(dst, piece []byte, columns, column int, typ string) []byte {
	dst = appendReduced(dst, piece, columns, column)
	return append(dst, "(SELECT NULL::"+typ+"[])::"+typ+"[])"...)
}

// appendReduced appends the statement of a piece up to the array that restricts a column.
func appendReduced(dst, piece []byte, columns, column int) []byte {
	dst = append(dst, "SELECT * FROM ("...)
	dst = append(dst, piece...)
	dst = append(dst, ") p("...)
	dst = appendNames(dst, 1, columns)
	dst = append(dst, ") WHERE "...)
	dst = appendNames(dst, column+1, 1)
	return append(dst, " = ANY ("...)
}
