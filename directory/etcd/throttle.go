package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
	"weft/heat/throttle"
)

var _ directory.Throttles = (*Store)(nil)

// Where throttles are, below the prefix, by their number; and the key that holds the last number. A
// throttle that ends has a lease of its own, which ends with it.
const (
	throttleKeys   = "throttles/"
	throttleNumber = "throttle-number"
)

// PutThrottle implements directory.Throttles. All writers change throttleNumber, so they come one after
// the other.
func (s *Store) PutThrottle(ctx context.Context, fn func([]throttle.Rule) (throttle.Rule, error)) (throttle.Rule, error) {
	for {
		stored, last, revision, err := s.throttles(ctx)
		if err != nil {
			return throttle.Rule{}, err
		}
		r, err := fn(stored)
		if err != nil {
			return throttle.Rule{}, err
		}
		if r.ID == 0 {
			last++
			r.ID = last
		}
		put, err := s.putThrottle(ctx, r, last, revision)
		if err != nil || put.Revision != 0 {
			return put, err
		}
		if err := ctx.Err(); err != nil {
			return throttle.Rule{}, fmt.Errorf("put throttle: %w", err)
		}
	}
}

// putThrottle stores a throttle if throttleNumber is still at a revision. The result has no revision if
// it is not.
func (s *Store) putThrottle(ctx context.Context, r throttle.Rule, last, revision int64) (throttle.Rule, error) {
	value, err := json.Marshal(r)
	if err != nil {
		return r, fmt.Errorf("put throttle: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	lease := &clientv3.LeaseGrantResponse{ID: clientv3.NoLease}
	if r.Origin != throttle.Declared {
		if lease, err = s.client.Grant(ctx, max(1, int64(math.Ceil(r.Lasts.Seconds())))); err != nil {
			return r, s.wrap("put throttle", err)
		}
	}
	put, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(s.cfg.Prefix+throttleNumber), "=", revision)).Then(
		clientv3.OpPut(s.cfg.Prefix+throttleNumber, strconv.FormatInt(last, 10)),
		clientv3.OpPut(s.throttleKey(r.ID), string(value), clientv3.WithLease(lease.ID)),
	).Commit()
	if lease.ID != clientv3.NoLease && (err != nil || !put.Succeeded) {
		// Else the lease runs out by itself.
		_, _ = s.client.Revoke(context.WithoutCancel(ctx), lease.ID)
	}
	if err != nil {
		return r, s.wrap("put throttle", err)
	}
	r.Revision, r.Left = 0, r.Lasts
	if put.Succeeded {
		r.Revision = put.Header.Revision
	}
	return r, nil
}

func (s *Store) throttleKey(id int64) string {
	return s.cfg.Prefix + throttleKeys + strconv.FormatInt(id, 10)
}

// DropThrottle implements directory.Throttles.
func (s *Store) DropThrottle(ctx context.Context, id int64) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Delete(ctx, s.throttleKey(id), clientv3.WithPrevKV())
	if err != nil {
		return false, s.wrap("drop throttle", err)
	}
	for _, kv := range resp.PrevKvs {
		if kv.Lease == 0 {
			continue
		}
		_, _ = s.client.Revoke(ctx, clientv3.LeaseID(kv.Lease)) // else it runs out by itself, and ends nothing
	}
	return resp.Deleted > 0, nil
}

// Throttles implements directory.Throttles.
func (s *Store) Throttles(ctx context.Context) ([]throttle.Rule, error) {
	list, _, _, err := s.throttles(ctx)
	return list, err
}

// throttles reads all throttles, the last number, and the revision of that.
func (s *Store) throttles(ctx context.Context) (list []throttle.Rule, last, revision int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).Then(
		clientv3.OpGet(s.cfg.Prefix+throttleKeys, clientv3.WithPrefix()),
		clientv3.OpGet(s.cfg.Prefix+throttleNumber),
	).Commit()
	if err != nil {
		return nil, 0, 0, s.wrap("list throttles", err)
	}
	list = []throttle.Rule{}
	for _, kv := range resp.Responses[0].GetResponseRange().Kvs {
		if r, ok := s.readThrottle(kv); ok {
			list = append(list, r)
		}
	}
	slices.SortFunc(list, func(a, b throttle.Rule) int { return cmp.Compare(a.ID, b.ID) })
	for _, kv := range resp.Responses[1].GetResponseRange().Kvs {
		if last, err = strconv.ParseInt(string(kv.Value), 10, 64); err != nil {
			return nil, 0, 0, fmt.Errorf("list throttles: %s: %w", kv.Key, err)
		}
		revision = kv.ModRevision
	}
	return list, last, revision, nil
}

