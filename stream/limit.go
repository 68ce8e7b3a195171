package stream

import "io"

// Limit skips rows and stops after some: OFFSET and LIMIT. A negative limit is
// none. It does not ask for a row beyond the last it yields, and with a limit of
// 0 for none at all.
func Limit(r Rows, offset, limit int64) Rows {
	if offset <= 0 && limit < 0 {
		return r
	}
	return &limited{rows: r, skip: offset, left: limit}
}

type limited struct {
	rows Rows
	skip int64
	left int64 // negative: no limit
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
