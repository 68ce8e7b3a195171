package proxy

import (
	"cmp"
	"context"
	"errors"
	"hash/fnv"
	"slices"
	"strconv"
	"time"

	"weft/console"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/proxy/peer"
	"weft/tally"
)

// adminSource is the server as the console sees it.
type adminSource struct {
	srv *Server
	// database is the asking client's database. Databases with declared tables are listed in any
	// case.
	database string
	// silent, if not nil, tells the client about proxies that have not answered.
	silent func(errs []error, consequence string)
}

var _ console.Control = adminSource{}

// Version implements console.Source.
func (a adminSource) Version() string { return a.srv.cfg.Version }

// Proxy implements console.Source.
func (a adminSource) Proxy() string { return a.srv.cfg.Proxy }

// Sessions implements console.Source.
func (a adminSource) Sessions() []console.Session {
	a.srv.register.mu.Lock()
	defer a.srv.register.mu.Unlock()
	var out []console.Session
	for _, s := range a.srv.register.sessions {
		out = append(out, s.describe())
	}
	return out
}

// describe tells what the session is doing, from fields that other goroutines may read.
func (s *Session) describe() console.Session {
	c := console.Session{
		ID: int64(s.id), User: s.login.user, Address: s.client.Conn().RemoteAddr().String(), Connected: s.login.started,
		Pinned: pin(s.reach.pins.Load()).String(), Application: clean(s.login.startup.Get("application_name")),
	}
	c.Database = s.srv.cfg.AdminDatabase
	if s.db != nil {
		c.Database = s.db.Name
	}
	if f := s.account.shown.Load(); f != nil {
		c.Statement = parser.Statement(f.Norm)
	}
	since := s.account.shownAt.Load()
	s.reach.mu.Lock()
	if s.reach.current != nil {
		c.Shard, c.BackendPID, c.Shards = s.reach.current.Shard(), int64(s.reach.current.PID()), 1
	}
	c.Shards += int64(len(s.reach.legs))
	s.reach.mu.Unlock()
	switch {
	case since > 0:
		c.State = "active"
	case s.reach.waiting.Load() && c.Pinned == "":
		c.State = "idle in transaction"
	default:
		c.State = "idle"
	}
	if s.db != nil {
		if what := s.route.touch.waitsFor(); what != "" {
			c.State = "waiting for " + what
		} else if id := s.route.outset.waits.Load(); id != 0 {
			c.State = "waiting for " + cmp.Or(waitWords[id], "throttle "+strconv.FormatInt(id, 10))
		}
	}
	if since < 0 {
		since = -since
	}
	if since != 0 {
		c.Since = tally.Time(since)
	}
	return c
}

// Servers implements console.Source.
func (a adminSource) Servers() []console.Server {
	var out []console.Server
	a.srv.register.holders(func(s *Session, c *pool.Conn) {
		k := c.Lane().Key()
		out = append(out, console.Server{Shard: c.Shard(), Database: k.Database, User: k.User, PID: int64(c.PID()), State: "used", Session: int64(s.id)})
	})
	a.srv.pool.Shards(func(sh *pool.Shard) {
		for _, b := range sh.Idle() {
			out = append(out, console.Server{Shard: sh.Name, Database: b.Key.Database, User: b.Key.User, PID: int64(b.PID), State: "idle"})
		}
	})
	return out
}

// Pools implements console.Source.
func (a adminSource) Pools() []console.Pool {
	cfg := a.srv.pool.Config()
	type key struct{ shard, database, user string }
	sum := map[key]*console.Pool{}
	for _, l := range a.srv.pool.Lanes() {
		k := key{l.Shard, l.Key.Database, l.Key.User}
		p := sum[k]
		if p == nil {
			p = &console.Pool{Shard: k.shard, Database: k.database, User: k.user, Mode: cfg.UserMode(k.user), Limit: int64(cfg.UserLimit(k.user))}
			sum[k] = p
		}
		p.Open, p.Idle, p.Waiting = p.Open+int64(l.Open), p.Idle+int64(l.Idle), p.Waiting+int64(l.Waiting)
	}
	out := make([]console.Pool, 0, len(sum))
	for _, p := range sum {
		out = append(out, *p)
	}
	return out
}

