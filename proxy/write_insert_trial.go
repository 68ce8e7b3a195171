package proxy

import (
	"slices"

	"weft/pgerr"
	"weft/wire"
)

// If rows may be skipped (ON CONFLICT, triggers), weft cannot tell which rows a shard has
// returned, but PostgreSQL returns them in the order in which they were given. So the parts
// of the shards are tried: if all rows come back, their order is known. If not, the trial
// is undone and the rows are inserted one by one. The trial has shown that no row is
// updated twice, which single statements would not show.

const trialName = "weft_rows"

// trialBatch is how many statements a shard is sent before its answers are read: few enough
// that neither side waits for the other to read.
const trialBatch = 128

// runTrial carries out an INSERT that may skip rows, and passes the returned rows on in
// order.
func (in *inserting) runTrial(describe bool) (n int64, err error) {
	s, x := in.s, in.x
	returned := make([][]byte, len(in.places)) // by row
	n, err = in.tryRows(returned)
	if ended := s.legs.endLegs(x.legs, err != nil && !atEnd(err)); ended != nil {
		err = firstError(x.legs, ended) // the error of the shard itself
	}
	if err != nil {
		return 0, unplaced(err)
	}
	held := &x.repeat.rows
	held.begin(s)
	if describe {
		s.out.Grow()
		s.out.B = x.appendStart(s.out.B)
		held.end(s)
		x.repeat.passed = true
	}
	for _, row := range returned {
		if row == nil || x.explain != nil {
			continue
		}
		frame, err := x.appendRow(nil, row)
		if err != nil {
			return 0, err
		}
		if x.portal.untold != nil {
			if err := x.portal.untold.add(frame); err != nil {
				return 0, err
			}
			continue
		}
		s.out.Grow()
		s.out.B = append(s.out.B, frame...)
		held.end(s)
		x.repeat.passed = true
		if s.out.Full() {
			held.sent = true
			if err := s.out.flushOrEnd(); err != nil {
				return 0, err
			}
		}
	}
	return n, nil
}

// tryRows fills in the row that each inserted row has returned; nil if it was skipped.
func (in *inserting) tryRows(returned [][]byte) (n int64, err error) {
	budget := in.s.record.maxGatherBytes()
	in.s.gather.sendInOrder(in.x.legs)
	whole := true
	for _, l := range in.x.legs {
		rows := in.parts[l.shard]
		at, spent := 0, budget
		changed, err := l.gatherTagged(&spent, func(_ int, row []byte) {
			if at < len(rows) {
				returned[rows[at]] = row
			}
			at++
		})
		if err != nil {
			return 0, err
		}
		n += changed
		whole = whole && at == len(rows)
	}
	if whole {
		return n, in.single(func(*leg) []byte { return appendCommand(nil, "RELEASE "+trialName) })
	}
	clear(returned)
	if err := in.single(func(*leg) []byte { return appendCommand(nil, "ROLLBACK TO "+trialName) }); err != nil {
		return 0, err
	}
	n = 0
	for from := 0; ; from += trialBatch {
		changed, more, err := in.oneByOne(returned, from, &budget)
		if err != nil {
			return 0, err
		}
		if n += changed; !more {
			break
		}
	}
	return n, in.single(func(*leg) []byte { return appendCommand(nil, "RELEASE "+trialName) })
}

// again makes a leg ready to be sent other messages.
func (l *leg) again(out []byte) {
	l.out, l.over, l.then = wire.AppendEmpty(out, wire.Sync), false, nil
}

// single has all shards run a command that returns no rows.
func (in *inserting) single(command func(l *leg) []byte) error {
	for _, l := range in.x.legs {
		l.again(command(l))
		l.send()
	}
	for _, l := range in.x.legs {
		if l.drain(); l.err != nil {
			return l.err
		}
	}
	return nil
}

// oneByOne inserts the next rows of each shard, one statement per row.
func (in *inserting) oneByOne(returned [][]byte, from int, budget *int64) (n int64, more bool, err error) {
	part := func(l *leg) []int {
		rows := in.parts[l.shard]
		return rows[min(from, len(rows)):min(from+trialBatch, len(rows))]
	}
	for _, l := range in.x.legs {
		var out []byte
		rows := part(l)
		if len(rows) == 0 {
			continue
		}
		more = more || from+trialBatch < len(in.parts[l.shard])
		for _, i := range rows {
			if out, err = in.appendRows(out, l, []int{i}); err != nil {
				return 0, false, err
			}
		}
		l.again(out)
		l.send()
	}
	for _, l := range in.x.legs {
		rows := part(l)
		if len(rows) == 0 {
			continue
		}
		changed, err := l.gatherTagged(budget, func(statement int, row []byte) {
			if statement < len(rows) {
				returned[rows[statement]] = row
			}
		})
		if err != nil {
			return 0, false, err
		}
		n += changed
	}
	return n, more, nil
}

// gatherTagged reads the answers of a shard to some statements, calls row with each
// returned row and the number of its statement, and adds up the tags. Rows are copies.
func (l *leg) gatherTagged(budget *int64, row func(statement int, row []byte)) (changed int64, err error) {
	l.send()
	statement := 0
	limited := *budget > 0
	for !l.over {
		if l.s.reach.interrupt.stop.Load() {
			return 0, l.s.reach.interrupted()
		}
		typ, body, err := l.frame()
		if err != nil {
			break
		}
		switch typ {
		case wire.CommandComplete:
			changed += l.changed
			statement++
		case wire.DataRow:
			if l.err != nil {
				continue
			}
			if *budget -= int64(len(body)); limited && *budget <= 0 {
				return 0, pgerr.GatherTooLarge()
			}
			if l.translate != nil && l.deep.Deep() {
				if err := l.translate.DataRow(body, l.deep); err != nil {
					l.fail(l.conn.Lost(untranslatable(err)))
					return 0, l.err
				}
			}
			row(statement, slices.Clone(body))
		}
	}
	return changed, l.err
}
