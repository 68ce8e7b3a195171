package proxy

import (
	"errors"
	"io"
	"strings"

	"weft/finish"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// The remainder of a gathered query runs on PostgreSQL. Few rows go along as parameters, to
// the client's own backend of the home shard: its role, settings, temporary tables and
// transaction are what the rest of the statement sees. Many rows are copied into a
// temporary table of a separate backend.

const (
	// inlineBytes is how many bytes of rows go along as parameters, unless the client sets
	// another number, which is at most maxInline.
	inlineBytes = 1 << 20
	maxInline   = 64 << 20
	// inlineAtHome is how many bytes of rows go along as parameters where only the client's
	// own backend can do the work: cursors, rows in portions, CREATE TABLE AS.
	inlineAtHome = 64 << 20
	// maxTargets is how many columns PostgreSQL lets a query have.
	maxTargets = 1664
)

// collect brings the rows of all pieces together.
func (ga *gatherer) collect(x *gathering) error {
	for _, cols := range x.d.Pieces {
		if err := finish.Carriable(cols); err != nil {
			_ = ga.s.legs.endLegs(x.legs, true)
			return err
		}
	}
	if x.waits() {
		ga.sendInOrder(x.legs)
	} else {
		ga.sendLegs(x.legs)
	}
	x.intake.inputs = finish.NewInputs(x.shapes(x.d), len(x.d.Params), finish.Limits{Inline: ga.s.record.inline(x), Max: ga.s.record.maxGatherBytes()})
	err := ga.collectRows(x)
	ended := ga.s.legs.endLegs(x.legs, err != nil)
	if err != nil && !errors.Is(err, errEnd) && ended != nil {
		err = ended // the error of the shard itself
	}
	if err == nil {
		err = ended
	}
	err = x.asRefused(err)
	if err == nil && x.intake.stage == nil && !x.atHome() && x.intake.inputs.LooksUp() {
		err = apart(ga.s.legs.openStage(x))
	}
	if err == nil && x.intake.stage != nil {
		ga.s.reach.trackStager(x)
		err = apart(x.intake.stage.Close())
	}
	if err == nil {
		err = ga.s.reach.interrupted()
	}
	if err != nil {
		ga.s.reach.endStage(x)
	}
	return err
}

// collectRows reads the rows of both rounds, see secondRound.
func (ga *gatherer) collectRows(x *gathering) error {
	if err := ga.readLegs(x); err != nil || x.rounds.later == nil {
		return err
	}
	if err := ga.askLater(x); err != nil {
		return err
	}
	return ga.readLegs(x)
}

// readLegs keeps the rows that the legs send.
func (ga *gatherer) readLegs(x *gathering) error {
	for _, l := range x.legs {
		for {
			row, err := l.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return err
			}
			if err := ga.keepRow(x, row); err != nil {
				return err
			}
		}
	}
	return nil
}

// keepRow keeps a row for the remainder.
func (ga *gatherer) keepRow(x *gathering, row []byte) error {
	full, err := x.intake.keep(row)
	switch {
	case err != nil || !full:
		return err
	case x.write != nil:
		return pgerr.New(pgerr.ConfigurationLimitExceeded, "the rows that this statement reads from other shards are too many").
			WithHint("Write it so that tables are joined by their shard keys, or do it in portions.")
	case !x.atHome():
		return apart(ga.s.legs.openStage(x))
	case x.intake.noTemp:
		return pgerr.New(pgerr.ConfigurationLimitExceeded, "the rows that this statement gathers are too many for memory, and this role may not create temporary tables").
			WithHint("Grant it TEMPORARY on the database.")
	default:
		return pgerr.New(pgerr.ConfigurationLimitExceeded, "the rows that this statement gathers are too many for a cursor or CREATE TABLE AS").
			WithHint("Read them with a plain SELECT.")
	}
}

// inline is how many bytes of rows may go along as parameters.
func (rc *record) inline(x *gathering) int64 {
	if x.atHome() {
		return inlineAtHome
	}
	return rc.inEffect.inlineBytes
}

