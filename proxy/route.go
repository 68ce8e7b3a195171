package proxy

import (
	"errors"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/wire"
)

// router is what routing one text needs of buffers. Sessions borrow them.
type router struct {
	scan parser.Scanner
	bind executor.Binder
	args executor.Args
	free bool // no row can be touched: any shard will do
}

// read scans a text and returns what it does to the session.
func (s *Session) read(r *router, text []byte) *parser.Facts {
	if s.oddEncoding {
		return unreadable
	}
	return s.srv.texts.Facts(&r.scan, text, s.scanOptions())
}

func (s *Session) scanOptions() parser.Options {
	return parser.Options{NonStandardStrings: s.oldStrings}
}

// plan returns where a text goes; the scan is r's. Statements on a table whose
// rows are being moved wait here.
func (s *Session) plan(r *router, text, oids []byte) (*plan.Plan, error) {
	if s.oddEncoding {
		return nil, s.unreadText()
	}
	foreign := !utf8.Valid(text) && s.reported["client_encoding"] != "UTF8"
	if foreign {
		if text = masked(text, r.scan.Literals); text == nil {
			return nil, s.unreadText()
		}
	}
	for {
		env, err := s.environment()
		if err != nil {
			return nil, err
		}
		p := s.srv.plans.Plan(env, &r.scan, text, oids)
		s.srv.metrics.plans.Add(s.id, 1)
		if foreign && p.Route != plan.Home && p.Route != plan.Any {
			return nil, s.unreadText()
		}
		if !p.Waits {
			s.relies.on(p)
			return p, nil
		}
		if s.block.open && (s.conn != nil || len(s.parked) > 0) {
			// The move may be waiting for a lock this transaction holds.
			return nil, p.Refusal
		}
		if err := s.awaitMove(p); err != nil {
			return nil, err
		}
	}
}

// unreadText refuses a text whose characters weft does not know.
func (s *Session) unreadText() error {
	return pgerr.New(pgerr.FeatureNotSupported, "client_encoding %s is not supported in this text, in a database with sharded tables", s.reported["client_encoding"]).
		WithHint("SET client_encoding = 'UTF8', or give what is not ASCII as parameters.")
}

// masked returns a text with something else in the place of the characters in
// its literals that are not ASCII, nil if there are such outside of literals.
// It has the same tables. Without that it could not be parsed, and would be
// taken for a mistake that the home shard shall tell.
func masked(text []byte, literals []parser.Literal) []byte {
	text = slices.Clone(text)
	for _, l := range literals {
		for i := l.Start; i < l.End; i++ {
			text[i] = min(text[i], 0x7f)
		}
	}
	if slices.ContainsFunc(text, func(c byte) bool { return c >= utf8.RuneSelf }) {
		return nil
	}
	return text
}

// awaitMove waits for the cluster to change.
func (s *Session) awaitMove(p *plan.Plan) error {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	old := s.snap
	for s.srv.cfg.Snapshot() == old {
		select {
		case <-s.cancelled:
			return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request")
		case <-s.ctx.Done():
			return p.Refusal
		case <-tick.C:
			if e := s.killed.Load(); e != nil {
				return e
			}
		}
	}
	s.routed()
	return nil
}

// laneFor returns the lane to the one shard a plan's execution visits.
func (s *Session) laneFor(r *router, p *plan.Plan, f *parser.Facts) (*pool.Lane, error) {
	r.free = false
	switch p.Route {
	case plan.Refused:
		return nil, p.Refusal
	case plan.Any:
		switch {
		case needsHome(f):
		case p.Timed && s.block.open && s.block.clock != nil:
			return s.block.clock.Lane(), nil
		default:
			return s.atHand(), nil
		}
	case plan.AnyCopy:
		switch {
		case f.Effects&parser.HoldCursor != 0:
			return s.lane, nil
		case p.Timed && s.block.open && s.block.clock != nil:
			return s.block.clock.Lane(), nil
		case s.block.open:
			return s.atHand(), nil
		}
		return s.laneOf(s.snap, int(s.id)%len(s.snap.Shards)).lane, nil
	case plan.Gathered:
		return nil, errGather
	case plan.Keyed:
		if p.Lookups || p.Strays {
			return nil, errGather
		}
		r.args.ASCII = s.reported["client_encoding"] != "UTF8"
		if err := s.lookUp(r, p, p.Instances); err != nil {
			return nil, err
		}
		shards, err := r.bind.Bind(p, s.snap, &r.args)
		if err != nil {
			return nil, err
		}
		one, ok := shards.One()
		if !ok && (p.Gather != nil || p.Write != nil || p.Copy != nil || p.Postponed) {
			return nil, errGather
		}
		if !ok {
			return nil, p.Refusal
		}
		if shards.Any() && s.block.open {
			r.free = true
			return s.atHand(), nil
		}
		if len(shards.Missing) == 0 {
			lane := s.laneOf(s.snap, one).lane
			if p.Timed && s.block.late(lane) {
				return nil, errGather // it is told the time
			}
			if f.Effects&parser.HoldCursor != 0 && p.Gather != nil && lane != s.lane {
				return nil, errGather // such a cursor is on the home shard
			}
			return lane, nil
		}
		// Somebody may have given a value another place meanwhile.
		if err := s.enter(shards.Missing); err != nil {
			return nil, err
		}
		s.routed()
		return s.laneFor(r, p, f)
	}
	if p.Timed && p.Route == plan.Home && s.block.late(s.lane) {
		return nil, errGather
	}
	return s.lane, nil
}

