package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"weft/pgerr"
	"weft/plan"
	"weft/stream"
	"weft/wire"
)

// nativePlan is how stream operators make the result of one execution.
type nativePlan struct {
	*plan.Native
	formats       []int16 // formats of the piece's columns
	keys          []stream.Key
	types         []stream.Type // types of the piece's columns
	limit, offset int64         // limit is -1 for no limit
}

// nativeFor returns how the result can be made without PostgreSQL, or nil if it cannot: a type
// has no order or equality that Go knows, or a limit is not a plain number.
func (ga *gatherer) nativeFor(x *gathering) *nativePlan {
	n := x.g.Native
	if n == nil || x.g.Command != nil || len(x.g.Pieces) != 1 || x.portal.limited || !ga.s.record.inEffect.native {
		return nil
	}
	out := &nativePlan{Native: n, limit: -1}
	columns := x.d.Pieces[0]
	if !out.chooseFormats(x, columns) {
		return nil
	}
	// In another encoding, text sorts differently, and different texts may become equal.
	encoded := ga.s.out.encoding != ga.s.out.reported["server_encoding"]
	for _, k := range n.Order {
		cmp, ok := stream.CompareBinary(columns[k.Column].Type, k.Bytes && !encoded)
		if !ok {
			return nil
		}
		out.keys = append(out.keys, stream.Key{Column: k.Column, Desc: k.Desc, NullsFirst: k.NullsFirst, Compare: cmp})
	}
	if max := ga.s.record.maxParallelShards(); len(n.Order) > 0 && !x.locksFirst() && max > 0 && max < len(ga.s.route.snap.Shards) {
		return nil // a merge needs all shards at once
	}
	iso := strings.HasPrefix(ga.s.out.reported["DateStyle"], "ISO")
	for i, c := range columns {
		out.types = append(out.types, stream.Type{OID: c.Type, Mod: c.Mod, Format: out.formats[i], Deterministic: !encoded, ISO: iso})
	}
	switch {
	case n.Distinct && !stream.CanDistinct(out.types[:n.Columns]), n.Aggregate != nil && !stream.CanGroup(n.Aggregate, out.types):
		return nil
	}
	var ok bool
	if n.Limit != nil {
		if out.limit, ok = x.req.count(n.Limit, x.d.Params, -1); !ok {
			return nil
		}
	}
	if n.Offset != nil {
		if out.offset, ok = x.req.count(n.Offset, x.d.Params, 0); !ok {
			return nil
		}
	}
	return out
}

// chooseFormats finds the formats of the piece's columns: the client's formats for columns that
// the client gets, text for groups that it does not get, binary for the others. It reports
// false if a column would need two formats.
func (n *nativePlan) chooseFormats(x *gathering, columns []plan.Column) bool {
	n.formats = make([]int16, len(columns))
	for i := range n.formats {
		n.formats[i] = 1
		if i < n.Columns && n.Aggregate == nil {
			n.formats[i] = x.req.formatOf(i)
		}
	}
	if n.Aggregate == nil {
		return true
	}
	given := make([]bool, len(columns))
	for i, o := range n.Aggregate.Outputs {
		used := []int{o.Column}
		if o.Kind == plan.CombineAvg {
			used = append(used, o.Count)
		}
		for _, c := range used {
			if given[c] && n.formats[c] != x.req.formatOf(i) {
				return false
			}
			given[c], n.formats[c] = true, x.req.formatOf(i)
		}
	}
	for _, g := range n.Aggregate.Groups {
		if !given[g] {
			n.formats[g] = 0
		}
	}
	return true
}

// rows puts the operators over the rows of the legs.
func (n *nativePlan) rows(legs []*leg, maxBytes int64) (stream.Rows, error) {
	parts := make([]stream.Rows, len(legs))
	for i, l := range legs {
		parts[i] = l
	}
	var rows stream.Rows
	var err error
	switch {
	case n.Aggregate != nil:
		rows, err = stream.Group(stream.Append(parts...), n.Aggregate, n.types, maxBytes)
	case n.Distinct:
		rows, err = stream.Distinct(stream.Append(parts...), n.types[:n.Columns], maxBytes)
	case len(n.keys) > 0:
		rows = stream.Merge(n.keys, parts...)
	default:
		rows = stream.Append(parts...)
	}
	if err != nil {
		return nil, err
	}
	if n.Aggregate == nil && len(n.formats) > n.Columns {
		rows = stream.Cut(rows, n.Columns)
	}
	if n.offset > 0 || n.limit >= 0 {
		rows = stream.Limit(rows, n.offset, n.limit)
	}
	return rows, nil
}

// runNative streams the result to the client. With describe, the client is first told the
// columns.
func (ga *gatherer) runNative(x *gathering, describe bool) error {
	var n int64
	rows, err := ga.nativeRows(x)
	if err == nil {
		n, err = ga.passRows(x, rows, describe)
	}
	ended := ga.s.legs.endLegs(x.legs, err != nil)
	switch {
	case errors.Is(err, errEnd):
		return err
	case ended != nil && (err != nil || ga.s.tx.isOpen()):
		return x.asRefused(ended) // the shard's own error
	case err == nil:
		ga.tellSelected(x, n)
	}
	return err
}

