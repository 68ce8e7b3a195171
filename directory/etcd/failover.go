package etcd

import (
	"context"
	"encoding/json"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

var _ directory.Failovers = (*Store)(nil)

// failoverKeys is where failovers are, below the prefix, by shard and timeline.
const failoverKeys = "failovers/"

// NoteFailover implements directory.Failovers.
func (s *Store) NoteFailover(ctx context.Context, f directory.Failover) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	shard := s.cfg.Prefix + failoverKeys + f.Shard + "/"
	key := fmt.Sprintf("%s%08X", shard, f.Timeline)
	for {
		got, err := s.client.Get(ctx, key)
		if err != nil {
			return s.wrap("read failover", err)
		}
		next, revision := f, int64(0)
		if len(got.Kvs) > 0 {
			revision = got.Kvs[0].ModRevision
			var old directory.Failover
			if err := json.Unmarshal(got.Kvs[0].Value, &old); err == nil { // else it was written by another version
				next = f.With(old)
			}
		}
		value, err := json.Marshal(next)
		if err != nil {
			return fmt.Errorf("note failover: %w", err)
		}
		put, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", revision)).Then(clientv3.OpPut(key, string(value))).Commit()
		if err != nil {
			return s.wrap("note failover", err)
		}
		if put.Succeeded {
			return s.pruneFailovers(ctx, shard)
		}
	}
}

// pruneFailovers deletes the oldest failovers of a shard that are too many.
func (s *Store) pruneFailovers(ctx context.Context, shard string) error {
	got, err := s.client.Get(ctx, shard, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		return s.wrap("list failovers", err)
	}
	for i := 0; i < len(got.Kvs)-directory.MaxFailovers; i++ {
		if _, err := s.client.Delete(ctx, string(got.Kvs[i].Key)); err != nil {
			return s.wrap("forget failover", err)
		}
	}
	return nil
}

// Failovers implements directory.Failovers.
func (s *Store) Failovers(ctx context.Context) ([]directory.Failover, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	got, err := s.client.Get(ctx, s.cfg.Prefix+failoverKeys, clientv3.WithPrefix())
	if err != nil {
		return nil, s.wrap("list failovers", err)
	}
	var out []directory.Failover
	for _, kv := range got.Kvs {
		var f directory.Failover
		if json.Unmarshal(kv.Value, &f) == nil { // else it was written by another version
			out = append(out, f)
		}
	}
	return out, nil
}