// atHand returns the lane of a backend that takes part already, so that
// functions such as now() give what they gave before.
func (s *Session) atHand() *pool.Lane {
	switch {
	case s.conn != nil:
		return s.conn.Lane()
	case s.block.writer != nil:
		return s.block.writer.Lane()
	}
	if i := s.participant(); i >= 0 {
		return s.parked[i].Lane()
	}
	return s.lane
}

// homeEffects concern what lives on the home shard alone.
const homeEffects = parser.Temp | parser.AdvisoryLock | parser.HoldCursor | parser.Load | parser.Seed | parser.Listens | parser.Unlistens |
	parser.Notifies | parser.Prepares | parser.Executes | parser.Deallocates | parser.DiscardAll | parser.DiscardTemp | parser.DiscardPlans |
	parser.DiscardSequences | parser.DDL | parser.CreatesDatabase | parser.DropsDatabase | parser.Reconfigures | parser.ReadsSequence |
	parser.AdvancesSequence | parser.SessionID | parser.ReadsPrepared | parser.ReadsListening | parser.Opaque | parser.CopyIn | parser.TwoPhase

// needsHome reports whether a text without tables must run on the home shard:
// locks and sequences are there.
func needsHome(f *parser.Facts) bool {
	return f.Effects&homeEffects != 0 || slices.ContainsFunc(f.Funcs, func(name string) bool {
		return strings.Contains(name, "advisory") || strings.HasPrefix(name, "lo_")
	})
}

// routedQuery handles a simple query in a database with declared tables.
func (s *Session) routedQuery(text []byte, n int) error {
	r := s.srv.routers.Get().(*router)
	defer s.srv.routers.Put(r)
	f := s.read(r, text)
	s.runs(f)
	s.portalLane = nil // a simple query takes the unnamed portal away
	delete(s.local, "")
	if f.Statements > 1 {
		return s.severalQuery(r, text, f, n)
	}
	return s.statementQuery(r, text, f, n)
}

// statementQuery is routedQuery for a text of one statement at most.
func (s *Session) statementQuery(r *router, text []byte, f *parser.Facts, n int) error {
	switch {
	case s.lostTx:
		return s.queryInLostTx(text, f, n)
	case s.conn != nil && s.conn.Status == wire.TxFailed:
		if endsTx(f) {
			s.block.chain = f.Effects&parser.TxBegin != 0
		} else if rollsBackTo(text, f) {
			// ROLLBACK TO is for all of them.
			if err := s.onAll(string(text), f); err != nil {
				s.client.Consume(wire.HeaderLen + n)
				return s.refuseStatement(err)
			}
		}
		return s.runQuery(text, f, n)
	case opensBlock(f) && !s.block.open:
		if s.conn != nil { // see bindBegin
			if err := s.park(); err != nil {
				return s.refuseQuery(err, n)
			}
		}
		tag := s.block.start(beginText(text))
		return s.answerCommand(tag, n)
	case f.Effects&parser.ImportsSnapshot != 0 && s.block.open:
		return s.importQuery(text, n)
	case f.Effects&parser.ExportsSnapshot != 0 && s.block.open:
		return s.exportQuery(text, f, n)
	case endsTx(f) && s.block.open:
		if err := s.mayChain(f); err != nil {
			return s.refuseQuery(err, n)
		}
		if !s.ends() {
			tag := s.endLocally(text, f)
			return s.answerCommand(tag, n)
		}
		if commits(string(text)) {
			if err := s.agree(); err != nil {
				s.client.Consume(wire.HeaderLen + n)
				return s.uncommitted(err)
			}
		}
		s.block.chain = f.Effects&parser.TxBegin != 0
		return s.runQuery(text, f, n)
	}
	if toAll(f) || s.setsModes(text, f) {
		return s.queryForAll(text, f, n)
	}
	return s.plannedQuery(r, text, f, n)
}