// shapes is how the remainder sees the pieces.
func (x *gathering) shapes(d *plan.Description) []finish.Shape {
	out := make([]finish.Shape, len(x.g.Pieces))
	for i := range out {
		out[i] = finish.Shape{Columns: d.Pieces[i], Types: x.g.Pieces[i].Types, Collations: x.g.Pieces[i].Collations, Index: x.g.Pieces[i].Index}
	}
	return out
}

// atHome reports whether only the client's own backend can run the remainder.
func (x *gathering) atHome() bool {
	return x.portal.limited || x.intake.noTemp || x.g.Own || x.plan.Writes || x.plan.Locks || x.d.Columns == nil
}

// appendRemainder appends the messages that parse and bind the remainder over the collected
// rows.
func (x *gathering) appendRemainder(dst []byte, portal []byte) ([]byte, error) {
	fill := x.fill()
	oids, values, err := x.intake.bind(fill, x.d.Params, x.req.values)
	if err != nil {
		return dst, err
	}
	dst = wire.AppendParse(dst, "", x.prefix()+x.sql(fill), appendOIDs(nil, oids))
	dst, at := wire.Begin(dst, wire.Bind)
	dst = append(append(dst, portal...), 0, 0)
	dst = append(append(dst, values...), x.req.formats...)
	return wire.End(dst, at), nil
}

// answerCollected answers a simple query from the collected rows.
func (ga *gatherer) answerCollected(x *gathering) error {
	if x.intake.stage != nil {
		if err := ga.s.legs.passStaged(x, true); err != nil {
			return ga.gatherFailed(err)
		}
		ga.s.out.tellReady()
		return nil
	}
	if err := ga.useForRemainder(x); err != nil {
		return ga.gatherFailed(err)
	}
	if x.g.Lend != nil {
		return ga.s.pipe.answerLent(x)
	}
	out, err := x.appendRemainder(ga.s.pipe.unsent.B, nil)
	if err == nil {
		err = ga.s.reach.interrupted()
	}
	if err != nil {
		return ga.gatherFailed(err)
	}
	ga.s.pipe.unsent.B = out
	ga.s.pipe.ops.push(op{kind: opParse, injected: true, foreign: true})
	ga.s.pipe.ops.push(op{kind: opBind, injected: true, foreign: true})
	if x.d.Columns != nil {
		ga.s.pipe.ops.push(op{kind: opLocal, frame: x.appendStart(nil)})
	}
	ga.s.pipe.unsent.B = wire.AppendEmpty(appendExecute(ga.s.pipe.unsent.B), wire.Sync)
	ga.s.pipe.ops.push(op{kind: opExecute, foreign: true, copies: x.out})
	ga.s.pipe.ops.push(op{kind: opSync, quiet: ga.s.out.isQuiet()})
	x.intake.inputs = nil
	return ga.s.pipe.exchange()
}

// executeCollected makes a portal of the home shard from the collected rows, under the
// client's name, and passes the client's Execute on.
func (ga *gatherer) executeCollected(x *gathering, name, body []byte) error {
	if x.intake.stage != nil {
		err := ga.s.legs.passStaged(x, false)
		x.portal.over = err == nil
		if err != nil {
			return ga.boundFailed(err)
		}
		return nil
	}
	if err := ga.useForRemainder(x); err != nil {
		return ga.boundFailed(err)
	}
	if x.g.Lend != nil {
		return ga.s.pipe.executeLent(x, name, body)
	}
	out, err := x.appendRemainder(ga.s.pipe.unsent.B, name)
	if err == nil {
		err = ga.s.reach.interrupted()
	}
	if err != nil {
		return ga.boundFailed(err)
	}
	ga.s.pipe.awaitSync()
	ga.s.pipe.unsent.B = out
	ga.s.pipe.ops.push(op{kind: opParse, injected: true, foreign: true})
	ga.s.pipe.ops.push(op{kind: opBind, injected: true, foreign: true})
	ga.s.pipe.unsent.B = wire.AppendFrame(ga.s.pipe.unsent.B, wire.Execute, body)
	ga.s.pipe.ops.push(op{kind: opExecute, foreign: true, run: ga.s.account.deferRun()})
	x.intake.inputs = nil
	ga.s.portals.handOver(x, name)
	ga.s.reach.interrupt.handed = true
	return nil
}

