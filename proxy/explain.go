package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"strings"
	"time"

	"weft/executor"
	"weft/explain"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// EXPLAIN of a gathered query is answered with weft's plan, and below it each shard's plan of
// the shard's statement. With ANALYZE the query is run as always, except that the client gets none of its rows.
// Then each shard is asked for EXPLAIN ANALYZE of its statement: in the same transaction, if
// one is open, and without sending the rows again.

// explaining is an EXPLAIN in the making.
type explaining struct {
	*plan.Explain
	// text and literals are those of the client's EXPLAIN. The gathering has those of the
	// query.
	text     []byte
	literals []parser.Literal
	// prefix is the EXPLAIN put before the statements sent to shards; empty while the query is
	// run.
	prefix string

	analyzed bool // the query has been run
	// unsure has the lookups that could not tell where rows are.
	unsure map[*plan.LookupKey]bool

	rows []string // the lines of the answer
	next int      // the index in rows of the first line not yet sent to the client
	ran  bool     // rows have been made; a portal may be executed in portions
}

// explained turns the execution of an EXPLAIN's text into one of its query.
func (x *gathering) explained() error {
	e := x.plan.Explain
	x.explain = &explaining{Explain: e, text: x.req.text, literals: x.req.literals}
	return x.cutExplain()
}

// cutExplain takes the EXPLAIN off the text.
func (x *gathering) cutExplain() error {
	e := x.explain
	at, ok := parser.Place(e.text, e.literals, e.After, e.Offset)
	if !ok {
		return pgerr.New(pgerr.InternalError, "the query of an EXPLAIN cannot be found")
	}
	x.req.blank(e.text, e.literals, at)
	return nil
}

// prefix is the EXPLAIN put before the statements sent to shards, empty if the shards run them.
func (x *gathering) prefix() string {
	if x.explain == nil {
		return ""
	}
	return x.explain.prefix
}

// explainQuery answers an EXPLAIN sent as a simple query.
func (en *explainer) explainQuery(r *router, x *gathering) error {
	err := x.explained()
	if err == nil {
		x.req.readInto(&r.args, en.s.record.scanOptions())
		err = en.explainWhole(r, x)
	}
	if errors.Is(err, errMoved) {
		return en.s.tx.runPart(x.explain.text)
	}
	if err != nil {
		return en.s.gather.gatherFailed(err)
	}
	en.s.out.Grow()
	en.s.out.B = x.describeResult(en.s.out.B)
	if err := en.passExplained(x, 0); err != nil {
		return err
	}
	en.s.out.tellReady()
	return nil
}

// executeExplain executes a portal of an EXPLAIN.
func (en *explainer) executeExplain(x *gathering, limit int) error {
	if !x.explain.ran {
		if err := en.explainBound(x); err != nil {
			return en.s.gather.boundFailed(err)
		}
		x.explain.ran = true
		if setsFromRows(x.req.facts) && !en.s.tx.isOpen() {
			en.s.implicit.seal()
		}
	}
	return en.passExplained(x, limit)
}

// explainBound makes the answer of an EXPLAIN's portal.
func (en *explainer) explainBound(x *gathering) error {
	if err := en.s.record.mayRead(x.req.text, x.req.read); err != nil {
		return err
	}
	r := en.s.srv.memory.routers.Get().(*router)
	defer en.s.srv.memory.routers.Put(r)
	for {
		if !x.req.bindInto(&r.args, en.s.record.scanOptions()) {
			return wire.ErrMalformed
		}
		x.g, x.write = x.plan.Gather(), x.plan.Write()
		err := en.explainWhole(r, x)
		if !errors.Is(err, errMoved) {
			return err
		}
		text := x.explain.text
		en.s.route.read(r, text)
		if x.plan, err = en.s.route.plan(r, text, x.req.oids); err != nil {
			return err
		}
		if x.plan, err = en.s.gather.gatheredPlan(r, x.plan, text, x.req.oids); err != nil {
			return err
		}
		if x.plan.Gather() == nil && x.plan.Write() == nil || x.plan.Explain == nil {
			return errGather
		}
		x.explain.Explain = x.plan.Explain
		if err := x.cutExplain(); err != nil {
			return err
		}
	}
}

