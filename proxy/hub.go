package proxy

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// hub hears, for all sessions on a database, what is notified on any of its
// shards, so that a listener needs no backend of its own: the hub has one ear per
// shard. A transaction notifies on one shard only, whichever that is, so nothing is
// heard twice.
//
// A shard that cannot be reached gets an ear when it can. Nobody notifies there
// before it is back, but from then on somebody may, unheard: so whoever
// has begun to listen without that ear is told so at LISTEN, and is sent away when
// the ear is there.
type hub struct {
	srv *Server
	db  *pool.Database
	mu  sync.Mutex
	// ears are by shard.
	ears map[string]*ear
	subs map[string]map[*Session]bool
	// mending: missing ears are being looked after. The next try is not before
	// nextTry.
	mending bool
	nextTry time.Time
}

// How long the hub waits for a shard: to be reached, to answer a command, and before it
// is tried again.
const (
	earDial   = 3 * time.Second
	earAnswer = 5 * time.Second
	earRetry  = time.Second
)

// hub returns the hub of a database; nil for a session without one.
func (s *Server) hub(db *pool.Database) *hub {
	if db == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hubs[db.Name]
	if h == nil {
		h = &hub{srv: s, db: db, ears: map[string]*ear{}, subs: map[string]map[*Session]bool{}}
		s.hubs[db.Name] = h
	}
	return h
}

// set makes the hub deliver exactly these channels to a session. When it
// returns nil, every notification sent from now on reaches the session, but for those of
// the shards that it returns: they cannot be reached. On channels that
// the session loses, it has got what was sent before: a backend's client that sits idle has, too.
func (h *hub) set(s *Session, channels map[string]bool) (unheard []string, err error) {
	if h.takes(s, channels) {
		h.sync()
	}
	return h.assign(s, channels)
}

// takes reports whether a session would lose a channel.
func (h *hub) takes(s *Session, channels map[string]bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch, subs := range h.subs {
		if subs[s] && !channels[ch] {
			return true
		}
	}
	return false
}

func (h *hub) assign(s *Session, channels map[string]bool) (unheard []string, err error) {
	h.mu.Lock()
	// The hub may lose its ears again while nobody listens yet.
	for len(channels) > 0 && len(h.missing(h.srv.cfg.Snapshot())) > len(unheard) {
		h.mu.Unlock()
		if unheard, err = h.open(s); err != nil {
			return nil, err
		}
		h.mu.Lock()
	}
	var fresh []string
	for ch := range channels {
		if h.subs[ch] == nil {
			h.subs[ch] = map[*Session]bool{}
			fresh = append(fresh, ch)
		}
		h.subs[ch][s] = true
	}
	var stale []string
	for ch, subs := range h.subs {
		if !channels[ch] && subs[s] {
			delete(subs, s)
			if len(subs) == 0 {
				delete(h.subs, ch)
				stale = append(stale, ch)
			}
		}
	}
	if idle := h.dismiss(); len(idle) > 0 {
		h.mu.Unlock()
		for _, e := range idle {
			e.kick() // its reader hangs up
		}
		return nil, nil
	}
	// An empty command, too: another session's LISTEN of the same channel may be on its way.
	if len(channels) == 0 && len(stale) == 0 {
		h.mu.Unlock()
		return nil, nil
	}
	return unheard, h.command(listenText(fresh, stale))
}

// listenText is the command that begins to listen to some channels and ends it for others.
func listenText(fresh, stale []string) string {
	var b strings.Builder
	for _, ch := range fresh {
		b.WriteString("LISTEN " + pool.QuoteIdent(ch) + ";")
	}
	for _, ch := range stale {
		b.WriteString("UNLISTEN " + pool.QuoteIdent(ch) + ";")
	}
	return b.String()
}

// dismiss takes the ears from a hub that nobody listens to or waits for. mu is
// held.
func (h *hub) dismiss() []*ear {
	if len(h.subs) > 0 {
		return nil
	}
	for _, e := range h.ears {
		if len(e.waiting) > 0 {
			return nil
		}
	}
	idle := slices.Collect(maps.Values(h.ears))
	clear(h.ears)
	return idle
}

