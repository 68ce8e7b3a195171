package proxy

import (
	"encoding/binary"

	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// crosses refuses to move rows of which one gets a unique key that another had. PostgreSQL
// checks uniqueness row by row: whether it is violated depends on which row comes first,
// and rows on several shards have no such order.
func crosses(moves []plan.Move, rows [][]byte) error {
	for _, m := range moves {
		becomes := make(map[string]int, len(rows))
		for i, row := range rows {
			key, ok, err := keyOf(row, m.New)
			if err != nil {
				return err
			}
			if ok {
				becomes[key] = i
			}
		}
		for i, row := range rows {
			key, ok, err := keyOf(row, m.Old)
			if err != nil {
				return err
			}
			if at, taken := becomes[key]; ok && taken && at != i {
				return pgerr.New(pgerr.FeatureNotSupported, "rows that move between shards cannot take over each other's unique keys in one statement").
					WithHint("Do it in two statements: first to keys that no row has.")
			}
		}
	}
	return nil
}

// keyOf returns some columns of a DataRow as one string; false if one of them is NULL.
func keyOf(row []byte, columns []int) (key string, ok bool, err error) {
	var out []byte
	for _, c := range columns {
		v, err := column(row, c)
		if err != nil || v == nil {
			return "", false, err
		}
		out = binary.AppendUvarint(out, uint64(len(v)))
		out = append(out, v...)
	}
	return string(out), true, nil
}

// column returns a value of a DataRow, nil for NULL.
func column(row []byte, n int) ([]byte, error) {
	if len(row) < 2 || int(binary.BigEndian.Uint16(row)) <= n {
		return nil, wire.ErrMalformed
	}
	for row = row[2:]; len(row) >= 4; n-- {
		size := int(int32(binary.BigEndian.Uint32(row)))
		row = row[4:]
		if size > len(row) {
			break
		}
		if n == 0 && size < 0 {
			return nil, nil
		}
		if n == 0 {
			return row[:size:size], nil
		}
		row = row[max(size, 0):]
	}
	return nil, wire.ErrMalformed
}