// tellSelected ends a result of n rows.
func (ga *gatherer) tellSelected(x *gathering, n int64) {
	ga.s.account.run.rows += n
	ga.s.out.Grow()
	if x.out != nil {
		ga.s.out.B = x.out.end(ga.s.out.B)
		return
	}
	ga.s.out.B = wire.AppendCommandComplete(ga.s.out.B, selected(n))
}

// appendStart appends the messages that come before the rows of a result.
func (x *gathering) appendStart(dst []byte) []byte {
	if x.out != nil {
		return x.out.begin(dst, x.d.Columns)
	}
	return x.describeResult(dst)
}

// appendRow appends a row of a result.
func (x *gathering) appendRow(dst, row []byte) ([]byte, error) {
	if x.out != nil {
		return x.out.append(dst, row)
	}
	dst = append(dst, wire.DataRow)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(row)+4))
	return append(dst, row...), nil
}

// sendLegs sends the shards their statements: to all before waiting for any, but to no more at
// once than weft.max_parallel_shards allows.
func (ga *gatherer) sendLegs(legs []*leg) { ga.sendSome(legs, ga.s.record.maxParallelShards()) }

// sendInOrder is sendLegs for statements that wait for locked rows: one shard after the other,
// in the order that all sessions use, unless the client wants several at once. Two statements
// that ran on all shards at once would soon wait for each other.
func (ga *gatherer) sendInOrder(legs []*leg) {
	ga.sendSome(legs, max(1, ga.s.record.maxParallelShards()))
}

// sendSome sends to atOnce shards at once; 0 means all.
func (ga *gatherer) sendSome(legs []*leg, atOnce int) {
	n := len(legs)
	if atOnce > 0 {
		n = min(n, atOnce)
	}
	for _, l := range legs[:n] {
		l.send()
	}
	for i := n; i < len(legs); i++ {
		legs[i-n].then = legs[i] // legs[i] is sent when legs[i-n] is over
	}
}

// passRows sends the rows of a result to the client, and counts them.
func (ga *gatherer) passRows(x *gathering, rows stream.Rows, describe bool) (n int64, err error) {
	first := true
	held := &x.repeat.rows
	for {
		row, err := rows.Next()
		if err != nil && !errors.Is(err, io.EOF) {
			if first && describe && x.write == nil && midway(err) && x.running() {
				ga.s.out.Grow()
				ga.s.out.B = x.appendStart(ga.s.out.B)
			}
			if x.write != nil && x.out == nil {
				x.repeat.takeBack(ga.s)
			}
			return n, err
		}
		held.begin(ga.s)
		if first && describe {
			ga.s.out.Grow()
			ga.s.out.B = x.appendStart(ga.s.out.B)
			held.end(ga.s)
			x.repeat.passed = true
		}
		first = false
		if err != nil {
			return n, nil
		}
		n++
		if x.explain != nil {
			continue // ANALYZE: the client gets no row
		}
		if x.portal.untold != nil {
			frame, err := x.appendRow(nil, row)
			if err == nil {
				err = x.portal.untold.add(frame)
			}
			if err != nil {
				return n, err
			}
			continue
		}
		ga.s.out.Grow()
		if ga.s.out.B, err = x.appendRow(ga.s.out.B, row); err != nil {
			return n, err
		}
		held.end(ga.s)
		x.repeat.passed = true
		if ga.s.out.Full() {
			held.sent = true
			if err := ga.s.out.flushOrEnd(); err != nil {
				return n, err
			}
		}
	}
}

// retained is the rows that a command has returned, as long as none of them has been sent:
// PostgreSQL returns no rows if the command fails at last.
type retained struct {
	from, to int // where the rows are in the client's output
	sent     bool
}

// begin notes where the rows begin, and whether they can still be taken back.
func (h *retained) begin(s *Session) {
	if h.to == 0 {
		h.from, h.to = s.out.Len(), s.out.Len()
	}
	// Something else has come in between, such as a notice, or everything has been sent.
	h.sent = h.sent || h.to != s.out.Len()
}

func (h *retained) end(s *Session) { h.to = s.out.Len() }

// takeBack removes the rows from the client's output, and reports false if some have been sent.
func (h *retained) takeBack(s *Session) bool {
	if h.sent || h.to <= h.from || h.to != s.out.Len() {
		return false
	}
	s.out.B = s.out.B[:h.from]
	*h = retained{}
	return true
}

// running reports whether a shard has planned its part: errors in constants have come up
// before.
func (x *gathering) running() bool {
	return slices.ContainsFunc(x.legs, func(l *leg) bool { return l.running })
}

// midway reports whether an error is about values, which PostgreSQL finds after it has
// described the result.
func midway(err error) bool {
	code := pgerr.From(err).Code
	return strings.HasPrefix(code, "22") || strings.HasPrefix(code, "21")
}