// forget takes a session out that has ended.
func (h *hub) forget(s *Session) {
	if h == nil || len(s.record.channels) == 0 {
		return
	}
	_, _ = h.assign(s, nil)
}

// sync returns when everything notified before the call has been delivered to
// the inboxes: a backend sends notifications before it is ready again.
func (h *hub) sync() {
	h.mu.Lock()
	_ = h.command("")
}

// command runs SQL on all ears and waits for their answers. mu is held and given up.
// An ear that does not answer in time is lost, and those who listen with it.
func (h *hub) command(sql string) error {
	asked := make([]*ear, 0, len(h.ears))
	answers := make([]<-chan error, 0, len(h.ears))
	for _, e := range h.ears {
		asked, answers = append(asked, e), append(answers, e.ask(sql))
	}
	h.mu.Unlock()
	patience := time.NewTimer(earAnswer)
	defer patience.Stop()
	var failed error
	for i, e := range asked {
		var err error
		select {
		case err = <-answers[i]:
		case <-patience.C:
			e.kick()
			patience.Reset(0) // for the others, too
			err = <-answers[i]
		}
		if err != nil && (failed == nil || e.home()) {
			failed = err
		}
	}
	return failed
}

// places are the shards that something can be notified on: as long as no table is
// declared, that is the home shard.
func (h *hub) places(snap *directory.Snapshot) []string {
	if len(snap.Declared(h.db.Name)) == 0 {
		return []string{snap.Home}
	}
	names := make([]string, len(snap.Shards))
	for i := range snap.Shards {
		names[i] = snap.Shards[i].Name
	}
	return names
}

// missing are those of them that the hub has no ear on. mu is held.
func (h *hub) missing(snap *directory.Snapshot) []string {
	return slices.DeleteFunc(h.places(snap), func(shard string) bool { return h.ears[shard] != nil })
}

// open gives the hub the ears that it needs. It returns the shards that it cannot
// reach; the home shard must be.
func (h *hub) open(s *Session) (unheard []string, err error) {
	snap := h.srv.cfg.Snapshot()
	h.mu.Lock()
	list := h.missing(snap)
	h.mu.Unlock()
	failed := make([]error, len(list))
	var wg sync.WaitGroup
	for i, shard := range list {
		wg.Go(func() {
			defer pgerr.Recovered(&failed[i])
			if shard == snap.Home {
				// Without the session's startup parameters: others will use it too.
				failed[i] = h.connect(s.srv.ctx, shard, s.lane.Key().User)
				return
			}
			failed[i] = h.connect(s.srv.ctx, shard, h.srv.cfg.ServiceUser)
		})
	}
	wg.Wait()
	for i, shard := range list {
		pgerr.Raise(failed[i])
		if failed[i] != nil && shard == snap.Home {
			return nil, failed[i]
		}
		if failed[i] != nil {
			s.log.Warn("a shard is not listened to", "shard", shard, "database", h.db.Name, "err", failed[i])
			unheard = append(unheard, shard)
		}
	}
	return unheard, nil
}

// connect gives the hub an ear on a shard, which listens to all that anybody does.
func (h *hub) connect(ctx context.Context, shard, user string) error {
	ctx, cancel := context.WithTimeout(ctx, earDial)
	defer cancel()
	dialled, err := h.srv.dialSpare(ctx, shard, h.db.Name, user)
	if err != nil {
		return err
	}
	e := &ear{hub: h, shard: shard, conn: dialled.Conn}
	h.mu.Lock()
	if h.ears[shard] != nil { // somebody was faster
		h.mu.Unlock()
		e.conn.Terminate()
		return nil
	}
	h.ears[shard] = e
	h.srv.wg.Go(h.srv.guarded("notifications", e.run))
	if len(h.subs) == 0 {
		h.mu.Unlock()
		return nil
	}
	late := h.sessions()
	answer := e.ask(listenText(slices.Collect(maps.Keys(h.subs)), nil))
	h.mu.Unlock()
	if err := e.await(answer); err != nil {
		return err
	}
	if !h.unused(shard) {
		e.dismay(late)
	}
	return nil
}

