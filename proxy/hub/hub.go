package hub

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/wire"
)

// Hub hears, for all sessions on a database, what is notified on any of its shards. A
// session that listens needs no backend: the hub has one ear per shard. A transaction
// notifies on one shard only, so nothing is heard twice.
//
// A shard that cannot be reached gets an ear when it can be. No transaction notifies
// there before the shard is back, but from then on one may, unheard. So a session that
// begins to listen without that ear is told so at LISTEN, and is ended when the ear is
// there.
type Hub struct {
	cfg      *Config
	database string

	mu   sync.Mutex
	ears map[string]*ear // by shard
	subs map[string]map[Listener]bool
	// mending: missing ears are being connected. The next try is not before nextTry.
	mending bool
	nextTry time.Time
}

// How long the hub waits for a shard: to be reached, and before it is tried again.
const (
	earDial  = 3 * time.Second
	earRetry = time.Second
)

// earAnswer is how long a command may take. Tests shorten it.
var earAnswer = 5 * time.Second

// Set makes the hub deliver exactly these channels to a session. user is whose rights
// the ear on the home shard gets, if it is missing. When it
// returns nil, every notification sent from now on reaches the session, but for those of
// the shards that it returns: they cannot be reached. On channels that
// the session loses, it has got what was sent before, as an idle client of a backend has.
func (h *Hub) Set(s Listener, user string, channels map[string]bool) (unheard []string, err error) {
	if h.takes(s, channels) {
		h.Sync()
	}
	return h.assign(s, user, channels)
}

// takes reports whether a session would lose a channel.
func (h *Hub) takes(s Listener, channels map[string]bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	for ch, subs := range h.subs {
		if subs[s] && !channels[ch] {
			return true
		}
	}
	return false
}

func (h *Hub) assign(s Listener, user string, channels map[string]bool) (unheard []string, err error) {
	h.mu.Lock()
	// The hub may lose its ears again while no session listens yet.
	for len(channels) > 0 && len(h.missing(h.cfg.Snapshot())) > len(unheard) {
		h.mu.Unlock()
		if unheard, err = h.open(user); err != nil {
			return nil, err
		}
		h.mu.Lock()
	}
	var fresh []string
	for ch := range channels {
		if h.subs[ch] == nil {
			h.subs[ch] = map[Listener]bool{}
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
			e.kick() // the ear's reader closes the connection
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
		b.WriteString("LISTEN " + quote.Ident(ch) + ";")
	}
	for _, ch := range stale {
		b.WriteString("UNLISTEN " + quote.Ident(ch) + ";")
	}
	return b.String()
}

// dismiss takes the ears from a hub that no session listens to or waits for. mu is
// held.
func (h *Hub) dismiss() []*ear {
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

// Forget takes out a session that has ended.
func (h *Hub) Forget(s Listener) { _, _ = h.assign(s, "", nil) }

// Sync returns when everything notified before the call has been delivered to
// the inboxes: a backend sends notifications before it is ready again.
func (h *Hub) Sync() {
	h.mu.Lock()
	_ = h.command("")
}

// command runs SQL on all ears and waits for their answers. mu is held and given up.
// An ear that does not answer in time is lost, and those who listen with it.
func (h *Hub) command(sql string) error {
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
func (h *Hub) places(snap *directory.Snapshot) []string {
	if len(snap.Declared(h.database)) == 0 {
		return []string{snap.Home}
	}
	names := make([]string, len(snap.Shards))
	for i := range snap.Shards {
		names[i] = snap.Shards[i].Name
	}
	return names
}

// missing are those of them that the hub has no ear on. mu is held.
func (h *Hub) missing(snap *directory.Snapshot) []string {
	return slices.DeleteFunc(h.places(snap), func(shard string) bool { return h.ears[shard] != nil })
}

// open gives the hub the ears that it needs. It returns the shards that it cannot
// reach; the home shard must be.
func (h *Hub) open(user string) (unheard []string, err error) {
	snap := h.cfg.Snapshot()
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
				failed[i] = h.connect(h.cfg.Context, shard, user)
				return
			}
			failed[i] = h.connect(h.cfg.Context, shard, h.cfg.ServiceUser)
		})
	}
	wg.Wait()
	for i, shard := range list {
		pgerr.Raise(failed[i])
		if failed[i] != nil && shard == snap.Home {
			return nil, failed[i]
		}
		if failed[i] != nil {
			h.cfg.Log.Warn("a shard is not listened to", "shard", shard, "database", h.database, "err", failed[i])
			unheard = append(unheard, shard)
		}
	}
	return unheard, nil
}

