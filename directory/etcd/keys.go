package etcd

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// Keys returns the keys with a prefix, which is not that of the directory, and their values: what Patroni keeps in the same etcd.
func (s *Store) Keys(ctx context.Context, prefix string) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Get(ctx, prefix, clientv3.WithPrefix())
	if err != nil {
		return nil, s.wrap("read "+prefix, err)
	}
	out := make(map[string]string, len(resp.Kvs))
	for _, kv := range resp.Kvs {
		out[string(kv.Key)] = string(kv.Value)
	}
	return out, nil
}

// WatchKeys calls changed after each change of a key with a prefix, until ctx ends or etcd cannot be watched any more.
func (s *Store) WatchKeys(ctx context.Context, prefix string, changed func(key string)) error {
	ctx, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	defer cancel()
	for resp := range s.client.Watch(ctx, prefix, clientv3.WithPrefix()) {
		if err := resp.Err(); err != nil {
			return s.wrap("watch "+prefix, err)
		}
		for _, ev := range resp.Events {
			changed(string(ev.Kv.Key))
		}
	}
	return context.Cause(ctx)
}