// unused reports whether nobody can have notified on a shard so far: no table that
// is declared is in use yet.
func (h *hub) unused(shard string) bool {
	snap := h.srv.cfg.Snapshot()
	return shard != snap.Home && !slices.ContainsFunc(snap.Declared(h.db.Name), func(t directory.Table) bool { return t.State != directory.Declaring })
}

// sessions are all that listen. mu is held.
func (h *hub) sessions() map[*Session]bool {
	all := map[*Session]bool{}
	for _, subs := range h.subs {
		maps.Copy(all, subs)
	}
	return all
}

// followHubs gives hubs the ears that they miss: when shards are back, and when a
// first table is declared.
func (s *Server) followHubs(ctx context.Context) {
	s.every(ctx, hubInterval, func(snap *directory.Snapshot) {
		s.mu.Lock()
		hubs := slices.Collect(maps.Values(s.hubs))
		s.mu.Unlock()
		for _, h := range hubs {
			h.follow(snap)
		}
	})
}

// every shows the cluster to f, time and again until ctx is done, once it is known.
func (s *Server) every(ctx context.Context, interval time.Duration, f func(*directory.Snapshot)) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if snap := s.cfg.Snapshot(); snap != nil {
			f(snap)
		}
	}
}

// hubInterval is how soon a hub follows the directory.
const hubInterval = 20 * time.Millisecond

// follow begins to connect the ears that are missing.
func (h *hub) follow(snap *directory.Snapshot) {
	h.mu.Lock()
	var list []string
	if len(h.subs) > 0 && !h.mending && !time.Now().Before(h.nextTry) {
		list = h.missing(snap)
	}
	h.mending = h.mending || len(list) > 0
	h.mu.Unlock()
	if len(list) == 0 {
		return
	}
	h.srv.wg.Go(h.srv.guarded("notifications", func() {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.mending, h.nextTry = false, time.Now().Add(earRetry)
		}()
		var wg sync.WaitGroup
		for _, shard := range list {
			wg.Go(h.srv.guarded("notifications", func() { _ = h.connect(h.srv.ctx, shard, h.srv.cfg.ServiceUser) }))
		}
		wg.Wait()
	}))
}

// expect gives the hub an ear on every shard, if anybody listens, before a first table is
// declared: what is notified where its rows are is heard from the beginning. Shards that
// cannot be reached now are looked after by follow.
func (h *hub) expect(ctx context.Context) {
	snap := h.srv.cfg.Snapshot()
	var wg sync.WaitGroup
	h.mu.Lock()
	for i := range snap.Shards {
		if shard := snap.Shards[i].Name; len(h.subs) > 0 && h.ears[shard] == nil {
			wg.Go(h.srv.guarded("notifications", func() { _ = h.connect(ctx, shard, h.srv.cfg.ServiceUser) }))
		}
	}
	h.mu.Unlock()
	wg.Wait()
}

// hear passes a notification on to whoever listens.
func (h *hub) hear(shard string, body []byte) {
	pid, channel, payload, ok := wire.DecodeNotification(body)
	if !ok {
		return
	}
	id := h.srv.sessionOf(shard, pid)
	h.mu.Lock()
	sessions := slices.Collect(maps.Keys(h.subs[channel]))
	h.mu.Unlock()
	for _, s := range sessions {
		if !s.reach.inbox.put(wire.AppendNotification(nil, id, channel, payload)) {
			s.kill(pgerr.Fatal(pgerr.OutOfMemory, "too many notifications are waiting for this client").
				WithDetail("The client has not read them."))
			continue
		}
		s.wake()
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.ears {
		_ = e.conn.Conn().SetDeadline(time.Unix(1, 0))
	}
}