// passExplained sends the client the next limit rows of the answer, or all of them if limit is
// 0.
func (en *explainer) passExplained(x *gathering, limit int) error {
	e := x.explain
	for n := 0; e.next < len(e.rows); n++ {
		en.s.out.Grow()
		if limit > 0 && n == limit {
			en.s.out.B = wire.AppendEmpty(en.s.out.B, wire.PortalSuspended)
			return nil
		}
		row := e.rows[e.next]
		e.next++
		var at int
		en.s.out.B, at = wire.Begin(en.s.out.B, wire.DataRow)
		en.s.out.B = append(en.s.out.B, 0, 1)
		en.s.out.B = binary.BigEndian.AppendUint32(en.s.out.B, uint32(len(row)))
		en.s.out.B = wire.End(append(en.s.out.B, row...), at)
		if en.s.out.Full() {
			if err := en.s.out.flushOrEnd(); err != nil {
				return err
			}
		}
	}
	en.s.out.Grow()
	en.s.out.B = wire.AppendCommandComplete(en.s.out.B, "EXPLAIN")
	return nil
}

// appendRows appends the whole answer, for a command that is told when its transaction has ended.
func (e *explaining) appendRows(dst []byte) []byte {
	for _, row := range e.rows {
		var at int
		dst, at = wire.Begin(dst, wire.DataRow)
		dst = binary.BigEndian.AppendUint32(append(dst, 0, 1), uint32(len(row)))
		dst = wire.End(append(dst, row...), at)
	}
	return wire.AppendCommandComplete(dst, "EXPLAIN")
}

// OIDs of the types that EXPLAIN answers with.
const (
	textOID = 25
	jsonOID = 114
)

// column is the one column of EXPLAIN's answer.
func (e *explaining) column() plan.Column {
	c := plan.Column{Name: "QUERY PLAN", Type: textOID, Size: -1, Mod: -1}
	if e.JSON() {
		c.Type = jsonOID
	}
	return c
}

// explainWhole makes the whole answer of an EXPLAIN.
func (en *explainer) explainWhole(r *router, x *gathering) error {
	e := x.explain
	e.rows, e.next, e.prefix, e.analyzed = nil, 0, "", false
	began := time.Now()
	if x.write != nil {
		report, err := en.explainWrite(r, x)
		if err != nil {
			return err
		}
		planned := time.Now()
		if e.Summary {
			report.PlanningTime = explain.Since(began, planned)
		}
		if e.Analyze {
			if report.Change.Rows, err = en.s.write.analyzeWrite(r, x); err != nil {
				return err
			}
			if e.Summary {
				report.ExecutionTime = explain.Since(planned, time.Now())
			}
		}
		return e.answer(report)
	}
	if err := en.checkExplain(x); err != nil {
		return err
	}
	if !e.Analyze {
		e.prefix = e.SQL()
	}
	if err := en.s.gather.prepareGather(r, x); err != nil {
		return err
	}
	report := en.reportOf(x)
	prepared := time.Now()
	if e.Analyze {
		if err := en.s.gather.analyze(x, report, began, prepared); err != nil {
			return err
		}
		if e.Summary {
			report.ExecutionTime = explain.Since(prepared, time.Now())
		}
		x.legs, e.prefix = nil, e.SQL()
		if err := en.s.gather.prepareGather(r, x); err != nil {
			return err
		}
	}
	if err := en.askShards(x, report); err != nil {
		return err
	}
	if e.Summary {
		report.PlanningTime = explain.Since(began, prepared)
	}
	return e.answer(report)
}

// answer turns a report into rows.
func (e *explaining) answer(report *explain.Report) error {
	if !e.JSON() {
		e.rows = report.Lines()
		return nil
	}
	out, err := report.JSON()
	e.rows = []string{out}
	return err
}

