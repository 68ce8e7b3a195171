package routine

import (
	"encoding/binary"
	"strconv"

	"weft/pgerr"
	"weft/program"
	"weft/wire"
)

// Result is what the client is told of a program.
type Result struct {
	// Description is the RowDescription, empty if there are no rows. Rows are whole messages, Count of them.
	Description, Rows []byte
	Count             int
	Tag               string
	told              int // how many bytes of Rows the client has been told
}

// Next returns the messages for an Execute that wants up to limit rows, 0 for all.
func (r *Result) Next(limit int) []byte {
	rest, n := r.Rows[r.told:], 0
	end := 0
	for end < len(rest) && (limit == 0 || n < limit) {
		end += 1 + int(binary.BigEndian.Uint32(rest[end+1:]))
		n++
	}
	b := append([]byte(nil), rest[:end]...)
	if r.told += end; limit > 0 && n == limit {
		return wire.AppendEmpty(b, wire.PortalSuspended)
	}
	tag := r.Tag
	if tag == "SELECT" {
		tag += " " + strconv.Itoa(n)
	}
	return wire.AppendCommandComplete(b, tag)
}

// rows are the rows that a program has returned.
type rows struct {
	list  [][]program.Value
	bytes int64
	max   int64 // the most bytes that are kept, 0 for any number
}

func (r *rows) add(row []program.Value) error {
	for _, v := range row {
		r.bytes += int64(len(v.Text)) + 24
	}
	if r.max > 0 && r.bytes > r.max {
		return &refusal{pgerr.GatherTooLarge()}
	}
	r.list = append(r.list, row)
	return nil
}
