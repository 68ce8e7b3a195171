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

// copyQuery carries out a COPY that concerns several shards: a simple query of n
// bytes.
func (s *Session) copyQuery(r *router, p *plan.Plan, text []byte, f *parser.Facts, n int) error {
	text, literals := slices.Clone(text), slices.Clone(r.scan.Literals)
	s.client.Consume(wire.HeaderLen + n)
	s.runsAs(tally.Copy)
	if p.Copy.Query != "" {
		return s.copyOut(p.Copy, f)
	}
	x := s.newLoad(p, text, literals, f)
	if s.quiet { // again, by another plan
		if err := s.loadPart(x); err != nil {
			return err
		}
		s.tellTag(x.tag)
		return nil
	}
	own := !s.block.open
	if own {
		s.block.start("BEGIN")
	}
	s.quiet, s.quietFailed = true, false
	err := s.loadPart(x)
	s.quiet = false
	if err != nil {
		return err
	}
	if own {
		if err := s.endOwn(); err != nil {
			return err
		}
	}
	s.tellTag(x.tag)
	s.tellReady()
	return nil
}

// loadPart carries out a COPY FROM in the open block.
func (s *Session) loadPart(x *load) error {
	s.beginGather()
	defer s.endGather()
	err := x.run()
	switch {
	case errors.Is(err, errMoved):
		s.endGather()
		return s.runPart(x.text)
	case err != nil:
		return s.gatherFailed(s.strayed(err))
	}
	return nil
}

// tellTag tells the client that a statement is done, unless something went wrong
// after that.
func (s *Session) tellTag(tag string) {
	if s.quietFailed || tag == "" {
		return
	}
	s.run.rows += rowsOf([]byte(tag))
	s.toClient.Grow()
	s.toClient.B = wire.AppendCommandComplete(s.toClient.B, tag)
}

// boundCopy is the portal of such a COPY. It is executed when the client's buffer has
// let go of the Execute: the data is behind it.
type boundCopy struct {
	portal   string
	plan     *plan.Plan
	facts    *parser.Facts
	text     []byte
	literals []parser.Literal
	over     bool
}

func (s *Session) bindCopy(portal []byte, f *parser.Facts, pl *planned) error {
	return s.bindLocal(portal, &localPortal{copies: &boundCopy{
		portal: string(portal),
		plan:   pl.plan, facts: f, text: slices.Clone(pl.text), literals: slices.Clone(pl.literals),
	}})
}

// executeCopy executes the portal.
func (s *Session) executeCopy(b *boundCopy) error {
	if b.over {
		return s.refuseBoundRead(cannotRun([]byte(b.portal)))
	}
	b.over = true
	s.runsAs(tally.Copy)
	// What came before is answered before the data is asked for.
	before := s.openPipe
	if b.plan.Copy.Query != "" && !s.piped {
		before = s.leavePipe
	}
	if err := before(); err != nil {
		return s.refuseBoundRead(err)
	}
	if b.plan.Copy.Query != "" {
		return s.executeCopyOut(b)
	}
	s.quietFailed = false
	tag, err := s.loadBound(b)
	if err != nil {
		return s.boundFailed(err)
	}
	s.tellTag(tag)
	return nil
}

// loadBound carries out the portal of a COPY FROM in the open block.
func (s *Session) loadBound(b *boundCopy) (tag string, err error) {
	s.beginGather()
	defer s.endGather()
	for {
		x := s.newLoad(b.plan, b.text, b.literals, b.facts)
		err := x.run()
		if !errors.Is(err, errMoved) {
			return x.tag, s.strayed(err)
		}
		r := s.srv.routers.Get().(*router)
		s.read(r, b.text)
		b.plan, err = s.plan(r, b.text, nil)
		s.srv.routers.Put(r)
		if err != nil {
			return "", err
		}
		if b.plan.Copy == nil || b.plan.Copy.Query != "" {
			return "", declaredAnew()
		}
	}
}

// copyOut answers COPY (query) TO STDOUT: the query is gathered as any other, and its
// rows are written as COPY data.
func (s *Session) copyOut(c *plan.Copy, f *parser.Facts) error {
	out, err := s.newOutlet(c)
	if err != nil {
		return s.refuseRead(s.loseAtHand(err))
	}
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	text := []byte(c.Query)
	inner := s.read(r, text)
	p, err := s.plan(r, text, nil)
	if err == nil {
		r.args.Text, r.args.Literals, r.args.Options = text, r.scan.Literals, s.scanOptions()
		if _, err = s.laneFor(r, p, inner); errors.Is(err, errGather) {
			p, err = s.gatheredPlan(r, p, text, nil)
		} else if err == nil {
			err = declaredAnew()
		}
	}
	if err == nil && (p.Gather == nil || p.Gather.Lend != nil || p.Write != nil) {
		err = pgerr.New(pgerr.FeatureNotSupported, "COPY of this query over several shards is not supported").WithHint("Send the query itself.")
	}
	if err != nil {
		return s.refuseRead(err)
	}
	_ = f
	return s.answerGather(r, p, text, inner, consumed, out)
}

// executeCopyOut is copyOut among extended messages.
func (s *Session) executeCopyOut(b *boundCopy) error {
	s.quiet, s.quietFailed = true, false
	err := s.copyOut(b.plan.Copy, b.facts)
	s.quiet = false
	s.skipping = s.skipping || s.quietFailed
	if errors.Is(err, pool.ErrLost) {
		return s.failed(err)
	}
	return err
}

// newOutlet prepares to write rows as COPY data.
func (s *Session) newOutlet(c *plan.Copy) (*outlet, error) {
	if err := s.useLane(s.lane); err != nil {
		return nil, err
	}
	if err := s.sent(); err != nil {
		return nil, err
	}
	s.conn.UnnamedBy = 0
	if err := s.conn.CopyOut(c.Check, io.Discard); err != nil {
		if e := (*pgerr.Error)(nil); errors.As(err, &e) {
			e.Position = 0 // of a text that is none of the client's
		}
		return nil, err
	}
	if c.Unclear != "" {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "COPY from several shards with this %s is not supported", c.Unclear)
	}
	if e := canonicalEncoding(c.Encoding); c.Encoding != "" && e != strings.ReplaceAll(s.reported["client_encoding"], "_", "") {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "COPY from several shards in another encoding than the client's is not supported").
			WithHint("SET client_encoding = '%s'.", c.Encoding)
	}
	return &outlet{format: c.Format, quoted: c.Columns}, nil
}
