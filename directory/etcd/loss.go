package etcd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

var _ directory.Losses = (*Store)(nil)

const (
	// lossKeys is where transactions are that failovers have harmed, below the prefix, by the key of their decision.
	lossKeys = "losses/"
	// lossBatch is how many are written at once: etcd bounds the operations of a request.
	lossBatch = 100
)

// NoteLosses implements directory.Losses.
func (s *Store) NoteLosses(ctx context.Context, list []directory.Loss) (fresh []directory.Loss, err error) {
	for batch := range slices.Chunk(list, lossBatch) {
		some, err := s.noteLosses(ctx, batch)
		if err != nil {
			return nil, err
		}
		fresh = append(fresh, some...)
	}
	return fresh, s.pruneLosses(ctx)
}

func (s *Store) noteLosses(ctx context.Context, batch []directory.Loss) (fresh []directory.Loss, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	gets, puts := make([]clientv3.Op, len(batch)), []clientv3.Op(nil)
	for i := range batch {
		gets[i] = clientv3.OpGet(s.cfg.Prefix + lossKeys + batch[i].GID)
	}
	old, err := s.client.Txn(ctx).Then(gets...).Commit()
	if err != nil {
		return nil, s.wrap("read lost transactions", err)
	}
	for i := range batch {
		next := batch[i]
		var was directory.Loss
		switch kvs := old.Responses[i].GetResponseRange().Kvs; {
		case len(kvs) == 0:
			fresh = append(fresh, next)
		case json.Unmarshal(kvs[0].Value, &was) == nil:
			next = next.With(was)
		}
		value, err := json.Marshal(next)
		if err != nil {
			return nil, fmt.Errorf("note lost transactions: %w", err)
		}
		puts = append(puts, clientv3.OpPut(s.cfg.Prefix+lossKeys+next.GID, string(value)))
	}
	if _, err := s.client.Txn(ctx).Then(puts...).Commit(); err != nil {
		return nil, s.wrap("note lost transactions", err)
	}
	return fresh, nil
}

// pruneLosses deletes the oldest that are too many.
func (s *Store) pruneLosses(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	n, err := s.client.Get(ctx, s.cfg.Prefix+lossKeys, clientv3.WithPrefix(), clientv3.WithCountOnly())
	if err != nil || n.Count <= directory.MaxLosses {
		return s.wrapAny("count lost transactions", err)
	}
	old, err := s.client.Get(ctx, s.cfg.Prefix+lossKeys, clientv3.WithPrefix(), clientv3.WithKeysOnly(),
		clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend), clientv3.WithLimit(n.Count-directory.MaxLosses))
	if err != nil {
		return s.wrap("list lost transactions", err)
	}
	for _, kv := range old.Kvs {
		if _, err := s.client.Delete(ctx, string(kv.Key)); err != nil {
			return s.wrap("forget lost transaction", err)
		}
	}
	return nil
}

// Losses implements directory.Losses.
func (s *Store) Losses(ctx context.Context) ([]directory.Loss, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	got, err := s.client.Get(ctx, s.cfg.Prefix+lossKeys, clientv3.WithPrefix(), clientv3.WithSort(clientv3.SortByModRevision, clientv3.SortAscend))
	if err != nil {
		return nil, s.wrap("list lost transactions", err)
	}
	out := []directory.Loss{}
	for _, kv := range got.Kvs {
		var l directory.Loss
		if json.Unmarshal(kv.Value, &l) == nil { // else it was written by another version
			out = append(out, l)
		}
	}
	return out, nil
}

// AcceptLoss implements directory.Losses.
func (s *Store) AcceptLoss(ctx context.Context, gid string, at time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	key := s.cfg.Prefix + lossKeys + gid
	for {
		got, err := s.client.Get(ctx, key)
		if err != nil || len(got.Kvs) == 0 {
			return false, s.wrapAny("read lost transaction", err)
		}
		var l directory.Loss
		if err := json.Unmarshal(got.Kvs[0].Value, &l); err != nil {
			return false, fmt.Errorf("read lost transaction: %w", err)
		}
		l.Accepted = at
		value, err := json.Marshal(l)
		if err != nil {
			return false, fmt.Errorf("accept lost transaction: %w", err)
		}
		put, err := s.client.Txn(ctx).If(clientv3.Compare(clientv3.ModRevision(key), "=", got.Kvs[0].ModRevision)).Then(clientv3.OpPut(key, string(value))).Commit()
		if err != nil {
			return false, s.wrap("accept lost transaction", err)
		}
		if put.Succeeded {
			return true, nil
		}
	}
}
