package etcd

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

// Watch implements directory.Store. A watch stream that lost its server looks
// like one on which nothing happens: the client redials for ever and says
// nothing. So Watch also asks every ProbeInterval for anything newer than what
// it delivered, and ends when that question gets no answer, or one that the
// stream does not bring within another interval.
//
// Lookup entries come with it: a snapshot is delivered when all entries that
// are older than it have been entered into its Entries.
func (s *Store) Watch(ctx context.Context, fn func(*directory.Snapshot)) error {
	snap, rev, err := s.load(ctx)
	if err != nil {
		return err
	}
	if snap == nil {
		_, err := s.Load(ctx) // for its words
		return errors.Join(err, ctx.Err())
	}
	w := &watch{store: s, entries: directory.NewEntries(), fn: fn}
	if err := w.fill(ctx, snap, rev); err != nil {
		return err
	}
	w.deliver(snap)

	// Cancelled on return, so that the stream goes with us. Requiring a leader
	// ends the stream when the member we talk to is cut off from the others.
	wctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	// The call waits until the server has taken the watch up: for ever, if the
	// server went away after load.
	late := time.AfterFunc(s.cfg.RequestTimeout, cancel)
	events := s.client.Watch(wctx, s.key, clientv3.WithRange(s.key+keysEnd), clientv3.WithRev(rev+1))
	if !late.Stop() && ctx.Err() == nil {
		return s.wrap("watch", context.DeadlineExceeded)
	}
	probe := time.NewTicker(s.cfg.ProbeInterval)
	defer probe.Stop()
	var ahead int64 // what the last probe saw
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
			if err := w.take(ctx, resp.Events); err != nil {
				return err
			}
		case <-probe.C:
			if ahead > w.last.Version {
				return fmt.Errorf("watch directory at %s: the stream is behind: %w", s.where(), directory.ErrUnavailable)
			}
			if ahead, err = s.headRevision(ctx); err != nil {
				return err
			}
		}
	}
}

// headRevision asks for the version of the snapshot, 0 for none.
func (s *Store) headRevision(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.key, clientv3.WithKeysOnly())
	if err != nil {
		return 0, s.wrap("watch", err)
	}
	if len(resp.Kvs) == 0 {
		return 0, nil // the stream will say so
	}
	return resp.Kvs[0].ModRevision, nil
}

// watch is one call of Watch.
type watch struct {
	store   *Store
	entries *directory.Entries
	fn      func(*directory.Snapshot)
	last    *directory.Snapshot // the snapshot that was delivered last
}

func (w *watch) deliver(snap *directory.Snapshot) {
	c := *snap // the store's own may be shared with other watches
	c.Entries = w.entries
	w.last = &c
	w.fn(&c)
}

// entryPage is how many entries are read at once.
const entryPage = 5000

// fill enters all entries as of revision rev.
func (w *watch) fill(ctx context.Context, snap *directory.Snapshot, rev int64) error {
	prefix := w.store.key + entryKeys
	for from, end := prefix, clientv3.GetPrefixRangeEnd(prefix); ; {
		rctx, cancel := context.WithTimeout(ctx, w.store.cfg.RequestTimeout)
		resp, err := w.store.client.Get(rctx, from, clientv3.WithRange(end), clientv3.WithRev(rev), clientv3.WithLimit(entryPage))
		cancel()
		if err != nil {
			return w.store.wrap("load entries", err)
		}
		for _, kv := range resp.Kvs {
			w.put(kv, snap, true)
		}
		if !resp.More {
			w.entries.Loaded()
			return nil
		}
		from = string(resp.Kvs[len(resp.Kvs)-1].Key) + "\x00"
	}
}

// take delivers what a batch of events leads to. A transaction's events are
// never spread over two batches.
func (w *watch) take(ctx context.Context, events []*clientv3.Event) error {
	var head *mvccpb.KeyValue
	var parts, entries []*mvccpb.KeyValue
	for _, ev := range events {
		key := strings.TrimPrefix(string(ev.Kv.Key), w.store.key)
		gone := ev.Type == clientv3.EventTypeDelete
		switch {
		case key == "" && gone:
			return fmt.Errorf("%w (%s was deleted)", directory.ErrNoCluster, w.store.key)
		case key == "":
			head = ev.Kv
		case strings.HasPrefix(key, partKeys) && !gone:
			parts = append(parts, ev.Kv)
		case strings.HasPrefix(key, entryKeys) && gone:
			if name, value, ok := w.store.splitEntry(ev.Kv.Key); ok {
				w.entries.Delete(name, value, ev.Kv.ModRevision)
			}
		case strings.HasPrefix(key, entryKeys):
			entries = append(entries, ev.Kv)
		}
	}
	snap := w.last
	if head != nil {
		var err error
		if snap, err = w.decode(ctx, head, parts); err != nil {
			return err
		}
	}
	for _, kv := range entries {
		w.put(kv, snap, head == nil || snap.Version == head.ModRevision)
	}
	if snap.Version > w.last.Version {
		w.deliver(snap)
	}
	return nil
}

// decode reads the snapshot of the newest head. A load elsewhere may have seen
// later parts by now; then a later head is on its way too, and this one is
// passed over.
func (w *watch) decode(ctx context.Context, head *mvccpb.KeyValue, parts []*mvccpb.KeyValue) (*directory.Snapshot, error) {
	snap, err := w.store.parts.decode(head, parts, w.store.key+partKeys, 0)
	if errors.Is(err, directory.ErrPart) {
		var newer int64
		if newer, err = w.store.headRevision(ctx); err == nil && newer > head.ModRevision {
			return w.last, nil
		}
		if err == nil {
			snap, _, err = w.store.loadSince(ctx, 0)
		}
		if err == nil && snap == nil {
			err = directory.ErrNoCluster
		}
		if err == nil && snap.Version > head.ModRevision {
			return w.last, nil
		}
	}
	return snap, err
}

// put enters one entry. An entry that cannot be right is entered as wrong, so that
// a statement that needs the entry gets an error and not a wrong place. known says
// that snap is as new as the entry.
func (w *watch) put(kv *mvccpb.KeyValue, snap *directory.Snapshot, known bool) {
	name, value, ok := w.store.splitEntry(kv.Key)
	if !ok {
		w.store.cfg.Log.Warn("ignoring a lookup entry without a name", "key", string(kv.Key))
		return
	}
	bucket, err := strconv.Atoi(string(kv.Value))
	switch {
	case err != nil || bucket < 0:
		w.store.cfg.Log.Warn("lookup entry is not usable: its value is not a bucket", "lookup", name, "key", string(value))
		bucket = -1
	case known && (bucket >= len(snap.Placement) || snap.Placement[bucket] == directory.Unused):
		w.store.cfg.Log.Warn("lookup entry is not usable: its bucket does not exist", "lookup", name, "key", string(value),
			"bucket", bucket, "buckets", len(snap.Placement))
		bucket = -1
	}
	w.entries.Put(name, value, bucket, kv.ModRevision)
}
