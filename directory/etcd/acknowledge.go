package etcd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

// Acknowledged implements directory.Registry.
func (s *Store) Acknowledged(ctx context.Context, version int64) error {
	return s.await(ctx, goal{version: version})
}

// Cleared implements directory.Registry.
func (s *Store) Cleared(ctx context.Context, version int64) error {
	return s.await(ctx, goal{version: version, cleared: true})
}

// await returns when every live proxy has reached the goal.
func (s *Store) await(ctx context.Context, g goal) error {
	for {
		if done, err := s.follow(ctx, g); err != nil || done {
			return err
		}
	}
}

// goal is how far proxies must follow: serve a version, or have cleared it.
type goal struct {
	version int64
	cleared bool
}

// reached reports whether a proxy is that far.
func (g goal) reached(s directory.Served) bool {
	return s.Version >= g.version && (!g.cleared || s.Cleared >= g.version)
}

// behind is the proxies that are waited for.
type behind struct {
	goal
	who map[string]string // by id: what to say of the proxy
}

func (s *Store) behind(ctx context.Context, g goal) (*behind, int64, error) {
	live, err := s.Live(ctx)
	if err != nil {
		return nil, 0, err
	}
	b := &behind{g, map[string]string{}}
	for _, p := range live.Proxies {
		switch {
		case g.reached(p.Serves):
		case p.Serves.Version < g.version:
			b.who[p.ID] = fmt.Sprintf("%s at %s serves version %d", p.ID, p.Address, p.Serves.Version)
		default:
			b.who[p.ID] = fmt.Sprintf("%s at %s has transactions that are not over", p.ID, p.Address)
		}
	}
	return b, live.Revision, nil
}

// follow watches until no proxy is behind. It returns false when it has to be
// called again: the stream ended, or a while has gone by, in which the stream may
// have been cut without a word.
//
// follow watches before it asks which proxies are behind. The other way round, a watch from the
// revision of that answer on would often begin in the past, as proxies are quick, and
// etcd gives watches of the past their events every 100 ms only.
func (s *Store) follow(ctx context.Context, g goal) (bool, error) {
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	late := time.AfterFunc(s.cfg.RequestTimeout, cancel) // see Watch
	first, last := s.cfg.Prefix+proxyKeys, clientv3.GetPrefixRangeEnd(s.cfg.Prefix+servesKeys)
	events := s.client.Watch(wctx, first, clientv3.WithRange(last))
	if !late.Stop() && ctx.Err() == nil {
		return false, s.wrap("list proxies", context.DeadlineExceeded)
	}
	b, rev, err := s.behind(ctx, g)
	if err != nil || len(b.who) == 0 {
		return err == nil, err
	}
	again := time.NewTimer(s.cfg.ProbeInterval)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, fmt.Errorf("not every proxy %s version %d yet: %s: %w", map[bool]string{false: "serves", true: "has cleared"}[b.cleared], b.version,
				strings.Join(slices.Sorted(maps.Values(b.who)), ", "), context.Cause(ctx))
		case resp, open := <-events:
			if !open || resp.Err() != nil {
				select { // not at once: etcd may be on its way out
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
				}
				return false, nil
			}
			for _, ev := range resp.Events {
				if ev.Kv.ModRevision > rev { // else the list has it already
					s.observe(b, ev)
				}
			}
			if len(b.who) == 0 {
				return true, nil
			}
		case <-again.C:
			return false, nil
		}
	}
}

// observe takes one event into account.
func (s *Store) observe(b *behind, ev *clientv3.Event) {
	key := strings.TrimPrefix(string(ev.Kv.Key), s.cfg.Prefix)
	gone := ev.Type == clientv3.EventTypeDelete
	if id, ok := strings.CutPrefix(key, proxyKeys); ok {
		if gone {
			delete(b.who, id)
		} else { // new: it may have read the directory before the version was written
			b.who[id] = id + " has just come"
		}
		return
	}
	if id, ok := strings.CutPrefix(key, servesKeys); ok && !gone && b.reached(readServed(string(ev.Kv.Value))) {
		delete(b.who, id)
	}
}