// queryForAll runs what all participants of the block must run.
func (s *Session) queryForAll(text []byte, f *parser.Facts, n int) error {
	if err := s.useForAll(string(text), f); err != nil {
		return s.refuseQuery(err, n)
	}
	return s.runQuery(text, f, n)
}

// plannedQuery is routedQuery for what is planned.
func (s *Session) plannedQuery(r *router, text []byte, f *parser.Facts, n int) error {
	if f.Effects&parser.Executes != 0 {
		sql, ok, err := s.executedText(text, f)
		if err != nil {
			return s.refuseQuery(err, n)
		}
		if ok {
			s.client.Consume(wire.HeaderLen + n)
			return s.runPart([]byte(sql))
		}
	}
	err := s.knowOwn(f)
	if err != nil {
		return s.refuseQuery(err, n)
	}
	p, err := s.plan(r, text, nil)
	if err != nil {
		return s.refuseQuery(err, n)
	}
	switch {
	case p.Unread:
		return s.refuseQuery(s.refusedText(text, nil, p.Refusal), n)
	case p.Route == plan.Call:
		return s.callQuery(p, n)
	case len(p.Params) > 0 && p.Route != plan.Home && p.Route != plan.Any && p.Route != plan.Every:
		if err := s.useFor(s.lane, p, f, true); err != nil { // where there are none
			return s.refuseQuery(err, n)
		}
		return s.runQuery(text, f, n)
	case p.Route == plan.Refused:
		return s.refuseQuery(s.refusedText(text, nil, p.Refusal), n)
	case p.Route == plan.Every:
		return s.everyQuery(p, text, f, n)
	}
	edits, err := s.place(r, p, text, f)
	if errors.Is(err, errMoved) {
		return s.plannedQuery(r, text, f, n)
	}
	if errors.Is(err, errGather) {
		return s.gatherQuery(r, p, text, f, n)
	}
	if err != nil {
		return s.refuseQuery(s.refusedText(text, nil, err), n)
	}
	return s.runPlaced(text, edits, f, n)
}

// runPlaced runs a text on the backend that place has made ready.
func (s *Session) runPlaced(text []byte, edits parser.Edits, f *parser.Facts, n int) error {
	if edits != nil {
		sql := string(text)
		s.client.Consume(wire.HeaderLen + n)
		return s.sendEdited(sql, edits, f)
	}
	return s.runQuery(text, f, n)
}

// place makes a backend ready to run a text of that plan, and returns the edits
// that put values of weft's own into it.
func (s *Session) place(r *router, p *plan.Plan, text []byte, f *parser.Facts) (parser.Edits, error) {
	r.args.Text, r.args.Literals, r.args.Options = text, r.scan.Literals, s.scanOptions()
	r.args.Params = executor.Params{}
	if p.Generate != nil {
		if err := s.generate(r, p); err != nil {
			return nil, err
		}
	}
	lane, err := s.cursorLane(text, p, f)
	if lane == nil && err == nil {
		lane, err = s.listingLane(f)
	}
	if lane == nil && err == nil {
		lane, err = s.laneFor(r, p, f)
	}
	if err == nil {
		err = s.useFor(lane, p, f, r.free)
	}
	if err == nil {
		err = s.settleCursors(text, f)
	}
	if err == nil {
		s.noteCursor(text, f, false)
	}
	if err == nil {
		err = s.stillTrue()
	}
	if p.Route == plan.Home || p.Route == plan.Any {
		s.noteSequences(f, text)
	}
	if err != nil || p.Generate == nil {
		return nil, err
	}
	return executor.LiteralEdits(p.Generate, text, r.scan.Literals, r.args.Generated)
}

// errMoved says that tables have been declared since the statement was planned.
var errMoved = errors.New("declarations have changed")

