package stream

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"slices"
)

// Rows yields rows. A row is the body of a DataRow: a count of columns in 16 bits, then for each
// column its length in 32 bits, -1 for NULL, and its bytes. A row is valid until the next call.
// io.EOF comes after the last row; no row follows an error.
type Rows interface {
	Next() ([]byte, error)
}

var errRow = errors.New("malformed row")

// none is a Rows without rows.
type none struct{}

func (none) Next() ([]byte, error) { return nil, io.EOF }

// count returns how many columns the row says it has.
func count(row []byte) (int, error) {
	if len(row) < 2 {
		return 0, errRow
	}
	return int(binary.BigEndian.Uint16(row)), nil
}

// field returns the value at an offset of the row, nil for NULL, and the offset of the next value,
// or -1 if the row has no value there.
func field(row []byte, at int) (value []byte, next int) {
	if len(row)-at < 4 {
		return nil, -1
	}
	n := int(int32(binary.BigEndian.Uint32(row[at:])))
	at += 4
	if n == -1 {
		return nil, at
	}
	if n < 0 || n > len(row)-at {
		return nil, -1
	}
	return row[at : at+n : at+n], at + n
}

// appendField appends a value, nil for NULL, with its length.
func appendField(dst, value []byte) []byte {
	if value == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(value))), value...)
}

// picker finds several columns of a row in one walk.
type picker struct {
	wants []want // sorted by column
}

type want struct{ column, target int }

// newPicker returns a picker that puts columns[i] into element i of the values.
func newPicker(columns []int) picker {
	wants := make([]want, len(columns))
	for i, c := range columns {
		wants[i] = want{c, i}
	}
	slices.SortFunc(wants, func(a, b want) int { return cmp.Compare(a.column, b.column) })
	return picker{wants}
}

// pick sets the values, nil for NULL. The values are slices of the row.
func (p picker) pick(row []byte, values [][]byte) error {
	n, err := count(row)
	if err != nil {
		return err
	}
	column, at := 0, 2
	for _, w := range p.wants {
		if w.column < 0 || w.column >= n {
			return errRow
		}
		for ; column < w.column; column++ {
			if _, at = field(row, at); at < 0 {
				return errRow
			}
		}
		value, next := field(row, at)
		if next < 0 {
			return errRow
		}
		values[w.target] = value
	}
	return nil
}
