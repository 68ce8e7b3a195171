package patroni

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"weft/dev/supervisor"
)

// Do carries an order out and says what has happened.
func (s *Shard) Do(ctx context.Context, what string) (string, error) {
	if what == supervisor.Thaw {
		for _, m := range s.members {
			if m.thaw() {
				return m.addr() + " goes on", nil
			}
		}
		return "", fmt.Errorf("no server of %s is frozen", s.cfg.Name)
	}
	v, err := s.look(ctx)
	if err != nil {
		return "", err
	}
	var primary *member
	for _, m := range s.members {
		if m.name() == v.leader() {
			primary = m
		}
	}
	if primary == nil || primary.isFrozen() {
		return "", fmt.Errorf("%s has no primary that runs now", s.cfg.Name)
	}
	began, pid := time.Now(), primary.cfg.PID()
	switch what {
	case supervisor.Freeze:
		primary.freeze()
		return fmt.Sprintf("froze %s, process %d, and its Patroni: another server takes its place in some 20 s, weft dev thaw %s lets it go on", primary.addr(), pid, s.cfg.Name), nil
	case supervisor.Kill:
		if err := primary.cfg.End(ctx); err != nil {
			return "", err
		}
		return s.changed(ctx, primary, fmt.Sprintf("killed %s, process %d", primary.addr(), pid), began)
	case supervisor.Switch:
		if _, err := call(ctx, http.MethodPost, primary.api, "/switchover", map[string]string{"leader": primary.name()}); err != nil {
			return "", err
		}
		return s.changed(ctx, primary, "stopped "+primary.addr(), began)
	default:
		return "", fmt.Errorf("there is no order %q", what)
	}
}

// changed waits until the shard has another primary than before, or the same one with
// another process.
func (s *Shard) changed(ctx context.Context, before *member, done string, began time.Time) (string, error) {
	var now supervisor.Status
	gone := before.cfg.PID() == 0
	err := s.await(ctx, orderLimit, func(v view) bool {
		pid := before.cfg.PID()
		gone = gone || pid == 0
		for _, st := range s.Servers() {
			if st.Role == supervisor.Primary && st.PID != 0 && (st.Dir != before.cfg.Dir || gone) {
				now = st
				return true
			}
		}
		return false
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s; the primary is %s, process %d, after %.1f s", done, now.Address, now.PID, time.Since(began).Seconds()), nil
}
