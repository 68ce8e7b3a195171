package backup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"weft/directory"
)

// Directory is what proxies follow: see directory.Store and directory.Registry.
type Directory interface {
	Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error)
	Acknowledged(ctx context.Context, version int64) error
	Live(ctx context.Context) (directory.Live, error)
}

const (
	// haltFor is for how long a proxy takes no message if it never hears of the end of a halt.
	haltFor = 3 * time.Second
	// haltWait is how long proxies have to say that they take none.
	haltWait = 2 * time.Second
	// followWait is how long proxies have to serve the newest snapshot, before anything is held. It is longer than the lease of a proxy that has died.
	followWait = 15 * time.Second
	// endWait bounds the end of a halt.
	endWait = 2 * time.Second
)

// allFollow waits until all proxies serve the newest snapshot. A proxy that has died is waited for here, where nothing is held yet.
func (m *Maker) allFollow(ctx context.Context, version int64) error {
	if m.Directory == nil {
		return errors.New("a strict point needs a directory that lists proxies")
	}
	limit, stop := context.WithTimeout(ctx, followWait)
	defer stop()
	if err := m.Directory.Acknowledged(limit, version); err != nil {
		return busyUnless(ctx, "a proxy does not follow the directory", err)
	}
	return nil
}

// busyUnless returns a BusyError, or the error of a context that has ended.
func busyUnless(ctx context.Context, why string, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &BusyError{Why: why, Cause: err}
}

// halting is the halt of one attempt. A nil halting is none.
type halting struct {
	d     Directory
	key   string
	began time.Time
	over  bool
}

// halt makes all proxies take no message. The caller ends the halt also after an error.
func (m *Maker) halt(ctx context.Context, h *holding) (*halting, error) {
	if err := m.noStrangers(ctx, h); err != nil {
		return nil, err // before clients wait
	}
	// The clock begins before any proxy can hear of the halt: see lasted.
	p := &halting{d: m.Directory, key: rand.Text(), began: time.Now()}
	limit, stop := context.WithTimeout(ctx, haltWait)
	defer stop()
	snap, err := m.Directory.Update(limit, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		return s.WithHalt(&directory.Halt{Key: p.key, For: haltFor}), nil
	})
	if errors.Is(err, directory.ErrOldProxy) {
		return p, err
	}
	if err == nil {
		err = m.Directory.Acknowledged(limit, snap.Version)
	}
	if err != nil {
		return p, busyUnless(ctx, "not every proxy holds its commits", err)
	}
	return p, m.noStrangers(limit, h)
}

// noStrangers returns an error if a proxy that the directory does not list has connections to a shard.
func (m *Maker) noStrangers(ctx context.Context, h *holding) error {
	live, err := m.Directory.Live(ctx)
	if err != nil {
		return busyUnless(ctx, "the proxies cannot be listed", err)
	}
	return h.strangers(live)
}

// lasted returns an error unless every proxy that has taken part still does: none that has heard of the halt has ended it.
func (p *halting) lasted() error {
	if p == nil || time.Since(p.began) < haltFor*9/10 {
		return nil
	}
	return &BusyError{Why: fmt.Sprintf("the points took longer than %s, for which proxies hold commits", haltFor)}
}

// end lets proxies go on. If the directory cannot be reached they do so by themselves when their time is over.
func (p *halting) end() {
	if p == nil || p.over {
		return
	}
	p.over = true
	ctx, stop := context.WithTimeout(context.Background(), endWait)
	defer stop()
	_, _ = p.d.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		return s.WithoutHalt(p.key), nil
	})
}

// registered lists the proxies that have backends in a database.
const registered = "SELECT DISTINCT b.proxy FROM weft_gate.backend b JOIN pg_catalog.pg_stat_get_activity(NULL) a " +
	"ON a.pid = b.pid AND a.backend_start IS NOT DISTINCT FROM b.started"

// strangers returns an error if a proxy that the directory does not list has connections to a shard: the proxy is cut off, and holds nothing.
func (h *holding) strangers(live directory.Live) error {
	for i, c := range h.conns {
		rows, err := c.Exec("SELECT pg_catalog.to_regclass('weft_gate.backend') IS NOT NULL")
		if err == nil && rows[0][0] == "t" {
			rows, err = c.Exec(registered)
		} else {
			rows = nil
		}
		if err != nil {
			return h.places[i].failed(err)
		}
		for _, r := range rows {
			if !slices.ContainsFunc(live.Proxies, func(p directory.Proxy) bool { return p.ID == r[0] }) {
				return &BusyError{Why: fmt.Sprintf("proxy %s has connections to shard %s, and the directory does not list it: it is cut off from etcd, or has just ended", r[0], h.places[i].shard)}
			}
		}
	}
	return nil
}