// Shards implements console.Source.
func (a adminSource) Shards() []console.Shard {
	snap := a.srv.cfg.Snapshot()
	out := make([]console.Shard, len(snap.Shards))
	for i := range snap.Shards {
		s := &snap.Shards[i]
		sh := a.srv.pool.Shard(s)
		times, queued := sh.Times.Read(), sh.Queued.Read()
		out[i] = console.Shard{
			Name: s.Name, Hosts: s.Hosts, Home: s.Name == snap.Home, Weight: int64(s.Weight), Paused: sh.Paused(), ConnectionLimit: int64(sh.Most()),
			Statements: int64(times.Count), Seconds: float64(times.Sum) / 1e9, Median: float64(times.Quantile(0.5)) / 1e6, NinetyNinth: float64(times.Quantile(0.99)) / 1e6,
			QueueWaits: int64(queued.Count), QueueSeconds: float64(queued.Sum) / 1e9, State: shardState(snap, s.Name), AtGate: sh.AtGate(),
		}
	}
	views := a.srv.keeper.seeker.Views()
	for i := range out {
		if v := views[out[i].Name]; v != nil {
			out[i].Primary, out[i].Generation, out[i].PrimaryState = v.Primary, generationText(v.Generation), v.State.String()
		}
	}
	for i := range out {
		if v, ok := a.srv.keeper.durable.Verdicts()[out[i].Name]; ok {
			durable := v.Lacks == ""
			out[i].Durable, out[i].Lacks = &durable, v.Lacks
		}
	}
	for _, l := range a.srv.pool.Lanes() {
		if i := slices.IndexFunc(out, func(s console.Shard) bool { return s.Name == l.Shard }); i >= 0 {
			out[i].Open, out[i].Used, out[i].Waiting = out[i].Open+int64(l.Open), out[i].Used+int64(l.Open-l.Idle), out[i].Waiting+int64(l.Waiting)
		}
	}
	for _, on := range snap.PlacementOf(a.database, "")[:snap.BucketCount] {
		out[on].Buckets++
	}
	for i := range snap.Moves {
		if m := &snap.Moves[i]; m.Kind == directory.MoveJoin && m.Join != nil {
			if _, joined := snap.Shard(m.Shard); !joined {
				out = append(out, console.Shard{Name: m.Shard, Hosts: m.Join.Hosts, Weight: int64(m.Join.Weight), State: shardState(snap, m.Shard)})
			}
		}
	}
	return out
}

// shardState words how a shard is.
func shardState(snap *directory.Snapshot, name string) string {
	if state := snap.StateOf(name); state != directory.ShardActive {
		return string(state)
	}
	return "active"
}

// Placement implements console.Source.
func (a adminSource) Placement() []console.Range {
	snap := a.srv.cfg.Snapshot()
	var out []console.Range
	for b, on := range snap.Placement {
		if on == directory.Unused {
			continue
		}
		name := snap.Shards[on].Name
		if n := len(out); n > 0 && out[n-1].Shard == name && out[n-1].Last == int64(b-1) {
			out[n-1].Last++
			continue
		}
		out = append(out, console.Range{First: int64(b), Last: int64(b), Shard: name})
	}
	return out
}

// Tables implements console.Source.
func (a adminSource) Tables() []console.Sharded {
	snap := a.srv.cfg.Snapshot()
	var out []console.Sharded
	for i := range snap.Tables {
		t := &snap.Tables[i]
		d := console.Sharded{Database: t.Database, Schema: t.Schema, Name: t.Name, Kind: string(t.Kind), State: string(t.State), Columns: []string{}}
		for _, c := range t.Columns {
			d.Columns = append(d.Columns, c.Name)
		}
		if len(t.Columns) > 0 {
			d.Vindex = t.Vindex.String()
		}
		if d.State == "" {
			d.State = "active"
		}
		out = append(out, d)
	}
	return out
}

// Statements implements console.Source.
func (a adminSource) Statements() []console.Statement {
	all := a.srv.counts.statements.All()
	out := make([]console.Statement, len(all))
	for i, c := range all {
		text := parser.Statement(c.Norm)
		out[i] = console.Statement{
			ID: statementID(text), User: c.User, Database: c.Database, Text: text, Kind: c.Kind.String(),
			Calls: c.Calls, Errors: c.Errors, Rows: c.Rows, Shards: c.Shards, Total: c.Total, Min: c.Min, Max: c.Max, Mean: c.Mean(), Since: c.Since,
		}
	}
	return out
}

// statementID is the number of a normalised statement in weft's views.
func statementID(text string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(text)) // never fails
	return int64(h.Sum64())
}

// Stats implements console.Source.
func (a adminSource) Stats() []console.Stat {
	out := make([]console.Stat, tally.Kinds)
	for k, h := range a.srv.metrics.kinds {
		r := h.Read()
		out[k] = console.Stat{
			Kind: tally.Kind(k).String(), Count: int64(r.Count), Seconds: float64(r.Sum) / 1e9,
			Median: float64(r.Quantile(0.5)) / 1e6, NinetyNinth: float64(r.Quantile(0.99)) / 1e6,
		}
	}
	return out
}

