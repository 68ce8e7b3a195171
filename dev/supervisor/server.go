package supervisor

import (
	"context"
	"fmt"
	"time"

	"weft/pgserver"
)

// How soon a dead server is started again: at once the first time, later and
// later if it keeps dying, and afresh after it lived for a while.
const (
	firstPause = 100 * time.Millisecond
	longPause  = 10 * time.Second
	longLife   = 30 * time.Second
)

// server is one PostgreSQL of the shard, in whichever role.
type server struct {
	cfg pgserver.Config
	srv *pgserver.Server // the last one that ran in the directory; nil before

	began time.Time     // when srv was started
	pause time.Duration // before the next start
	due   time.Time     // of the next start

	repairing bool // a repair runs, and srv is not to be touched
	frozen    bool // stopped where it stands, by command
	strays    bool // it runs, and does not find its way behind the primary
	clean     bool // a primary that has stopped, and all its log is on the next one

	followed time.Time // when it was last seen behind the primary, or the primary was not seen
}

func (m *server) name() string { return m.cfg.Name }

// runs reports whether the server's process lives.
func (m *server) runs() bool {
	if m.srv == nil {
		return false
	}
	select {
	case <-m.srv.Done():
		return false
	default:
		return true
	}
}

// started notes a server that has come up.
func (m *server) started(srv *pgserver.Server, now time.Time) {
	m.srv, m.began, m.followed = srv, now, now
	m.frozen, m.strays, m.clean = false, false, false
}

// hasty reports whether a server has ended again soon after it was started again.
func (m *server) hasty(now time.Time) bool {
	return m.pause != 0 && now.Sub(m.began) < longLife
}

// delay decides when a server that has ended, or does not start, is tried next.
func (m *server) delay(now time.Time) time.Duration {
	if m.pause == 0 || m.srv != nil && now.Sub(m.began) > longLife {
		m.pause = firstPause
	} else {
		m.pause = min(2*m.pause, longPause)
	}
	m.due = now.Add(m.pause)
	return m.pause
}

func (m *server) stop(ctx context.Context) error {
	if err := m.srv.Stop(ctx); err != nil {
		return fmt.Errorf("stop %s: %w", m.name(), err)
	}
	return nil
}
