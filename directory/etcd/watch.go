package etcd

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

// Watch implements directory.Store. A watch stream that lost its server looks
// like one on which nothing happens: the client redials for ever and says
// nothing. So Watch also asks every ProbeInterval for anything newer than what
// it delivered, and ends when that question gets no answer.
func (s *Store) Watch(ctx context.Context, fn func(*directory.Snapshot)) error {
	snap, err := s.Load(ctx)
	if err != nil {
		return err
	}
	fn(snap)
	last := snap.Version

	// Cancelled on return, so that the stream goes with us. Requiring a leader
	// ends the stream when the member we talk to is cut off from the others.
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	// The call waits until the server has taken the watch up: for ever, if the
	// server went away after Load.
	late := time.AfterFunc(s.cfg.RequestTimeout, cancel)
	events := s.client.Watch(wctx, s.key, clientv3.WithRev(last+1))
	if !late.Stop() && ctx.Err() == nil {
		return s.wrap("watch", context.DeadlineExceeded)
	}

	deliver := func(kv *mvccpb.KeyValue) error {
		if kv.ModRevision <= last { // the probe saw it before the stream did
			return nil
		}
		snap, err := directory.Decode(kv.Value, kv.ModRevision)
		if err != nil {
			return err
		}
		last = kv.ModRevision
		fn(snap)
		return nil
	}
	probe := time.NewTicker(s.cfg.ProbeInterval)
	defer probe.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case resp, open := <-events:
			if err := resp.Err(); err != nil {
				return s.wrap("watch", err)
			}
			if !open {
				return errors.Join(ctx.Err(), fmt.Errorf("watch directory at %s: the stream ended", s.where()))
			}
			for _, ev := range resp.Events {
				if ev.Type == clientv3.EventTypeDelete {
					return fmt.Errorf("%w (%s was deleted)", directory.ErrNoCluster, s.key)
				}
				if err := deliver(ev.Kv); err != nil {
					return err
				}
			}
		case <-probe.C:
			kv, err := s.newer(ctx, last)
			if err != nil {
				return err
			}
			if kv != nil {
				if err := deliver(kv); err != nil {
					return err
				}
			}
		}
	}
}

// newer returns the snapshot's entry if it changed after version, else nil.
func (s *Store) newer(ctx context.Context, version int64) (*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.key, clientv3.WithMinModRev(version+1))
	if err != nil {
		return nil, s.wrap("watch", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return resp.Kvs[0], nil
}