// checkExplain finds errors in the query, then errors in the options, as PostgreSQL does; error
// positions are those in the client's text.
func (en *explainer) checkExplain(x *gathering) error {
	if err := en.s.gather.mayGather(x); err != nil {
		return err
	}
	if err := en.s.tx.takeSnapshots(); err != nil {
		return err
	}
	if err := en.s.gather.describeGather(x); err != nil {
		return err
	}
	return en.checkOptions(x)
}

// checkOptions finds errors in EXPLAIN's options.
func (en *explainer) checkOptions(x *gathering) error {
	e := x.explain
	if len(e.Options) > 0 || e.Format != "text" {
		if err := en.s.held.useLane(en.s.lane); err != nil {
			return err
		}
		if err := en.s.tx.quiesce(); err != nil {
			return err
		}
		en.s.held.conn.UnnamedGone()
		at, _ := parser.Place(e.text, e.literals, e.After, e.Offset)
		if _, err := en.s.held.conn.Exec(string(e.text[:at]) + " SELECT"); err != nil {
			return err
		}
	}
	if e.Format != "text" && e.Format != "json" {
		return pgerr.New(pgerr.FeatureNotSupported, "EXPLAIN of a query over several shards has no format %s", strings.ToUpper(e.Format)).
			WithHint("Use FORMAT TEXT or FORMAT JSON.")
	}
	return nil
}

// reportOf makes the part of the report that is known before anything is run.
func (en *explainer) reportOf(x *gathering) *explain.Report {
	ex := &explain.Execution{
		Gather: x.g, Known: x.d, Native: x.native != nil, Now: x.now, Home: en.s.route.snap.Home, Visits: x.rounds.all(),
		Literal: func(i int) string { return string(x.req.literal(i)) },
		Reduces: x.reduces, Reduced: x.reducedSQL, Unsure: x.unsure,
	}
	for i := range en.s.route.snap.Shards {
		ex.Shards = append(ex.Shards, en.s.route.snap.Shards[i].Name)
	}
	if x.g.Native != nil && x.native == nil {
		ex.Notes = append(ex.Notes, en.whyNotNative(x))
	}
	if x.g != x.plan.Gather() {
		ex.Notes = append(ex.Notes, "the types of its columns forbid larger pieces")
	}
	return explain.New(ex)
}

// noteLookups remembers which lookups could not tell where rows are.
func (e *explaining) noteLookups(found map[*plan.LookupKey]*executor.Found) {
	e.unsure = map[*plan.LookupKey]bool{}
	for key, f := range found {
		e.unsure[key] = f.Unsure
	}
}

// unsure reports whether a lookup could not tell where rows are.
func (x *gathering) unsure(key *plan.LookupKey) bool { return x.explain.unsure[key] }

// whyNotNative says why nativeFor has returned no plan.
func (en *explainer) whyNotNative(x *gathering) string {
	switch max := en.s.record.maxParallelShards(); {
	case !en.s.record.inEffect.native:
		return "weft.native is off"
	case len(x.g.Native.Order) > 0 && max > 0 && max < len(en.s.route.snap.Shards):
		return "a merge reads from all shards at once, and weft.max_parallel_shards forbids that"
	}
	return "weft itself does not go by the types of its columns, or by its LIMIT"
}

// askShards asks every shard for its own plan.
func (en *explainer) askShards(x *gathering, report *explain.Report) error {
	en.s.gather.sendLegs(x.legs)
	answers := make([][]string, len(x.legs))
	var err error
	for i, l := range x.legs {
		if answers[i], err = l.texts(); err != nil {
			break
		}
	}
	ended := en.s.legs.endLegs(x.legs, err != nil)
	if ended != nil {
		return ended
	}
	for i, l := range x.legs {
		if err := report.Plan.Shard(en.s.route.snap.Shards[l.shard].Name).Answer(answers[i], x.explain.JSON()); err != nil {
			return err
		}
	}
	return err
}

// texts reads rows of one column up to the end.
func (l *leg) texts() ([]string, error) {
	var out []string
	for {
		row, err := l.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		if len(row) < 6 {
			return nil, wire.ErrMalformed
		}
		out = append(out, string(row[6:]))
	}
}
