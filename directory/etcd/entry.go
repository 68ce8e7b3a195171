package etcd

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

// entryBatch is how many entries go in one transaction; etcd takes 128
// operations by default.
const entryBatch = 100

func (s *Store) entryKey(name string, key []byte) string {
	return s.key + entryKeys + name + "/" + string(key)
}

// splitEntry is the reverse of entryKey. The key shares the argument's memory.
func (s *Store) splitEntry(b []byte) (name string, key []byte, ok bool) {
	before, key, ok := bytes.Cut(b[len(s.key)+len(entryKeys):], []byte("/"))
	return string(before), key, ok && len(before) > 0
}

// PutEntries implements directory.Lookups.
func (s *Store) PutEntries(ctx context.Context, name string, want []directory.Entry) ([]directory.Entry, error) {
	out := make([]directory.Entry, 0, len(want))
	for batch := range slices.Chunk(want, entryBatch) {
		got, err := s.putBatch(ctx, name, batch)
		if err != nil {
			return nil, err
		}
		out = append(out, got...)
	}
	return out, nil
}

// putBatch is one transaction of one small transaction per entry: put it if it
// is not there, else read it.
func (s *Store) putBatch(ctx context.Context, name string, want []directory.Entry) ([]directory.Entry, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	ops := make([]clientv3.Op, 0, len(want))
	made := make([]int, 0, len(want))        // by operation: whose it is
	first := make(map[string]int, len(want)) // by key: the operation, since etcd takes no key twice
	for i, e := range want {
		if err := directory.CheckEntry(name, e.Key); err != nil {
			return nil, err
		}
		if _, again := first[string(e.Key)]; again {
			continue
		}
		first[string(e.Key)] = len(ops)
		made = append(made, i)
		key := s.entryKey(name, e.Key)
		ops = append(ops, clientv3.OpTxn(
			[]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(key), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(key, strconv.Itoa(e.Bucket))},
			[]clientv3.Op{clientv3.OpGet(key)},
		))
	}
	resp, err := s.client.Txn(ctx).Then(ops...).Commit()
	if err != nil {
		return nil, s.wrap("put entries", err)
	}
	out := make([]directory.Entry, len(want))
	for i, e := range want {
		n := first[string(e.Key)]
		out[i] = directory.Entry{Key: e.Key, Bucket: want[made[n]].Bucket, Revision: resp.Header.Revision}
		if one := resp.Responses[n].GetResponseTxn(); !one.Succeeded {
			if out[i], err = s.standing(name, e.Key, one); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}

// standing reads the entry that was there before.
func (s *Store) standing(name string, key []byte, resp *etcdserverpb.TxnResponse) (directory.Entry, error) {
	kvs := resp.Responses[0].GetResponseRange().Kvs
	if len(kvs) == 0 {
		return directory.Entry{}, fmt.Errorf("put entries: entry %q of lookup %s was there and is not", key, name)
	}
	bucket, err := strconv.Atoi(string(kvs[0].Value))
	if err != nil {
		return directory.Entry{}, fmt.Errorf("put entries: entry %q of lookup %s is not usable: its value is not a bucket", key, name)
	}
	return directory.Entry{Key: key, Bucket: bucket, Revision: kvs[0].ModRevision}, nil
}

// PinEntry implements directory.Lookups.
func (s *Store) PinEntry(ctx context.Context, name string, key []byte, shard string) (*directory.Snapshot, int, error) {
	if err := directory.CheckEntry(name, key); err != nil {
		return nil, 0, err
	}
	at, bucket, number := s.entryKey(name, key), 0, 0
	snap, err := s.update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		// Looked at before each attempt: the transaction's failure does not
		// tell which condition it was.
		rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
		defer cancel()
		resp, err := s.client.Get(rctx, at, clientv3.WithCountOnly())
		if err != nil {
			return nil, s.wrap("pin", err)
		}
		if resp.Count > 0 {
			return nil, directory.ErrPlaced
		}
		next := old.Clone()
		bucket, err = next.OwnBucket(name, shard)
		number = directory.NumberingOf(next).Own(bucket)
		return next, err
	}, func(*directory.Snapshot) ([]clientv3.Cmp, []clientv3.Op) {
		return []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(at), "=", 0)},
			[]clientv3.Op{clientv3.OpPut(at, strconv.Itoa(number))}
	})
	return snap, bucket, err
}