// readThrottle reads one throttle. What cannot be read is passed over: a proxy of another version has
// written it.
func (s *Store) readThrottle(kv *mvccpb.KeyValue) (r throttle.Rule, ok bool) {
	id, err := strconv.ParseInt(strings.TrimPrefix(string(kv.Key), s.cfg.Prefix+throttleKeys), 10, 64)
	if err == nil {
		err = json.Unmarshal(kv.Value, &r)
	}
	if err == nil {
		err = r.Validate()
	}
	if err != nil {
		s.cfg.Log.Warn("ignoring a throttle that cannot be read", "key", string(kv.Key), "err", err)
		return r, false
	}
	r.ID, r.Revision, r.Left = id, kv.ModRevision, r.Lasts
	return r, true
}

// WatchThrottles implements directory.Throttles. As in Watch, a question every ProbeInterval finds what
// the stream did not bring.
func (s *Store) WatchThrottles(ctx context.Context, fn func([]throttle.Rule)) error {
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	late := time.AfterFunc(s.cfg.RequestTimeout, cancel)
	events := s.client.Watch(wctx, s.cfg.Prefix+throttleKeys, clientv3.WithPrefix())
	if !late.Stop() && ctx.Err() == nil {
		return s.wrap("watch throttles", context.DeadlineExceeded)
	}
	w := throttleWatch{store: s, fn: fn}
	if err := w.tell(ctx); err != nil {
		return err
	}
	probe := time.NewTicker(s.cfg.ProbeInterval)
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case resp, open := <-events:
			if err := resp.Err(); err != nil {
				return s.wrap("watch throttles", err)
			}
			if !open {
				return errors.Join(ctx.Err(), fmt.Errorf("watch throttles at %s: the stream ended", s.where()))
			}
		case <-probe.C:
		}
		if err := w.tell(ctx); err != nil {
			return err
		}
	}
}

// throttleWatch is one call of WatchThrottles.
type throttleWatch struct {
	store *Store
	fn    func([]throttle.Rule)
	ends  map[int64]throttleEnd // of what was told, by ID; nil before the first time
}

type throttleEnd struct {
	revision int64
	at       time.Time
}

// tell reads all throttles and tells them, with the time that is left to each. A throttle that was there
// before the watch began has the time that etcd says. It counts in whole seconds, so such a throttle ends
// rather too early than too late. Others have just begun.
func (w *throttleWatch) tell(ctx context.Context) error {
	list, err := w.store.Throttles(ctx)
	if err != nil {
		return err
	}
	now, ends := time.Now(), map[int64]throttleEnd{}
	for i := range list {
		r := &list[i]
		switch end := w.ends[r.ID]; {
		case end.revision == r.Revision:
			r.Left = end.at.Sub(now)
		case w.ends == nil && r.Origin != throttle.Declared:
			if r.Left, err = w.store.leftOf(ctx, r); err != nil {
				return err
			}
		}
		ends[r.ID] = throttleEnd{r.Revision, now.Add(r.Left)}
	}
	w.ends = ends
	w.fn(list)
	return nil
}

// leftOf asks how long a throttle lasts from now on.
func (s *Store) leftOf(ctx context.Context, r *throttle.Rule) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	kv, err := s.client.Get(ctx, s.throttleKey(r.ID))
	if err != nil || len(kv.Kvs) == 0 {
		return 0, s.wrapAny("watch throttles", err)
	}
	lease, err := s.client.TimeToLive(ctx, clientv3.LeaseID(kv.Kvs[0].Lease))
	if err != nil {
		return 0, s.wrapAny("watch throttles", err)
	}
	if lease.TTL < 0 {
		return 0, nil // it has just ended
	}
	return r.Lasts - time.Duration(lease.GrantedTTL-lease.TTL)*time.Second, nil
}

// wrapAny is wrap for an error that may be nil.
func (s *Store) wrapAny(step string, err error) error {
	if err == nil {
		return nil
	}
	return s.wrap(step, err)
}
