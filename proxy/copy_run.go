package proxy

import (
	"errors"
	"io"
	"slices"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// copyQuery carries out a COPY that concerns several shards: a simple query of n bytes.
func (cp *copier) copyQuery(r *router, p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	text, literals := slices.Clone(text), slices.Clone(r.scan.Literals)
	cp.s.client.Consume(wire.HeaderLen + n)
	cp.s.account.runsAs(tally.Copy)
	if p.Copy().Query != "" {
		return cp.copyOut(p.Copy(), f)
	}
	x := cp.newLoad(p, text, literals, f)
	if cp.s.out.isQuiet() { // carried out again, by another plan
		m := cp.s.out.mark()
		if err := cp.loadPart(x); err != nil || cp.s.out.failedSince(m) {
			return err
		}
		cp.tellTag(x.tag)
		return nil
	}
	own := !cp.s.tx.isOpen()
	if own {
		cp.s.tx.start("BEGIN")
	}
	failed, err := cp.s.out.quietly(func() error { return cp.loadPart(x) })
	if err != nil {
		return err
	}
	if own {
		if failed, err = cp.s.tx.endOwn(failed); err != nil {
			return err
		}
	}
	if !failed {
		cp.tellTag(x.tag)
	}
	cp.s.out.tellReady()
	if cp.s.script.isRunning() {
		return nil
	}
	return cp.answerSyncs(x.owed)
}

// loadPart carries out a COPY FROM in the open block.
func (cp *copier) loadPart(x *load) error {
	cp.s.reach.beginGather()
	defer cp.s.reach.endGather()
	err := x.run()
	switch {
	case errors.Is(err, errMoved):
		cp.s.reach.endGather()
		return cp.s.tx.runPart(x.text)
	case err != nil:
		return cp.s.gather.gatherFailed(cp.s.route.refuseStray(err))
	}
	return nil
}

// tellTag sends the client a command tag, unless the tag is empty.
func (cp *copier) tellTag(tag string) {
	if tag == "" {
		return
	}
	cp.s.account.run.rows += rowsOf([]byte(tag))
	cp.s.out.Grow()
	cp.s.out.B = wire.AppendCommandComplete(cp.s.out.B, tag)
}

// boundCopy is the portal of a COPY that concerns several shards. It is executed after the
// Execute has left the client's buffer: the data come behind it.
type boundCopy struct {
	portal   string
	plan     *plan.Plan
	facts    *parser.Facts
	text     []byte
	literals []parser.Literal
	over     bool
}

// bindCopy makes the portal of a COPY that concerns several shards.
func (cp *copier) bindCopy(portal []byte, f *parser.Facts, pl *planned) error {
	return cp.s.portals.bindLocal(portal, &localPortal{copies: &boundCopy{
		portal: string(portal),
		plan:   pl.plan, facts: f, text: slices.Clone(pl.text), literals: slices.Clone(pl.literals),
	}})
}

// executeCopy executes the portal of a COPY.
func (cp *copier) executeCopy(b *boundCopy) error {
	if c := cp.s.held.conn; c != nil && c.Status() == wire.TxFailed {
		return cp.s.lost.refuseBound(transactionFailed())
	}
	if b.over {
		return cp.s.lost.refuseBoundRead(cannotRun([]byte(b.portal)))
	}
	b.over = true
	cp.s.account.runsAs(tally.Copy)
	// Earlier messages are answered before the client is asked for data.
	before := cp.s.implicit.openPipe
	if b.plan.Copy().Query != "" && !b.plan.Copy().Writes && !cp.s.implicit.isPiped() {
		before = cp.s.implicit.leavePipe
	}
	if err := before(); err != nil {
		return cp.s.lost.refuseBoundRead(err)
	}
	if b.plan.Copy().Query != "" {
		return cp.executeCopyOut(b)
	}
	m := cp.s.out.mark()
	x, err := cp.loadBound(b)
	if err == nil {
		if !cp.s.out.failedSince(m) {
			cp.tellTag(x.tag)
		}
		return nil
	}
	if err := cp.s.gather.boundFailed(err); err != nil || x == nil {
		return err
	}
	return cp.answerSyncs(x.owed)
}

// loadBound carries out the portal of a COPY FROM in the open block.
func (cp *copier) loadBound(b *boundCopy) (*load, error) {
	cp.s.reach.beginGather()
	defer cp.s.reach.endGather()
	for {
		x := cp.newLoad(b.plan, b.text, b.literals, b.facts)
		err := x.run()
		if !errors.Is(err, errMoved) {
			return x, cp.s.route.refuseStray(err)
		}
		r := cp.s.srv.memory.routers.Get().(*router)
		cp.s.route.read(r, b.text)
		b.plan, err = cp.s.route.plan(r, b.text, nil)
		cp.s.srv.memory.routers.Put(r)
		if err != nil {
			return nil, err
		}
		if b.plan.Copy() == nil || b.plan.Copy().Query != "" {
			return nil, declaredAnew()
		}
	}
}

// copyOut answers COPY (query) TO STDOUT: the query is gathered like any other, and its rows are
// written as COPY data.
func (cp *copier) copyOut(c *plan.Copy, f *parser.Facts) error {
	out, err := cp.newOutlet(c)
	if err != nil {
		return cp.s.lost.refuseRead(cp.s.gather.loseAtHand(err))
	}
	r := cp.s.srv.memory.routers.Get().(*router)
	defer cp.s.srv.memory.routers.Put(r)
	text := []byte(c.Query)
	inner := cp.s.route.read(r, text)
	p, err := cp.s.route.plan(r, text, nil)
	if err == nil {
		r.args.Text, r.args.Literals, r.args.Options = text, r.scan.Literals, cp.s.record.scanOptions()
		var d choice
		r.beginRules(nil, nil) // the COPY itself has passed the outset
		switch d, err = cp.s.route.choose(r, p, text, inner, asQuery); {
		case err != nil:
		case d.do == gatherShards:
			p, err = cp.s.gather.gatheredPlan(r, p, text, nil)
		case d.do == refusePlan:
			err = p.Refusal
		default:
			err = declaredAnew()
		}
	}
	if err == nil && p.Write() != nil {
		return cp.s.write.copyWritten(r, p, text, inner, out)
	}
	if err == nil && (p.Gather() == nil || p.Gather().Lend != nil) {
		err = pgerr.New(pgerr.FeatureNotSupported, "COPY of this query over several shards is not supported").WithHint("Send the query itself.")
	}
	if err != nil {
		return cp.s.lost.refuseRead(err)
	}
	_ = f
	return cp.s.gather.answerGather(r, p, text, inner, consumed, out)
}

// executeCopyOut is copyOut for a portal.
func (cp *copier) executeCopyOut(b *boundCopy) error {
	failed, err := cp.s.out.quietly(func() error { return cp.copyOut(b.plan.Copy(), b.facts) })
	if failed {
		cp.s.pipe.skipToSync()
	}
	if errors.Is(err, pool.ErrLost) {
		return cp.s.pipe.failed(err)
	}
	return err
}

// newOutlet prepares to write rows as COPY data.
func (cp *copier) newOutlet(c *plan.Copy) (*outlet, error) {
	if err := cp.s.held.useLane(cp.s.lane); err != nil {
		return nil, err
	}
	if err := cp.s.tx.quiesce(); err != nil {
		return nil, err
	}
	cp.s.held.conn.UnnamedGone()
	if err := cp.s.held.conn.CopyOut(c.Check, io.Discard); err != nil {
		if e := (*pgerr.Error)(nil); errors.As(err, &e) {
			e.Position = 0 // the position is one in weft's own text
		}
		return nil, err
	}
	if c.Unclear != "" {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "COPY from several shards with this %s is not supported", c.Unclear).
			WithHint("Use another format, or other options: text, CSV and binary are supported.")
	}
	if e := canonicalEncoding(c.Encoding); c.Encoding != "" && e != strings.ReplaceAll(cp.s.out.encoding, "_", "") {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "COPY from several shards in another encoding than the client's is not supported").
			WithHint("SET client_encoding = '%s'.", c.Encoding)
	}
	return &outlet{format: c.Format, quoted: c.Columns}, nil
}