// connect gives the hub an ear on a shard, which listens to the channels of all sessions.
func (h *Hub) connect(ctx context.Context, shard, user string) error {
	ctx, cancel := context.WithTimeout(ctx, earDial)
	defer cancel()
	conn, err := h.cfg.Dial(ctx, shard, h.database, user)
	if err != nil {
		return err
	}
	e := &ear{hub: h, shard: shard, conn: conn}
	h.mu.Lock()
	if h.ears[shard] != nil { // another session was faster
		h.mu.Unlock()
		e.conn.Terminate()
		return nil
	}
	h.ears[shard] = e
	h.cfg.Spawn(e.run)
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

// unused reports whether no session can have notified on a shard so far, because no declared table
// is in use yet.
func (h *Hub) unused(shard string) bool {
	snap := h.cfg.Snapshot()
	return shard != snap.Home && !slices.ContainsFunc(snap.Declared(h.database), func(t directory.Table) bool { return t.State != directory.Declaring })
}

// sessions are all that listen. mu is held.
func (h *Hub) sessions() map[Listener]bool {
	all := map[Listener]bool{}
	for _, subs := range h.subs {
		maps.Copy(all, subs)
	}
	return all
}

// follow begins to connect the ears that are missing.
func (h *Hub) follow(snap *directory.Snapshot) {
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
	h.cfg.Spawn(func() {
		defer func() {
			h.mu.Lock()
			defer h.mu.Unlock()
			h.mending, h.nextTry = false, time.Now().Add(earRetry)
		}()
		var wg sync.WaitGroup
		for _, shard := range list {
			wg.Go(h.cfg.Guarded(func() { _ = h.connect(h.cfg.Context, shard, h.cfg.ServiceUser) }))
		}
		wg.Wait()
	})
}

// Expect gives the hub an ear on every shard, if a session listens, before the first table is
// declared: notifications on the shards of the table's rows are heard from the beginning. Shards
// that cannot be reached now are looked after by follow.
func (h *Hub) Expect(ctx context.Context) {
	snap := h.cfg.Snapshot()
	var wg sync.WaitGroup
	h.mu.Lock()
	for i := range snap.Shards {
		if shard := snap.Shards[i].Name; len(h.subs) > 0 && h.ears[shard] == nil {
			wg.Go(h.cfg.Guarded(func() { _ = h.connect(ctx, shard, h.cfg.ServiceUser) }))
		}
	}
	h.mu.Unlock()
	wg.Wait()
}

// hear passes a notification on to the sessions that listen.
func (h *Hub) hear(shard string, body []byte) {
	pid, channel, payload, ok := wire.DecodeNotification(body)
	if !ok {
		return
	}
	id := h.cfg.Sender(shard, pid)
	h.mu.Lock()
	sessions := slices.Collect(maps.Keys(h.subs[channel]))
	h.mu.Unlock()
	for _, s := range sessions {
		if !s.Put(wire.AppendNotification(nil, id, channel, payload)) {
			s.Kill(pgerr.Fatal(pgerr.OutOfMemory, "too many notifications are waiting for this client").
				WithDetail("The client has not read them."))
			continue
		}
		s.Wake()
	}
}

func (h *Hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.ears {
		_ = e.conn.Conn().SetDeadline(time.Unix(1, 0))
	}
}