// stillTrue looks once more whether what the statement was planned by holds: it
// may have waited for a backend, and rows may be on their way elsewhere. Nothing
// of it has been sent, so it can be planned anew.
func (s *Session) stillTrue() error {
	if !s.overtaken() {
		return nil
	}
	s.routed()
	return errMoved
}

// useFor makes the lane's backend ready to run a text of that plan.
func (s *Session) useFor(lane *pool.Lane, p *plan.Plan, f *parser.Facts, free bool) error {
	if f.Effects&parser.DDL != 0 && f.Effects&parser.Temp == 0 {
		if err := s.mayChange(); err != nil {
			return err
		}
	}
	if f.Effects&parser.HoldCursor != 0 && lane != s.lane {
		return pgerr.New(pgerr.FeatureNotSupported, "a cursor WITH HOLD cannot be on another shard than home").
			WithHint("Use it inside a transaction block, without WITH HOLD.")
	}
	first := s.block.open && s.block.clock == nil
	if err := s.snapshotsFor(f); err != nil {
		return err
	}
	if b := &s.block; b.serial {
		if b.only == nil {
			b.only = lane
		} else if b.only != lane {
			return s.maySerialize("use tables")
		}
	}
	if err := s.useLane(lane); err != nil {
		return err
	}
	if first {
		s.block.clock = s.conn // whoever else has joined for a snapshot
	}
	if s.block.open && len(f.Relations) > 0 && f.Effects&(parser.ChangesSettings|parser.ChangesAllSettings) != 0 {
		// set_config with a value of a row: the others cannot repeat it.
		if s.participant() >= 0 {
			return crossShardBlock()
		}
		s.block.sealed = true
	}
	if f.Effects&parser.Notifies != 0 {
		if err := s.notifiesHere(); err != nil {
			return err
		}
	}
	if s.block.carries && lane == s.lane && (p.Writes || f.Effects&(parser.Writes|parser.Notifies) != 0) {
		if err := s.tellFirst(s.conn); err != nil {
			return err
		}
	}
	if !free && (p.Writes || f.Effects&(parser.Writes|transactional) != 0) {
		return s.writes()
	}
	if p.Locks && !s.block.open {
		s.piped = true // until a Sync they stay locked
	}
	return nil
}

// transactional are effects that COMMIT decides about, as it does about rows.
const transactional = homeEffects &^ (parser.Executes | parser.ReadsPrepared | parser.ReadsListening | parser.SessionID |
	parser.ReadsSequence | parser.AdvancesSequence | parser.Seed | parser.Load | parser.AdvisoryLock)

// refuseQuery answers a simple query of n bytes with an error of weft's own.
func (s *Session) refuseQuery(err error, n int) error {
	s.client.Consume(wire.HeaderLen + n)
	return s.refuseRead(err)
}

// answerCommand answers a simple query with nothing but a command tag.
func (s *Session) answerCommand(tag string, n int) error {
	s.client.Consume(wire.HeaderLen + n)
	s.toClient.Grow()
	s.toClient.B = wire.AppendCommandComplete(s.toClient.B, tag)
	s.tellReady()
	return nil
}

// endLocally ends a block nobody has joined. It returns the command tag.
func (s *Session) endLocally(text []byte, f *parser.Facts) string {
	tag := "COMMIT"
	if w := words(string(text)); len(w) > 0 && (w[0] == "rollback" || w[0] == "abort") {
		tag = "ROLLBACK"
	}
	if f.Effects&parser.TxBegin == 0 { // not AND CHAIN
		s.block = block{}
	}
	return tag
}

// enter makes the lookup entries of values that are stored for the first time.
func (s *Session) enter(missing []executor.Missing) error {
	if s.srv.cfg.Entries == nil {
		return pgerr.New(pgerr.FeatureNotSupported, "this proxy cannot make lookup entries")
	}
	// They are sorted by lookup: one request for each.
	for len(missing) > 0 {
		name := missing[0].Lookup
		var keys [][]byte
		var buckets []int
		for len(missing) > 0 && missing[0].Lookup == name {
			keys, buckets = append(keys, missing[0].Key), append(buckets, missing[0].Bucket)
			missing = missing[1:]
		}
		if _, err := s.srv.cfg.Entries.Ensure(s.ctx, name, keys, buckets); err != nil {
			return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "a place for a new value of lookup %q cannot be entered", name).
				WithDetail("%s", err.Error()).WithHint("Is etcd reachable? Values that have a place are not concerned.")
		}
	}
	return nil
}
