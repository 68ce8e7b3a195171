package stream

import "errors"

// Distinct drops rows whose leading columns, as many as there are types, equal those of an earlier
// row. The other rows keep their order. It is an error if Distinct would have to remember more
// than maxBytes; 0 or less is no limit. See CanDistinct.
func Distinct(r Rows, equal []Type, maxBytes int64) (Rows, error) {
	if !CanDistinct(equal) {
		return nil, errors.New("distinct: PostgreSQL has to tell what is equal")
	}
	return &distinct{rows: r, columns: len(equal), seen: newTable(&memory{limit: maxBytes})}, nil
}

type distinct struct {
	rows    Rows
	columns int
	seen    *table
	err     error
}

func (d *distinct) Next() ([]byte, error) {
	for d.err == nil {
		row, added, err := d.next()
		if err != nil {
			d.err = err
			d.seen = nil
			break
		}
		if added {
			return row, nil
		}
	}
	return nil, d.err
}

func (d *distinct) next() (row []byte, added bool, err error) {
	if row, err = d.rows.Next(); err != nil {
		return nil, false, err
	}
	n, err := count(row)
	if err != nil {
		return nil, false, err
	}
	if n < d.columns {
		return nil, false, errRow
	}
	at := 2
	for range d.columns {
		if _, at = field(row, at); at < 0 {
			return nil, false, errRow
		}
	}
	_, added, err = d.seen.add(row[2:at])
	return row, added, err
}
