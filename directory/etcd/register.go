package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

// Where a proxy's entry and the version it serves are, below the prefix. Two
// keys, because the first one's revision is the proxy's epoch, and the second
// changes with every version. No other keys lie between the two.
const (
	proxyKeys  = "proxies/"
	servesKeys = "serves/"
)

// newestKey is the key whose revision is the newest epoch. It outlives the proxy that has the
// epoch, so a proxy that came and went does not go unnoticed.
const newestKey = "newest-proxy"

// Register implements directory.Registry. It returns nil when ctx ends. A proxy that has lost its lease,
// because it stood still, is entered again at once: shards may keep the proxy out until then. Attempts
// that fail, and leases that do not last twice in a row, are followed by a pause.
func (s *Store) Register(ctx context.Context, p directory.Proxy, serving directory.Serving, registered func(epoch int64)) error {
	p.Level = directory.Level
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("register proxy: %w", err)
	}
	pause := s.cfg.LeaseTTL / 10
	for warned, brief := false, false; ; {
		var since time.Time
		err := s.registerOnce(ctx, p.ID, string(value), serving, func(epoch int64) {
			warned, since = false, time.Now()
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
		if !since.IsZero() {
			again := brief
			brief = time.Since(since) < pause
			if !brief || !again {
				continue
			}
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil
		}
	}
}

// registerOnce takes a lease, enters the proxy, keeps the lease alive and tells
// what is served until that fails or ctx ends.
func (s *Store) registerOnce(ctx context.Context, id, value string, serving directory.Serving, registered func(epoch int64)) error {
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
	served, changed := serving.Serving()
	// In this order: a proxy that watches learns of this proxy before it learns what this one
	// serves.
	put, err := s.client.Txn(rctx).Then(
		clientv3.OpPut(s.cfg.Prefix+proxyKeys+id, value, clientv3.WithLease(lease.ID)),
		s.serves(id, served, lease.ID),
		clientv3.OpPut(s.cfg.Prefix+newestKey, id),
	).Commit()
	if err != nil {
		return s.wrap("register", err)
	}
	registered(put.Header.Revision)
	var retry <-chan time.Time
	for {
		select {
		case <-ctx.Done():
			return nil
		case _, open := <-alive:
			if !open {
				return fmt.Errorf("register: the lease ran out: %w", directory.ErrUnavailable)
			}
			continue
		case <-changed:
		case <-retry:
		}
		served, changed = serving.Serving()
		retry = nil
		if err := s.tell(ctx, s.serves(id, served, lease.ID)); err != nil {
			if errors.Is(err, rpctypes.ErrLeaseNotFound) {
				return s.wrap("register", err)
			}
			// The lease may outlive this: the entry stands, and with it the
			// version we served before.
			retry = time.After(s.cfg.LeaseTTL / 50)
		}
	}
}

// serves is the operation that says how far a proxy has followed the directory.
func (s *Store) serves(id string, served directory.Served, lease clientv3.LeaseID) clientv3.Op {
	return clientv3.OpPut(s.cfg.Prefix+servesKeys+id, writeServed(served), clientv3.WithLease(lease))
}

// writeServed is the version, followed by the cleared version if that is another.
func writeServed(s directory.Served) string {
	if s.Cleared == s.Version {
		return strconv.FormatInt(s.Version, 10)
	}
	return fmt.Sprintf("%d %d", s.Version, s.Cleared)
}

// readServed reads what writeServed wrote. Anything else counts as nothing: its proxy is waited
// for.
func readServed(text string) directory.Served {
	version, cleared, both := strings.Cut(text, " ")
	if !both {
		cleared = version
	}
	v, err1 := strconv.ParseInt(version, 10, 64)
	c, err2 := strconv.ParseInt(cleared, 10, 64)
	if err1 != nil || err2 != nil {
		return directory.Served{}
	}
	return directory.Served{Version: v, Cleared: c}
}

func (s *Store) tell(ctx context.Context, op clientv3.Op) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	_, err := s.client.Do(ctx, op)
	return err
}

// Proxies implements directory.Registry.
func (s *Store) Proxies(ctx context.Context) ([]directory.Proxy, error) {
	live, err := s.Live(ctx)
	return live.Proxies, err
}

// Live implements directory.Registry.
func (s *Store) Live(ctx context.Context) (directory.Live, error) {
	var live directory.Live
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(s.cfg.Prefix+proxyKeys, clientv3.WithPrefix()),
		clientv3.OpGet(s.cfg.Prefix+servesKeys, clientv3.WithPrefix()),
		clientv3.OpGet(s.cfg.Prefix+newestKey),
	).Commit()
	if err != nil {
		return live, s.wrap("list proxies", err)
	}
	live.Revision, live.Proxies = resp.Header.Revision, []directory.Proxy{}
	for _, kv := range resp.Responses[2].GetResponseRange().Kvs {
		live.Newest = kv.ModRevision
	}
	serves := map[string]directory.Served{}
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		serves[strings.TrimPrefix(string(kv.Key), s.cfg.Prefix+servesKeys)] = readServed(string(kv.Value))
	}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		var p directory.Proxy
		if err := json.Unmarshal(kv.Value, &p); err != nil {
			return live, fmt.Errorf("list proxies: %s: %w", kv.Key, err)
		}
		p.ID = strings.TrimPrefix(string(kv.Key), s.cfg.Prefix+proxyKeys)
		p.Epoch = kv.ModRevision
		p.Serves = serves[p.ID]
		live.Proxies = append(live.Proxies, p)
	}
	slices.SortFunc(live.Proxies, func(a, b directory.Proxy) int { return cmp.Compare(a.Epoch, b.Epoch) })
	return live, nil
}
