package proxy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/proxy/target"
	"weft/wire"
)

// A session whose weft.target is not primary reads standbys. Package target decides which statements do. A standby has lanes of its own, so
// that such a statement differs from others in nothing but its lane: routing.choose takes the lane of a standby instead of the
// primary's, and so do the legs of a gathered statement. What is put together at home is put together on the home shard's
// primary, from rows that standbys gave.

// away is where the transaction at hand reads standbys.
type away struct {
	s      *Session
	course target.Course
	// wish is what the session's parameters say under the settings in under.
	wish  wish
	known bool // wish holds as long as under are the settings
	under *pool.Settings
	// far: the statement at hand reads standbys.
	far bool
	// lanes are those that the transaction at hand reads, by index of the shard; nil where none has been chosen. Where no standby was
	// fit they are the primary's.
	lanes []*pool.Lane
	// opened are all lanes to standbys that the session has opened.
	opened []*pool.Lane
	last   *pool.Conn  // the backend of a standby that was given back last
	failed *pool.Shard // the standby that could not be used last
	tries  int         // how many standbys could not be used in the transaction at hand
	routed bool        // the last message was routed because of the target
}

// wish is what a session's parameters say of reads on standbys.
type wish struct {
	target target.Target
	maxLag time.Duration
	causal target.Causal
	wait   time.Duration // how long a read waits for a standby that is up to date
	token  string
}

// awayOptions are the parameters of a wish.
var awayOptions = []string{"weft.target", "weft.max_lag", "weft.causal", "weft.causal_wait", "weft.token"}

// inFlux reports whether the open transaction may have set parameters of the wish.
func (aw *away) inFlux() bool {
	d := &aw.s.record.done
	return d.bits&(parser.ChangesAllSettings|parser.DiscardAll) != 0 || d.bits&parser.ChangesSettings != 0 &&
		slices.ContainsFunc(d.sets, func(set parser.Setting) bool { return slices.Contains(awayOptions, set.Name) })
}

// learn finds out what the session's parameters say. It asks a backend only if the session cannot know.
func (aw *away) learn() error {
	rc := &aw.s.record
	if aw.known && aw.under == rc.settings && !aw.inFlux() {
		return nil
	}
	if aw.s.lane.Shard().Sought() && !aw.asks() {
		// Statements for other shards do not wait for the home shard to say what a role's defaults are. Primaries are never wrong.
		aw.wish, aw.known = wish{target: target.Primary}, false
		return nil
	}
	if err := rc.learnOptions(); err != nil {
		return err
	}
	aw.wish, aw.known, aw.under = rc.inEffect.away, !aw.inFlux(), rc.settings
	return nil
}

// asks reports whether the session itself has set a parameter of the wish.
func (aw *away) asks() bool {
	return aw.inFlux() || slices.ContainsFunc(awayOptions, func(name string) bool {
		v, _ := aw.s.record.settings.Get(name)
		return v != ""
	})
}

// routes reports whether texts of a database without declared tables have to be planned, because they may be for standbys.
func (aw *away) routes() bool {
	if aw.s.tx.isOpen() || aw.s.lost.is() || aw.s.record.oddEncoding || aw.s.held.conn != nil && aw.s.held.conn.Status() != wire.TxIdle {
		return aw.routed
	}
	aw.routed = aw.learn() == nil && aw.wish.target != target.Primary
	return aw.routed
}

// begin decides whether a statement reads standbys, and returns the lane to the home shard.
func (aw *away) begin(p *plan.Plan, text []byte, f *parser.Facts, how manner) (home *pool.Lane, err error) {
	if !aw.s.route.standbys {
		return aw.s.lane, nil
	}
	if err := aw.direct(p, f, text, how); err != nil || !p.Timed {
		return aw.s.lane, err
	}
	return aw.home()
}

