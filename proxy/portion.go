package proxy

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"weft/wire"
)

// A statement that changes rows is carried out to its end by the first Execute of its
// portal, however few of the rows that it returns are wanted. The rest is kept for the
// Executes that follow, as PostgreSQL does.

// keepReturned makes ready to keep what the statement returns, if the client wants no more
// than limit rows at a time.
func (ps *portals) keepReturned(x *gathering, limit int) {
	if x.untold != nil {
		x.untold.close()
		x.untold = nil
	}
	if limit > 0 {
		x.untold = &spool{limit: ps.s.record.maxGatherBytes()}
	}
}

// appendPortion appends the next rows of those that were kept, at most limit if that is
// not 0, and whether there may be more. The tag of the last portion counts
// its rows alone.
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