// Settings implements console.Source.
func (a adminSource) Settings() []console.Setting {
	if a.srv.cfg.Settings == nil {
		return nil
	}
	return a.srv.cfg.Settings()
}

// Transactions implements console.Source.
func (a adminSource) Transactions(ctx context.Context) []console.Transaction {
	snap := a.srv.cfg.Snapshot()
	in := snap.Databases()
	if a.database != "" && !slices.Contains(in, a.database) {
		in = append(in, a.database)
	}
	var shards []string
	for i := range snap.Shards {
		shards = append(shards, snap.Shards[i].Name)
	}
	list, err := a.srv.left.Resolver().List(ctx, shards, in)
	if err != nil { // the list has a row about the error
		a.srv.log.Debug("transactions cannot be listed everywhere", "err", err)
	}
	var out []console.Transaction
	for _, l := range list {
		t := console.Transaction{
			GID: l.GID, Database: l.Database, Shard: l.Shard, State: l.State, Role: l.Role, Proxy: l.Proxy, Decider: l.Decider, Participants: l.Participants,
		}
		if l.GID != "" {
			age := l.Age.Seconds()
			t.Age = &age
		}
		out = append(out, t)
	}
	return out
}

// shardNamed finds the shard that a command names; nil means all shards.
func (a adminSource) shardNamed(name string) (*pool.Shard, error) {
	if name == "" {
		return nil, nil
	}
	spec, ok := a.srv.cfg.Snapshot().Shard(name)
	if !ok {
		return nil, pgerr.New(pgerr.UndefinedObject, "there is no shard %q", name).WithHint("SHOW SHARDS has the names.")
	}
	return a.srv.pool.Shard(spec), nil
}

// Pause implements console.Control.
func (a adminSource) Pause(ctx context.Context, shard string) error {
	sh, err := a.shardNamed(shard)
	if err != nil {
		return err
	}
	a.srv.log.Info("pausing", "shard", shard)
	if err = a.srv.pool.Pause(ctx, sh); err == nil {
		a.srv.log.Info("paused", "shard", shard)
	}
	return err
}

// Resume implements console.Control.
func (a adminSource) Resume(shard string) error {
	sh, err := a.shardNamed(shard)
	if err != nil {
		return err
	}
	a.srv.pool.Resume(sh)
	a.srv.log.Info("resumed", "shard", shard)
	return nil
}

// Reload implements console.Control.
func (a adminSource) Reload(ctx context.Context) ([]string, error) {
	if a.srv.cfg.Reload == nil {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "this weft was not started from a file").WithHint("Start it with weft serve -c weft.yaml.")
	}
	notes, err := a.srv.cfg.Reload(ctx)
	if e := (*pgerr.Error)(nil); err != nil && !errors.As(err, &e) {
		err = pgerr.New(pgerr.ConfigFileError, "weft.yaml was not loaded, the settings are what they were").WithDetail("%s", err.Error())
	}
	return notes, err
}

// Kill implements console.Control.
func (a adminSource) Kill(id int32) error {
	if a.srv.register.killSession(id) {
		return nil
	}
	// The ids of proxies do not overlap, see NewID.
	answers, silent := a.srv.circle.Ask(a.srv.ctx, peer.Question{Session: id, Kill: true})
	if slices.ContainsFunc(answers, func(b []byte) bool { return string(b) == "true" }) {
		return nil
	}
	e := pgerr.New(pgerr.UndefinedObject, "there is no client with the id %d", id).WithHint("The table weft.sessions has the ids.")
	if len(silent) > 0 {
		e = e.WithDetail("%v", errors.Join(silent...))
	}
	return e
}

// killSession ends a session of this proxy. It returns false if this proxy has no such session.
func (r *register) killSession(id int32) bool {
	r.mu.Lock()
	sess := r.sessions[id]
	r.mu.Unlock()
	if sess == nil {
		return false
	}
	r.terminate(sess)
	return true
}

// has reports whether a session of this proxy has not ended.
func (r *register) has(id int32) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sessions[id] != nil
}

// terminate ends a session whatever the session is doing. A server forgets a cancel request that
// finds its backend idle, as happens while a statement is still on its way to the backend. So
// the request is repeated until the session has ended.
func (r *register) terminate(sess *Session) {
	sess.kill(pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command"))
	sess.reach.cancel()
	go r.s.guarded("end of a session", func() {
		for wait := repeatCancel; ; wait = min(2*wait, repeatSlowest) {
			select {
			case <-r.s.ctx.Done():
				return
			case <-time.After(wait):
			}
			r.mu.Lock()
			lives := r.sessions[sess.id] == sess
			r.mu.Unlock()
			if !lives {
				return
			}
			sess.reach.cancel()
		}
	})()
}
