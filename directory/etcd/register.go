package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

// Register implements directory.Registry. It returns nil when ctx ends.
func (s *Store) Register(ctx context.Context, p directory.Proxy, registered func(epoch int64)) error {
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("register proxy: %w", err)
	}
	for warned := false; ; {
		err := s.registerOnce(ctx, s.cfg.Prefix+"proxies/"+p.ID, string(value), func(epoch int64) {
			warned = false
			s.cfg.Log.Info("registered in the directory", "proxy", p.ID, "epoch", epoch)
			registered(epoch)
		})
		if ctx.Err() != nil {
			return nil
		}
		if !warned {
			s.cfg.Log.Warn("not registered in the directory, trying again", "proxy", p.ID, "err", err)
			warned = true
		}
		select {
		case <-time.After(s.cfg.LeaseTTL / 10):
		case <-ctx.Done():
			return nil
		}
	}
}

// registerOnce takes a lease, enters the proxy and keeps the lease alive until
// that fails or ctx ends.
func (s *Store) registerOnce(ctx context.Context, key, value string, registered func(epoch int64)) error {
	rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	lease, err := s.client.Grant(rctx, max(1, int64(s.cfg.LeaseTTL/time.Second)))
	if err != nil {
		return s.wrap("register", err)
	}
	// Off the list at once, not a TTL later. ctx is over by then, and an etcd
	// that is away must not hold up the caller's own end.
	defer func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = s.client.Revoke(rctx, lease.ID) // else it runs out by itself
	}()
	// Keeping alive ends with this call, not with ctx: a lease that we stopped
	// looking at must not live on.
	kctx, stop := context.WithCancel(ctx)
	defer stop()
	alive, err := s.client.KeepAlive(kctx, lease.ID)
	if err != nil {
		return s.wrap("register", err)
	}
	put, err := s.client.Put(rctx, key, value, clientv3.WithLease(lease.ID))
	if err != nil {
		return s.wrap("register", err)
	}
	registered(put.Header.Revision)
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-alive:
			if !open {
				return fmt.Errorf("register: the lease ran out: %w", directory.ErrUnavailable)
			}
		}
	}
}

// Proxies implements directory.Registry.
func (s *Store) Proxies(ctx context.Context) ([]directory.Proxy, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.cfg.Prefix+"proxies/", clientv3.WithPrefix())
	if err != nil {
		return nil, s.wrap("list proxies", err)
	}
	out := make([]directory.Proxy, 0, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		var p directory.Proxy
		if err := json.Unmarshal(kv.Value, &p); err != nil {
			return nil, fmt.Errorf("list proxies: %s: %w", kv.Key, err)
		}
		p.Epoch = kv.ModRevision
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b directory.Proxy) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return out, nil
}
