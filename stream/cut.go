package stream

import "encoding/binary"

// Cut keeps only the leading columns of each row. It changes the rows of r in place.
func Cut(r Rows, columns int) Rows {
	return &cut{r, columns}
}

type cut struct {
	rows    Rows
	columns int
}

func (c *cut) Next() ([]byte, error) {
	row, err := c.rows.Next()
	if err != nil {
		return nil, err
	}
	n, err := count(row)
	if err != nil {
		return nil, err
	}
	if n < c.columns {
		return nil, errRow
	}
	at := 2
	for range c.columns {
		if _, at = field(row, at); at < 0 {
			return nil, errRow
		}
	}
	binary.BigEndian.PutUint16(row, uint16(c.columns))
	return row[:at], nil
}