// direct decides whether a statement reads standbys.
func (aw *away) direct(p *plan.Plan, f *parser.Facts, text []byte, how manner) error {
	aw.far = false
	tx := &aw.s.tx
	block := time.Time{}
	if tx.isOpen() {
		block = tx.began
	}
	if !aw.course.Settled(block) {
		if err := aw.learn(); err != nil {
			return err
		}
	}
	if aw.wish.target == target.Primary {
		aw.course.Stay(block)
		return nil
	}
	st := target.Statement{Begins: aw.s.route.outset.begins(), Block: block, Atomic: aw.s.record.inEffect.read == readAtomic}
	st.Kind, st.Plain = kindOf(p, f)
	level := tx.isolation()
	st.Serial = level == "serializable"
	if tx.isOpen() {
		st.ReadOnly, st.Exact, st.Snapped = tx.isReadOnly(), level != "", level != "" && tx.isSnapped()
		st.Rows = len(f.Relations) > 0 && !namesOwn(f)
	}
	if pinned := aw.s.record.pins&^pinSessionMode != 0; pinned && st.Kind == target.Reads && p.Route != plan.Keyed {
		st.Kind = target.Other // what the session has on its backend may be meant, such as a temporary table
	}
	if st.Kind == target.Reads && aw.s.record.suspicious(f) {
		st.Kind = target.Other
	}
	verdict := aw.course.Decide(aw.wish.target, &st, time.Now())
	if aw.course.Renewed() {
		clear(aw.lanes)
		aw.failed, aw.tries = nil, 0
	}
	if how == asParse && verdict != target.AtStandby {
		return nil // nothing is executed yet
	}
	switch verdict {
	case target.AtStandby:
		aw.far = aw.strict() || !aw.s.lost.retry.again() // what a standby could not do is not tried at another
	case target.DenyWrite:
		return aw.denyWrite(p, f, text)
	case target.DenyAtomic:
		return pgerr.New(pgerr.FeatureNotSupported, "weft.read = 'atomic' is not supported on standbys").
			WithHint("SET weft.target = 'any', which reads primaries then, or SET weft.read = 'shard'.")
	case target.DenySnapped:
		return pgerr.New(pgerr.FeatureNotSupported, "this transaction has its snapshots on primaries, and weft.target is standby").
			WithHint("Begin a transaction with a statement that reads, or SET LOCAL weft.target = 'primary'.")
	case target.DenyMixed:
		return pgerr.New(pgerr.FeatureNotSupported, "this statement needs the primary, and the transaction has its snapshots on standbys").
			WithHint("Run it in a transaction of its own, use READ COMMITTED, or SET weft.target = 'primary' before BEGIN.")
	case target.AtPrimary:
		if st.Kind == target.Reads {
			aw.s.srv.metrics.reads.primary.Add(1)
		}
	}
	return nil
}

// denied are effects that a standby cannot have.
const denied = parser.Writes | parser.DDL | parser.Temp | parser.AdvancesSequence | parser.CopyIn | parser.NonTransactional | parser.Reconfigures |
	parser.Roles | parser.CreatesDatabase | parser.DropsDatabase | parser.TwoPhase | parser.Notifies | parser.Opaque

// kindOf says what a statement does, as far as it decides where it may run, and whether nothing that it calls can change anything.
func kindOf(p *plan.Plan, f *parser.Facts) (kind target.Kind, plain bool) {
	const readable = parser.CopyOut | parser.Cursors | parser.ListsObjects | parser.ReadsSetting
	switch {
	case p.Route == plan.Program, p.Routine != "" && p.Writes && p.Explain == nil:
		return target.Writes, false
	case p.Unread || p.Route == plan.Call || p.Route == plan.Refused || f.Err != nil || namesOwn(f):
		return target.Other, false
	case f.Effects&denied != 0 || p.Change != nil || p.Route == plan.Every || p.Generate != nil || p.Locks || p.Write() != nil && (p.Explain == nil || p.Explain.Analyze):
		return target.Writes, false
	case f.Effects&^readable != 0 || needsHome(f):
		return target.Other, false
	}
	if g := p.Gather(); g != nil && (g.Own || g.Lend != nil) {
		return target.Other, false
	}
	return target.Reads, !p.Writes && (f.Reads || p.Steady || len(f.Funcs) == 0)
}

// namesOwn reports whether a text names something in weft's own schemas.
func namesOwn(f *parser.Facts) bool {
	return readsOwn(f) || callsWeft(f) || slices.ContainsFunc(f.Relations, func(r string) bool {
		return strings.HasPrefix(r, "weft.") || strings.HasPrefix(r, "weft_")
	})
}

// denyWrite is PostgreSQL's error for a statement that cannot run on a standby.
func (aw *away) denyWrite(p *plan.Plan, f *parser.Facts, text []byte) error {
	what := "this statement"
	if w := words(string(text)); len(w) > 0 {
		what = strings.ToUpper(strings.Trim(w[0], "("))
	}
	switch {
	case f.Effects&parser.AdvancesSequence != 0 && f.Effects&parser.Writes == 0:
		what = "nextval()"
	case p.Locks && f.Effects&parser.Writes == 0 && lockingName(text) != "":
		what = lockingName(text)
	case f.Effects&parser.DDL != 0:
		if w := words(string(text)); len(w) > 1 {
			what = strings.ToUpper(w[0] + " " + w[1])
		}
	}
	return pgerr.New(pgerr.ReadOnlySQLTransaction, "cannot execute %s in a read-only transaction", what).
		WithDetail("This session reads standbys: weft.target is %s.", aw.wish.target).
		WithHint("SET weft.target = 'auto' sends reads to standbys and everything else to the primary.")
}

