package proxy

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"weft/wire"
)

// A statement that changes rows is carried out to its end by the first Execute of its
// portal, however few of the returned rows the Execute wants. The other rows are kept for
// the Executes that follow, as in PostgreSQL.

// keepReturned makes ready to keep the rows that the statement returns, if the client wants
// at most limit rows at a time.
func (ps *portals) keepReturned(x *gathering, limit int) {
	if x.untold != nil {
		x.untold.close()
		x.untold = nil
	}
	if limit > 0 {
		x.untold = &spool{limit: ps.s.record.maxGatherBytes()}
	}
}

// appendPortion appends the next kept rows, at most limit if limit is not 0, and then
// PortalSuspended if there may be more rows, or the tag. The tag counts the rows of the
// last portion alone.
func (x *gathering) appendPortion(dst []byte, limit int) ([]byte, error) {
	for n := 0; ; n++ {
		if limit > 0 && n == limit {
			return wire.AppendEmpty(dst, wire.PortalSuspended), nil
		}
		row, err := x.untold.next()
		if errors.Is(err, io.EOF) {
			x.untold.close()
			x.untold = nil
			return wire.AppendCommandComplete(dst, countedTag(x.tag, n)), nil
		}
		if err != nil {
			return dst, err
		}
		dst = append(dst, row...)
	}
}

// countedTag is a command tag with another count.
func countedTag(tag string, n int) string {
	i := strings.LastIndexByte(tag, ' ')
	if i < 0 {
		return tag
	}
	return fmt.Sprintf("%s %d", tag[:i], n)
}
