package etcd

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"weft/directory"
)

var _ directory.Points = (*Store)(nil)

// Where backup points, their manifests and the reservation of their maker are, below the prefix.
const (
	pointKeys    = "backups/point/"
	manifestKeys = "backups/manifest/"
	pointLock    = "backups/maker"
)

// Reserve implements directory.Points.
func (s *Store) Reserve(ctx context.Context, owner string) (context.Context, func(), error) {
	rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	lease, err := s.client.Grant(rctx, max(1, int64(s.cfg.LeaseTTL/time.Second)))
	if err != nil {
		return nil, nil, s.wrap("reserve a backup point", err)
	}
	revoke := func() {
		rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_, _ = s.client.Revoke(rctx, lease.ID) // else it runs out by itself
	}
	key := s.cfg.Prefix + pointLock
	got, err := s.client.Txn(rctx).If(clientv3.Compare(clientv3.CreateRevision(key), "=", 0)).
		Then(clientv3.OpPut(key, owner, clientv3.WithLease(lease.ID))).Else(clientv3.OpGet(key)).Commit()
	if err == nil && !got.Succeeded {
		who := "another process"
		if kvs := got.Responses[0].GetResponseRange().Kvs; len(kvs) > 0 {
			who = string(kvs[0].Value)
		}
		revoke()
		return nil, nil, fmt.Errorf("%w: by %s", directory.ErrPointUnderWay, who)
	}
	held, stop := context.WithCancelCause(ctx)
	var alive <-chan *clientv3.LeaseKeepAliveResponse
	if err == nil {
		alive, err = s.client.KeepAlive(held, lease.ID)
	}
	if err != nil {
		stop(nil)
		revoke()
		return nil, nil, s.wrap("reserve a backup point", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for range alive {
		}
		stop(fmt.Errorf("the reservation of the backup point was lost: %w", directory.ErrUnavailable))
	}()
	return held, func() {
		stop(context.Canceled)
		<-ended
		revoke()
	}, nil
}

// EndReservation implements directory.Points.
func (s *Store) EndReservation(ctx context.Context, owner string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	got, err := s.client.Get(ctx, s.cfg.Prefix+pointLock)
	if err != nil {
		return "", s.wrap("end the reservation of a backup point", err)
	}
	if len(got.Kvs) == 0 || !strings.HasPrefix(string(got.Kvs[0].Value), owner) {
		return "", nil
	}
	if _, err := s.client.Revoke(ctx, clientv3.LeaseID(got.Kvs[0].Lease)); err != nil {
		return "", s.wrap("end the reservation of a backup point", err)
	}
	return string(got.Kvs[0].Value), nil
}

// NotePoint implements directory.Points.
func (s *Store) NotePoint(ctx context.Context, p directory.Point, manifest []byte) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	var ops []clientv3.Op
	if manifest != nil && len(manifest) <= directory.MaxManifest {
		p.Kept = true
		ops = append(ops, clientv3.OpPut(s.cfg.Prefix+manifestKeys+p.Name, string(manifest)))
	}
	value, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("note backup point: %w", err)
	}
	ops = append(ops, clientv3.OpPut(s.cfg.Prefix+pointKeys+p.Name, string(value)))
	if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil {
		return s.wrap("note backup point", err)
	}
	list, err := s.Points(ctx)
	if err != nil {
		return err
	}
	for i := 0; i < len(list)-directory.MaxPoints; i++ {
		_, err := s.client.Txn(ctx).Then(clientv3.OpDelete(s.cfg.Prefix+pointKeys+list[i].Name), clientv3.OpDelete(s.cfg.Prefix+manifestKeys+list[i].Name)).Commit()
		if err != nil {
			return s.wrap("forget backup point", err)
		}
	}
	return nil
}

// Points implements directory.Points.
func (s *Store) Points(ctx context.Context) ([]directory.Point, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	got, err := s.client.Get(ctx, s.cfg.Prefix+pointKeys, clientv3.WithPrefix())
	if err != nil {
		return nil, s.wrap("list backup points", err)
	}
	var out []directory.Point
	for _, kv := range got.Kvs {
		var p directory.Point
		if json.Unmarshal(kv.Value, &p) == nil { // else it was written by another version
			out = append(out, p)
		}
	}
	slices.SortStableFunc(out, func(a, b directory.Point) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name)) })
	return out, nil
}

// PointManifest implements directory.Points.
func (s *Store) PointManifest(ctx context.Context, name string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	got, err := s.client.Get(ctx, s.cfg.Prefix+manifestKeys+name)
	if err != nil {
		return nil, s.wrap("read the manifest of a backup point", err)
	}
	if len(got.Kvs) == 0 {
		return nil, nil
	}
	return got.Kvs[0].Value, nil
}