// MoveEntry implements directory.Lookups.
func (s *Store) MoveEntry(ctx context.Context, name string, key []byte, change func(*directory.Snapshot, int) (*directory.Snapshot, int, error)) (*directory.Snapshot, error) {
	if err := directory.CheckEntry(name, key); err != nil {
		return nil, err
	}
	at, number, revision := s.entryKey(name, key), 0, int64(0)
	return s.update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
		defer cancel()
		resp, err := s.client.Get(rctx, at)
		if err != nil {
			return nil, s.wrap("move an entry", err)
		}
		if len(resp.Kvs) == 0 {
			return nil, fmt.Errorf("move an entry: lookup %s has none for %q", name, key)
		}
		revision = resp.Kvs[0].ModRevision
		n, was := directory.NumberingOf(old), -1
		number, err = strconv.Atoi(string(resp.Kvs[0].Value))
		if err == nil && n.IsOwn(number) {
			was = n.Bucket(number, 0)
		}
		if err != nil || number < 0 || was >= len(old.Placement) || was >= 0 && old.Placement[was] == directory.Unused {
			return nil, fmt.Errorf("move an entry: that of lookup %s for %q is not usable: its value is not a bucket", name, key)
		}
		next, b, err := change(old, was)
		number = n.Own(b)
		return next, err
	}, func(*directory.Snapshot) ([]clientv3.Cmp, []clientv3.Op) {
		return []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(at), "=", revision)},
			[]clientv3.Op{clientv3.OpPut(at, strconv.Itoa(number))}
	})
}

// DropEntries implements directory.Lookups.
func (s *Store) DropEntries(ctx context.Context, name string) error {
	snap, err := s.Load(ctx)
	if err != nil {
		return err
	}
	if err := directory.CheckEntry(name, nil); err != nil {
		return err
	}
	prefix := s.entryKey(name, nil)
	rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	// Only while the snapshot is what we looked at: the lookup could be
	// declared again meanwhile.
	if snap.HasLookup(name) {
		return fmt.Errorf("drop entries: lookup %s is declared", name)
	}
	resp, err := s.client.Txn(rctx).
		If(clientv3.Compare(clientv3.ModRevision(s.key), "=", snap.Version)).
		Then(clientv3.OpDelete(prefix, clientv3.WithPrefix(), clientv3.WithPrevKV())).
		Commit()
	if err != nil {
		return s.wrap("drop entries", err)
	}
	if !resp.Succeeded {
		return s.DropEntries(ctx, name)
	}
	var own []int // entries whose buckets no value needs now
	for _, kv := range resp.Responses[0].GetResponseDeleteRange().PrevKvs {
		if number, err := strconv.Atoi(string(kv.Value)); err == nil && directory.NumberingOf(snap).IsOwn(number) {
			own = append(own, number)
		}
	}
	if len(own) == 0 {
		return nil
	}
	_, err = s.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		next := old.Clone()
		buckets := make([]int, len(own))
		for i, number := range own {
			buckets[i] = directory.NumberingOf(old).Bucket(number, 0)
		}
		next.FreeBuckets(buckets)
		return next, nil
	})
	return err
}

// CountEntries implements directory.Lookups.
func (s *Store) CountEntries(ctx context.Context, name string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, s.entryKey(name, nil), clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil {
		return 0, s.wrap("count entries", err)
	}
	return int(resp.Count), nil
}