// onForeignError looks at an error that ends the remainder. The end of the backend does not
// end the client's session.
func (ga *gatherer) onForeignError(c *pool.Conn, o *op, body []byte) error {
	switch e := pool.ServerError(body); {
	case e.Severity == pgerr.SeverityFatal || e.Severity == "PANIC":
		return c.Lost(e)
	case e.Code == pgerr.QueryCanceled:
		if cause := ga.s.reach.interrupted(); cause != nil {
			o.err = pgerr.From(cause)
		}
	}
	return nil
}

// useForRemainder makes the client's own backend of the home shard ready.
func (ga *gatherer) useForRemainder(x *gathering) error {
	if err := ga.s.route.useFor(ga.s.lane, x.plan, x.req.facts, false); err != nil {
		return err
	}
	if err := ga.s.portals.settleCursors(x.req.text, x.req.facts, asQuery); err != nil {
		return err
	}
	if ga.s.record.special(x.req.facts) {
		ga.s.record.done.note(ga.s, x.req.facts)
	}
	ga.s.portals.noteCursor(x.req.text, x.req.facts, x.d)
	ga.s.held.conn.UnnamedGone()
	ga.s.pipe.unsent.Grow()
	return nil
}

// checkRemainder makes sure that the remainder has the result that the statement has. A
// difference is a bug in weft, and must not become a wrong row.
func (ga *gatherer) checkRemainder(x *gathering, d *plan.Description) error {
	total := 1
	for _, cols := range d.Pieces {
		total += len(cols)
	}
	if len(d.Pieces) > 1 && total > maxTargets {
		return pgerr.New(pgerr.FeatureNotSupported, "%d columns of several tables are too many to be read together on several shards", total-1).
			WithHint("Name the columns that are needed, instead of *.")
	}
	for i := range d.Pieces {
		if finish.Carriable(d.Pieces[i]) != nil {
			return ga.checkNative(x, d) // collect will refuse: there is no remainder
		}
	}
	in := finish.NewInputs(x.shapes(d), len(d.Params), finish.Limits{})
	fill := x.fill()
	fill.Now = func(dst []byte) []byte { return append(dst, "pg_catalog.now()"...) }
	fill.Input = in.AppendInput
	sql := string(x.g.Remainder.Append(nil, fill))
	_, cols, err := finish.Describe(ga.s.held.conn, sql, in.AppendTypes(d.Params[:len(d.Params):len(d.Params)]))
	if err != nil && !blames(err) {
		return err
	}
	if err != nil {
		ga.s.log.Error("the remainder cannot be described", "sql", logged(sql), "err", err)
		return pgerr.New(pgerr.InternalError, "the statement cannot be put together: %s", pgerr.From(err).Message)
	}
	want := d.Columns
	if x.g.Command != nil {
		want = d.Query
	}
	return ga.checkColumns(cols, want, sql)
}

// checkNative is checkRemainder for a query with a column that cannot be carried to the home shard:
// if weft itself merges the rows, the client gets the columns of the first piece.
func (ga *gatherer) checkNative(x *gathering, d *plan.Description) error {
	n := x.g.Native
	if n == nil || n.Aggregate != nil || x.g.Command != nil {
		return nil
	}
	cols := d.Pieces[0]
	return ga.checkColumns(cols[:min(n.Columns, len(cols))], d.Columns, "")
}

func (ga *gatherer) checkColumns(cols, want []plan.Column, sql string) error {
	var differ []string
	if len(cols) != len(want) {
		differ = append(differ, "number of columns")
	} else {
		for i := range cols {
			if cols[i].Type != want[i].Type {
				differ = append(differ, cols[i].Name+" "+cols[i].SQL+" for "+want[i].SQL)
			}
		}
	}
	if len(differ) > 0 {
		ga.s.log.Error("the remainder has another result", "sql", logged(sql), "differ", differ)
		return pgerr.New(pgerr.InternalError, "the statement cannot be put together: its result would differ in %s", strings.Join(differ, ", "))
	}
	return nil
}
