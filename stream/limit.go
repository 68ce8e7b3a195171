package stream

import "io"

// Limit skips offset rows and stops after limit rows. A negative limit means no limit. Limit reads
// no row of r after the last one it yields, and with a limit of 0 no row at all.
func Limit(r Rows, offset, limit int64) Rows {
	if offset <= 0 && limit < 0 {
		return r
	}
	return &limited{rows: r, skip: offset, left: limit}
}

type limited struct {
	rows Rows
	skip int64
	left int64 // rows to yield; negative for no limit
	err  error
}

func (l *limited) Next() ([]byte, error) {
	if l.err != nil {
		return nil, l.err
	}
	if l.left == 0 {
		return nil, io.EOF
	}
	for ; l.skip > 0; l.skip-- {
		if _, l.err = l.rows.Next(); l.err != nil {
			return nil, l.err
		}
	}
	row, err := l.rows.Next()
	if err != nil {
		l.err = err
		return nil, err
	}
	if l.left > 0 {
		l.left--
	}
	return row, nil
}
