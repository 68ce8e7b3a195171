package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/wire"
)

// gatherPortal is the portal that a gathering was bound to, in the extended protocol. In the
// simple protocol it is zero.
//
// A portal that is over is not carried out again: further Executes get rows of untold, or none.
type gatherPortal struct {
	name string
	// statement is the prepared statement that the portal was bound from. promised is the
	// result that the client has been told the statement has; nil if it has not been told.
	statement *planned
	promised  []byte
	// said is what the client is told of the portal before it is executed: see unbound.go.
	said    []byte
	limited bool // the client asks for rows in portions
	over    bool // the portal has been executed
	// untold are the rows of a write that the client has not asked for yet. A statement that
	// changes rows is carried out to its end by the first Execute of its portal, however few of
	// the returned rows the Execute wants. The other rows are kept for the Executes that
	// follow, as in PostgreSQL.
	untold *spool
}

// keepPromise refuses a result that is not the one that the client has been told. shape is the
// result as in wire.ResultShape, empty for a statement without rows.
func (p *gatherPortal) keepPromise(shape []byte) error {
	if p.promised != nil && !bytes.Equal(p.promised, shape) {
		return resultHasChanged()
	}
	p.statement.told = shape
	return nil
}

// unreadValue begins the context of an error about a value in a Bind.
const unreadValue = "unnamed portal parameter $"

// named makes an error about a value name the client's portal. Shards are asked under the empty
// name.
func (p *gatherPortal) named(err error) error {
	var e *pgerr.Error
	if p.name == "" || !errors.As(err, &e) || !strings.HasPrefix(e.Where, unreadValue) {
		return err
	}
	named := *e
	named.Where = "portal " + strconv.Quote(p.name) + strings.TrimPrefix(e.Where, "unnamed portal")
	return &named
}

// saidLast reports whether the answers about the portal are the last bytes of the client's
// output, so that they can be taken back.
func (p *gatherPortal) saidLast(out []byte) bool {
	return len(p.said) > 0 && bytes.HasSuffix(out, p.said)
}

// keepReturned makes ready to keep the rows that a write returns, at most so many bytes, if the
// client wants at most limit rows at a time.
func (p *gatherPortal) keepReturned(limit int, maxBytes int64) {
	if p.untold != nil {
		p.untold.close()
		p.untold = nil
	}
	if limit > 0 {
		p.untold = &spool{limit: maxBytes}
	}
}

// appendPortion appends the next kept rows, at most limit if limit is not 0, and then
// PortalSuspended if there may be more rows, or the tag. The tag counts the rows of the last
// portion alone.
func (p *gatherPortal) appendPortion(dst []byte, limit int, tag string) ([]byte, error) {
	for n := 0; ; n++ {
		if limit > 0 && n == limit {
			return wire.AppendEmpty(dst, wire.PortalSuspended), nil
		}
		row, err := p.untold.next()
		if errors.Is(err, io.EOF) {
			p.untold.close()
			p.untold = nil
			return wire.AppendCommandComplete(dst, countedTag(tag, n)), nil
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

// emptyTag is the tag of an Execute that finds its portal at the end. tag is that of the
// statement, empty for a query.
func emptyTag(tag string) string {
	if tag == "" {
		return selected(0)
	}
	return countedTag(tag, 0)
}