// lane returns the lane by which the statement at hand reads a shard.
func (aw *away) lane(shard int) (*pool.Lane, error) {
	return aw.laneTo(shard, aw.far)
}

// laneTo returns the lane to a shard: that of a standby if far is set and one is fit, else the primary's.
func (aw *away) laneTo(shard int, far bool) (*pool.Lane, error) {
	h := &aw.s.held
	way := h.laneOf(aw.s.route.snap, shard)
	if !far {
		return way.lane, nil
	}
	for len(aw.lanes) <= shard {
		aw.lanes = append(aw.lanes, nil)
	}
	if l := aw.lanes[shard]; l != nil && l.Shard().Name == way.name {
		return l, nil
	}
	l, err := aw.pick(way.lane)
	if err == nil {
		aw.lanes[shard] = l
	}
	return l, err
}

// home returns the lane by which the statement at hand reads the home shard.
func (aw *away) home() (*pool.Lane, error) {
	snap := aw.s.route.snap
	for i := range snap.Shards {
		if snap.Shards[i].Name == snap.Home && aw.far {
			return aw.laneTo(i, true)
		}
	}
	return aw.s.lane, nil
}

// hand is routing.atHand for the statement at hand.
func (aw *away) hand() (*pool.Lane, error) {
	h := &aw.s.held
	if !aw.far || h.conn != nil && (h.conn.Status() != wire.TxIdle || h.isPinned(h.conn)) || h.participant() >= 0 || aw.s.pipe.isUnsynced() {
		return aw.s.route.atHand(), nil
	}
	return aw.home()
}

// pick chooses a standby of a shard, whose primary's lane is given. If none is fit, it is the primary's lane, or an error if the session wants
// standbys only.
func (aw *away) pick(l *pool.Lane) (*pool.Lane, error) {
	srv, sh := aw.s.srv, l.Shard()
	read, err := aw.read(sh)
	if err != nil {
		return nil, err
	}
	sb := sh.Standby(&read)
	if sb == nil && aw.strict() {
		sb = aw.await(sh, &read)
	}
	switch {
	case sb != nil:
		srv.metrics.reads.standby.Add(1)
		return aw.open(sb, l.Key()), nil
	case aw.strict():
		return nil, pgerr.New(pgerr.CannotConnectNow, "shard %q has no standby that this session may read", sh.Name).
			WithDetail("Of its servers: %s.", sh.Unfit(&read)).
			WithHint("SET weft.target = 'any' reads the primary then. weft.max_lag is how far a standby may be behind, and weft.replicas shows how far each is.")
	}
	if !read.After.IsZero() || read.LSN != 0 {
		srv.keeper.seeker.Hurry(sh.Name) // the standby may have caught up by now
	}
	srv.metrics.reads.primary.Add(1)
	return l, nil
}

// strict reports whether the session reads standbys only.
func (aw *away) strict() bool {
	return aw.wish.target == target.Standby || aw.wish.target == target.Any && aw.s.srv.conf().Gather.Replicas.Refuse
}

// read says how up to date a standby of a shard has to be.
func (aw *away) read(sh *pool.Shard) (pool.Read, error) {
	srv := aw.s.srv
	now := time.Now()
	conf := srv.conf().Gather.Replicas
	r := pool.Read{Now: now, MaxLag: aw.wish.maxLag, MaxBytes: conf.MaxLagBytes, Zone: conf.Zone, Not: aw.failed}
	r.After = srv.keeper.barrier.Since(aw.s.route.base, now)
	if srv.keeper.outOfTouch() {
		// Rows may have moved, and the directory has not told.
		r.After = now
	}
	if aw.wish.causal.For(aw.wish.target) && aw.course.Wrote().After(r.After) {
		r.After = aw.course.Wrote()
	}
	if aw.wish.token != "" {
		token, err := target.ParseToken(aw.wish.token)
		if err != nil {
			return r, invalidOption("weft.token", aw.wish.token)
		}
		place := token.Of(sh.Name)
		if place.Lost(sh.Generation()) {
			return r, pgerr.New(pgerr.SerializationFailure, "what the token speaks of was lost when a standby of shard %q was promoted", sh.Name).
				WithDetail("The token has %s on timeline %d, and timeline %d began at %s.", place.LSN, place.Timeline, sh.Generation().Timeline, sh.Generation().Fork).
				WithHint("RESET weft.token, and look whether the change has to be made again.")
		}
		r.LSN = place.LSN
	}
	return r, nil
}

