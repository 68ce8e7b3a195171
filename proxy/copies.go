package proxy

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"

	"weft/finish"
	"weft/pgerr"
	"weft/plan"
	"weft/stream"
	"weft/wire"
)

// A reference table is written on the home shard first. The rows that the home shard returns go
// to the client and, as data, to all other shards. On every shard the table is locked against
// other writers before: on the home shard they queue up, and on the others the lock waits for
// the end of a writer that has committed on the home shard and is still prepared on the other.

// copies is the shape of a write of a reference table.
func (x *gathering) copies() *plan.Copies { return x.write.Shape.(*plan.Copies) }

// runCopies carries out a write of a reference table and returns how many rows it has changed.
func (wr *writer) runCopies(r *router, x *gathering, describe bool) (int64, error) {
	if err := wr.prepareCopies(r, x); err != nil {
		return 0, err
	}
	return wr.copyToAll(x, func(t *tee) error {
		if x.d.Columns == nil {
			return t.drain()
		}
		_, err := wr.s.gather.passRows(x, t, describe)
		return err
	})
}

// runCopyStep carries out a step that writes a reference table, and keeps the rows that it returns.
func (wr *writer) runCopyStep(x *gathering, i int, step *plan.Write) error {
	y, d := *x, *x.d
	y.write, y.legs, y.progress.shares, y.d = step, nil, nil, &d
	d.Columns, d.Carried = x.d.Steps[i], x.d.StepsCarried[i]
	y.req.formats = formatsToCarry(d.Columns)
	var rows [][]byte
	size := 0
	_, err := wr.copyToAll(&y, func(t *tee) error {
		return eachRow(t, func(row []byte) error {
			if size += len(row); size > maxInline {
				return tooMuchLent()
			}
			if len(d.Columns) > 0 {
				rows = append(rows, slices.Clone(row))
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	x.intake.inputs.Extend(finish.Shape{Columns: d.Columns}) // the copies were sent without it
	keep := x.keeper(i)
	for _, row := range rows {
		if err := keep(row); err != nil {
			return err
		}
	}
	return nil
}

// copyToAll makes the home shard write a reference table, and then all other shards. read reads what
// the home shard returns.
func (wr *writer) copyToAll(x *gathering, read func(t *tee) error) (int64, error) {
	home := wr.s.route.homeShard()
	t := &tee{x: x, in: finish.NewInputs([]finish.Shape{{Columns: x.d.Carried}}, 0, finish.Limits{Inline: maxInline, Max: wr.s.record.maxGatherBytes()})}
	if err := wr.openCopyLegs(x, []int{home}, nil); err != nil {
		return 0, err
	}
	changed, err := wr.runHomeCopy(x, t, read)
	if err != nil || changed == 0 && x.copies().Then != nil {
		return changed, err
	}
	var others []int
	for i := range wr.s.route.snap.Shards {
		if i != home {
			others = append(others, i)
		}
	}
	if err := wr.openCopyLegs(x, others, t); err != nil {
		return 0, err
	}
	return changed, wr.runOtherCopies(x, t, changed)
}

// prepareCopies does everything up to the first write on a shard.
func (wr *writer) prepareCopies(r *router, x *gathering) error {
	if err := wr.s.record.learnOptions(); err != nil {
		return err
	}
	if wr.s.tx.isolation() == "serializable" {
		return pgerr.New(pgerr.FeatureNotSupported, "a SERIALIZABLE transaction cannot write a reference table").
			WithDetail("Shards do not know of each other's conflicts.").
			WithHint("Use REPEATABLE READ.")
	}
	wr.s.reach.limitGather(x.began)
	if err := wr.s.tx.takeSnapshots(); err != nil {
		return err
	}
	if err := wr.describeWrite(x); err != nil {
		return err
	}
	if err := x.keepsPromise(); err != nil {
		return err
	}
	if x.copies().Read != nil {
		if err := wr.readFirst(r, x); err != nil {
			return err
		}
	}
	if err := wr.s.gather.gatherNow(x); err != nil {
		return err
	}
	if err := wr.runSteps(r, x); err != nil {
		return err
	}
	return wr.s.reach.interrupted()
}

// lockFirst locks a reference table on the home shard before a text about it is parsed there.
// Parsing takes a weaker lock, and two transactions that both have the weaker one would wait for
// each other's end when they want the stronger one.
func (h *held) lockFirst(x *gathering) error {
	if h.conn.Status() == wire.TxIdle {
		return nil
	}
	for _, w := range append(slices.Clone(x.write.Steps()), x.write) {
		if c, ok := w.Shape.(*plan.Copies); ok {
			_, err := h.conn.Exec(lockText(c.Locks)) // all of a statement lock the same tables
			return err
		}
	}
	return nil
}

func lockText(tables []string) string {
	return "LOCK TABLE " + strings.Join(tables, ", ") + " IN SHARE ROW EXCLUSIVE MODE"
}

// openCopyLegs gets backends ready: each locks the table and then does its part. t has the rows
// that the home shard has returned; nil for the home shard itself.
func (wr *writer) openCopyLegs(x *gathering, shards []int, t *tee) (err error) {
	if wr.s.held.conn != nil {
		if err := wr.s.held.park(); err != nil {
			return err
		}
	}
	x.legs = nil
	defer func() {
		if err != nil {
			_ = wr.s.legs.endLegs(x.legs, true)
			x.legs = nil
		}
	}()
	for _, shard := range shards {
		if _, err := wr.s.held.translationTo(wr.s.held.laneOf(wr.s.route.snap, shard).lane); err != nil {
			return err
		}
	}
	for _, shard := range shards {
		l, err := wr.s.legs.addLeg(x, shard)
		if err != nil {
			return err
		}
		if err := wr.s.tx.noteWriter(l.conn); err != nil {
			return err
		}
		l.out = appendLock(l.out, x.copies().Locks)
		if t == nil || x.copies().Then == nil {
			l.out, err = x.appendHomeCopy(l.out, l)
		} else {
			l.out, err = x.appendOtherCopy(l.out, l, t)
		}
		if err != nil {
			return err
		}
	}
	if err := wr.s.reach.interrupted(); err != nil || t != nil {
		return err
	}
	return wr.stillTrueAfter(x)
}

// appendLock appends the command that locks the tables against other writers.
func appendLock(dst []byte, tables []string) []byte {
	dst = wire.AppendParse(dst, "", lockText(tables), nil)
	dst, at := wire.Begin(dst, wire.Bind)
	dst = wire.End(append(dst, 0, 0, 0, 0, 0, 0, 0, 0), at)
	return appendExecute(dst)
}

// appendHomeCopy appends the client's statement. The carried columns come behind the client's.
func (x *gathering) appendHomeCopy(dst []byte, l *leg) ([]byte, error) {
	given := x.req.formats
	defer func() { x.req.formats = given }()
	codes := make([]byte, 2, 2+2*(len(x.d.Columns)+len(x.d.Carried)))
	for i := range x.d.Columns {
		codes = binary.BigEndian.AppendUint16(codes, uint16(x.req.formatOf(i)))
	}
	for _, f := range x.carriedFormats() {
		codes = binary.BigEndian.AppendUint16(codes, uint16(f))
	}
	binary.BigEndian.PutUint16(codes, uint16(len(codes)/2-1))
	x.req.formats = codes
	return x.appendWrite(dst, l, x.copies().Text)
}

// carriedFormats returns the formats in which the home shard returns the carried columns.
func (x *gathering) carriedFormats() []int16 {
	if len(x.d.Carried) == 0 {
		return nil
	}
	return finish.Formats([][]plan.Column{x.d.Carried})
}

// appendOtherCopy appends the text by which another shard applies the home shard's rows.
func (x *gathering) appendOtherCopy(dst []byte, l *leg, t *tee) ([]byte, error) {
	fill := x.fill()
	fill.Input = t.in.AppendInput
	given := appendOIDs(nil, t.in.AppendTypes(nil))
	values, err := t.in.AppendBind(nil, noValues)
	if err != nil {
		return dst, err
	}
	oids, err := l.translate.ParseOIDs(given)
	if err != nil {
		return dst, untranslatable(err)
	}
	if values, err = l.translate.Bind(values, given); err != nil {
		return dst, untranslatable(err)
	}
	dst = wire.AppendParse(dst, "", string(x.copies().Then.Append(nil, fill)), oids)
	dst, at := wire.Begin(dst, wire.Bind)
	dst = append(append(dst, 0, 0), values...)
	formats := x.carriedFormats()
	if !x.copies().Compare {
		formats = nil
	}
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(formats)))
	for _, f := range formats {
		dst = binary.BigEndian.AppendUint16(dst, uint16(f))
	}
	dst = wire.End(dst, at)
	if l.translate != nil && x.copies().Compare {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	return wire.AppendEmpty(appendExecute(dst), wire.Sync), nil
}

// runHomeCopy runs the statement on the home shard: its rows are read by read, and the carried
// columns are kept.
func (wr *writer) runHomeCopy(x *gathering, t *tee, read func(t *tee) error) (int64, error) {
	l := x.legs[0]
	t.rows = l
	wr.s.gather.sendLegs(x.legs)
	err := read(t)
	if ended := wr.s.legs.endLegs(x.legs, err != nil); ended != nil && !errors.Is(err, errEnd) {
		err = ended // the shard's own error says more
	}
	return l.changed, err
}

// runOtherCopies makes all other shards do the same, and compares what they have done with the
// home shard.
func (wr *writer) runOtherCopies(x *gathering, home *tee, changed int64) error {
	wr.s.gather.sendLegs(x.legs)
	var err error
	sums := make([]digest, len(x.legs))
	for i, l := range x.legs {
		t := &tee{x: x, rows: l, whole: x.copies().Then != nil}
		if err = t.drain(); err != nil {
			break
		}
		sums[i] = t.sum
	}
	if ended := wr.s.legs.endLegs(x.legs, err != nil); ended != nil && !errors.Is(err, errEnd) {
		err = ended
	}
	if err != nil {
		return err
	}
	for i, l := range x.legs {
		if l.changed != changed || x.copies().Compare && sums[i] != home.sum {
			return wr.copiesDiffer(x, l, changed)
		}
	}
	return nil
}

// copiesDiffer is the error for a shard that has not done the same as the home shard.
func (wr *writer) copiesDiffer(x *gathering, l *leg, changed int64) error {
	shard := wr.s.route.snap.Shards[l.shard].Name
	if wr.s.tx.isolation() == "repeatable read" {
		return pgerr.New(pgerr.SerializationFailure, "could not serialize access due to concurrent update").
			WithDetail("Shard %s had another state of the reference table when the transaction began.", shard)
	}
	e := pgerr.New(pgerr.FeatureNotSupported, "the copies of a reference table would differ").
		WithDetail("The home shard changed %d rows, shard %s %d, or made other rows of them.", changed, shard, l.changed).
		WithHint("SELECT weft.verify_reference() tells whether the copies were the same before.")
	if x.copies().Compare {
		e.Hint = "A trigger or an expression gives each shard another value: compute it in the statement instead. SELECT weft.verify_reference() tells whether the copies were the same before."
	}
	return e
}

// tee reads rows of a shard: the first columns are the client's, the others are carried.
type tee struct {
	x     *gathering
	rows  stream.Rows
	in    *finish.Inputs // keeps the carried columns; nil: the rows are only summed up
	sum   digest
	whole bool // the rows have the carried columns only
	row   []byte
}

// Next returns the client's part of the next row. It implements stream.Rows.
func (t *tee) Next() ([]byte, error) {
	row, err := t.rows.Next()
	if err != nil {
		return nil, err
	}
	n := len(t.x.d.Columns)
	if t.whole {
		n = 0
	}
	at := 2
	for range n {
		if len(row) < at+4 {
			return nil, wire.ErrMalformed
		}
		if at += 4 + max(int(int32(binary.BigEndian.Uint32(row[at:]))), 0); at > len(row) {
			return nil, wire.ErrMalformed
		}
	}
	t.sum.add(row[at:])
	if t.in != nil && len(t.x.d.Carried) > 0 {
		carried := binary.BigEndian.AppendUint16(nil, uint16(len(t.x.d.Carried)))
		full, err := t.in.Add(append(carried, row[at:]...))
		if err != nil {
			return nil, err
		}
		if full && t.x.copies().Then != nil {
			return nil, pgerr.New(pgerr.ConfigurationLimitExceeded, "the statement changes more rows of a reference table than fit into %d bytes", maxInline).
				WithHint("Change fewer rows at a time.")
		}
	}
	t.row = binary.BigEndian.AppendUint16(t.row[:0], uint16(n))
	t.row = append(t.row, row[2:at]...)
	return t.row, nil
}

// drain reads all rows.
func (t *tee) drain() error {
	for {
		if _, err := t.Next(); err != nil {
			return ended(err)
		}
	}
}

// digest is a sum of rows that does not depend on their order.
type digest struct{ rows, a, b uint64 }

func (d *digest) add(row []byte) {
	sum := sha256.Sum256(row)
	d.rows++
	d.a += binary.BigEndian.Uint64(sum[:])
	d.b += binary.BigEndian.Uint64(sum[8:])
}

// ended returns nil for io.EOF, the end of rows, and other errors unchanged.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
