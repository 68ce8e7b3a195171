package pool

import (
	"context"
	"errors"
	"time"

	"weft/pgerr"
)

// While a shard has no primary, sessions that want a connection to it wait: something outside of weft is about to promote a standby, or to restart
// the server. A session waits at the gate of the shard, see pauses, and holds nothing for it.

// Seek says whether the shard has no primary: sessions wait while it is sought.
func (sh *Shard) Seek(sought bool) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.pauses.seek && !sought {
		sh.ramp = time.Now()
	}
	sh.pauses.seek, sh.pauses.rift = sought, false
	sh.pauses.set()
	if !sought {
		sh.ahead.over(time.Now())
	}
}

// Split says that two servers of the shard are primaries of the same timeline. Sessions are refused until Seek is called.
func (sh *Shard) Split() {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	sh.pauses.seek, sh.pauses.rift = true, true
	sh.pauses.set()
}

// Sought reports whether sessions wait for a primary of the shard.
func (sh *Shard) Sought() bool {
	g := sh.pauses.gate.Load()
	return g != nil && g.sought
}

// CloseIdle closes the connections that no session holds, and the others as soon as they are given back.
func (sh *Shard) CloseIdle() { sh.dismiss(everyKey, false) }

// rampFor is for how long after a search sessions dial one after the other at first.
const rampFor = 500 * time.Millisecond

// mostDials returns how many connections may be dialled at a time. When a shard has a primary again, all sessions want a connection at once, and each
// backend has to read the catalog. The first of them, and so those that use its connection next, have it sooner if it is made before the others: one
// more may be dialled than there are. mu is held.
func (sh *Shard) mostDials() int {
	most := sh.pool.conf().MaxDials
	switch {
	case sh.ramp.IsZero():
		return most
	case time.Since(sh.ramp) > rampFor:
		sh.ramp = time.Time{}
		return most
	}
	return min(most, 1+sh.total-sh.dials)
}

// refuses reports whether a session does not wait for a primary at all.
func (w *Want) refuses(g *gate) bool { return g.rift || g.sought && w.Login && !w.Waits }

// search is a session's wait for a primary.
type search struct {
	began  time.Time
	doubts int // how often a login has failed
}

// seek notes that the session waits at a gate.
func (w *Want) seek(g *gate) {
	if g.sought {
		w.searches()
	}
}

// searches returns the session's wait for a primary, which begins with the first call.
func (w *Want) searches() *search {
	if w.search == nil {
		w.search = &search{began: time.Now()}
	}
	return w.search
}

// limit is for how long a session waits for a primary.
func (f Failover) limit(want *Want) time.Duration {
	if want.Underway && !want.Patient {
		return min(f.InTransaction, f.Wait)
	}
	return f.Wait
}

// patience is for how much longer a session waits for a primary of the shard.
func (sh *Shard) patience(want Want, now time.Time) time.Duration {
	return max(0, sh.pool.conf().Failover.limit(&want)-now.Sub(want.search.began))
}

// awaitPrimary waits while the shard has no primary.
func (sh *Shard) awaitPrimary(ctx context.Context, want *Want) error {
	for {
		g := sh.pauses.gate.Load()
		if g == nil || !g.sought {
			return nil
		}
		if want.seek(g); g.rift {
			return sh.split()
		}
		if err := g.await(ctx, sh, *want, 0); err != nil {
			return err
		}
	}
}

// maxDoubts is how often a session tries to log in to a shard that has a primary as far as is known.
const maxDoubts = 3

// doubt has the servers of the shard looked at after a login has failed, and reports whether the session should try again: it
// then waits until the shard has a primary.
func (sh *Shard) doubt(ctx context.Context, want *Want, err error) bool {
	conf := sh.pool.conf()
	if sh.standby != nil || conf.Seeker == nil || conf.Failover.Wait <= 0 || !suspicious(err) || ctx.Err() != nil {
		return false
	}
	s := want.searches()
	if s.doubts++; s.doubts > maxDoubts && !sh.Sought() || sh.patience(*want, time.Now()) == 0 {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, conf.ConnectTimeout)
	defer stop()
	conf.Seeker.Suspect(ctx, sh.Name)
	return !want.Login || want.Waits
}

// suspicious reports whether the error of a login says that its server is no primary that works.
func suspicious(err error) bool {
	switch e := pgerr.From(err); e.Code {
	case pgerr.ConnectionFailure, pgerr.AdminShutdown, "57P02":
		return true
	case pgerr.CannotConnectNow:
		return e.Routine != "" || errors.Is(err, errNoPrimary) // the server says so, or what it has said of itself does
	}
	return false
}

// errNoPrimary is the cause of errors about servers that are not the primary.
var errNoPrimary = errors.New("the server is not the primary")

// errUnled is the cause of the error of a session that has waited for a primary in vain.
var errUnled = errors.New("the shard has no primary")

// unled is the error of a session that has waited for a primary in vain, or does not wait for one.
func (sh *Shard) unled(want Want) error {
	if g := sh.pauses.gate.Load(); g != nil && g.rift {
		return sh.split()
	}
	e := pgerr.New(pgerr.CannotConnectNow, "shard %q has no primary", sh.Name).WithCause(errUnled)
	if s := sh.pool.conf().Seeker; s != nil {
		e = e.WithDetail("Waited for %s: %s.", time.Since(want.search.began).Round(10*time.Millisecond), s.Describe(sh.Name))
	}
	return e.WithHint("weft goes on by itself when a server of the shard is promoted or comes back. failover.wait is how long clients wait for that.")
}

// split is the error of a session that wants a shard with two primaries.
func (sh *Shard) split() error {
	e := pgerr.New(pgerr.CannotConnectNow, "two servers of shard %q are primaries of the same timeline", sh.Name).WithCause(errUnled)
	if s := sh.pool.conf().Seeker; s != nil {
		e = e.WithDetail("%s. Nothing is sent to either: each has rows that the other has not.", s.Describe(sh.Name))
	}
	return e.WithHint("Stop the wrong one and make it a standby of the other. If the one that remains is not used, weft shard accept %s with its address says that it is right.", sh.Name)
}