// await waits for a standby that is fit for a read, for as long as the session says.
func (aw *away) await(sh *pool.Shard, r *pool.Read) *pool.Shard {
	s := aw.s
	if aw.wish.wait <= 0 {
		return nil
	}
	s.client.Task().Leave()
	s.srv.metrics.reads.waits.Add(1)
	ctx, stop := context.WithTimeout(s.srv.ctx, aw.wish.wait)
	defer stop()
	for pause := time.Millisecond; ; pause = min(2*pause, 20*time.Millisecond) {
		s.srv.keeper.seeker.Hurry(sh.Name)
		select {
		case <-ctx.Done():
			return nil
		case <-s.reach.cancelled:
			return nil
		case <-time.After(pause):
		}
		r.Now = time.Now()
		if sb := sh.Standby(r); sb != nil {
			return sb
		}
	}
}

// open returns the session's lane to a standby.
func (aw *away) open(sb *pool.Shard, key pool.Key) *pool.Lane {
	if i := slices.IndexFunc(aw.opened, func(l *pool.Lane) bool { return l.Shard() == sb }); i >= 0 {
		return aw.opened[i]
	}
	l := sb.OpenLane(key)
	aw.opened = append(aw.opened, l)
	return l
}

// close closes the session's lanes to standbys.
func (aw *away) close() {
	for _, l := range aw.opened {
		l.CloseLane()
	}
	aw.opened = nil
}

// maxTries bounds how many standbys a transaction tries that cannot be used.
const maxTries = 4

// instead returns a lane in the place of one that no backend could be had from, nil if there is none.
func (aw *away) instead(l *pool.Lane, err error) *pool.Lane {
	if !l.Shard().IsStandby() || !unusable(err) {
		return nil
	}
	snap := aw.s.route.snap
	shard := slices.IndexFunc(aw.lanes, func(o *pool.Lane) bool { return o == l })
	if shard < 0 || shard >= len(snap.Shards) || snap.Shards[shard].Name != l.Shard().Name {
		return nil
	}
	aw.failed, aw.lanes[shard] = l.Shard(), nil
	aw.s.srv.keeper.seeker.Hurry(l.Shard().Name)
	if aw.tries++; aw.tries > maxTries {
		if aw.strict() {
			return nil
		}
		aw.lanes[shard] = aw.s.held.laneOf(snap, shard).lane
		return aw.lanes[shard]
	}
	next, err := aw.laneTo(shard, true)
	if err != nil {
		return nil
	}
	return next
}

// insteadOf finds other lanes in the place of some, because backends could not be had from all of them together. It reports false if there
// are none.
func (aw *away) insteadOf(lanes []*pool.Lane, err error) bool {
	if !unusable(err) || !slices.ContainsFunc(lanes, func(l *pool.Lane) bool { return l.Shard().IsStandby() }) {
		return false
	}
	if aw.tries++; !aw.strict() {
		return aw.retreat()
	}
	clear(aw.lanes) // the standby that failed may have been ejected by now
	return aw.tries <= maxTries
}

// unusable reports whether an error says that a standby cannot be used now.
func unusable(err error) bool {
	if errors.Is(err, pool.ErrLost) {
		return true
	}
	switch e := pgerr.From(err); e.Code {
	case pgerr.ConnectionFailure, pgerr.CannotConnectNow, pgerr.AdminShutdown, pgerr.TooManyConnections, pgerr.ObjectNotInPrerequisiteState, "57P02":
		return true
	}
	return false
}

// outOfTouch reports whether this proxy does not hear of changes in the directory.
func (k *keeper) outOfTouch() bool {
	c, ok := k.s.cfg.Current.(interface{ Err() error })
	return ok && c.Err() != nil
}

// retreat makes the statement at hand read primaries from now on, because standbys could not run it. It reports false if the session
// wants standbys only.
func (aw *away) retreat() bool {
	if aw.strict() {
		return false
	}
	for i := range aw.lanes {
		if i < len(aw.s.route.snap.Shards) {
			aw.lanes[i] = aw.s.held.laneOf(aw.s.route.snap, i).lane
		}
	}
	return true
}
