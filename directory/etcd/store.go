package etcd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"weft/directory"
)

var (
	_ directory.Store    = (*Store)(nil)
	_ directory.Registry = (*Store)(nil)
	_ directory.Lookups  = (*Store)(nil)
)

// Store is a directory in etcd. Its methods may be called concurrently.
type Store struct {
	cfg    Config
	client *clientv3.Client
	key    string // of the snapshot's head
	parts  parts
}

// Below the head's key. They sort between it and keysEnd, so that one watch
// sees all of them in the order in which they changed.
const (
	partKeys  = "/part/"
	entryKeys = "/entry/"
	keysEnd   = "0" // the character after /
)

// Open returns a store. It contacts etcd only if there is a user name, to log
// in; otherwise an etcd that is away shows at first use.
func Open(cfg Config) (*Store, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Store{cfg: cfg, key: cfg.Prefix + "snapshot"}
	client, err := clientv3.New(clientv3.Config{
		Endpoints: cfg.Endpoints,
		TLS:       cfg.TLS,
		Username:  cfg.Username,
		Password:  cfg.Password,
		// Find a dead connection within 15 s even when nothing is asked.
		DialTimeout:          cfg.RequestTimeout,
		DialKeepAliveTime:    10 * time.Second,
		DialKeepAliveTimeout: 5 * time.Second,
		Logger:               clientLogger(cfg.Log),
		// gRPC by default waits up to two minutes between attempts to connect:
		// too long to find out that etcd is back.
		DialOptions: []grpc.DialOption{grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 2 * time.Second},
			MinConnectTimeout: cfg.RequestTimeout,
		})},
	})
	if err != nil {
		return nil, s.wrap("open", err)
	}
	s.client = client
	return s, nil
}

// Close ends the client and with it every call that is under way.
func (s *Store) Close() error {
	if err := s.client.Close(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("close directory: %w", err)
	}
	return nil
}

// Load implements directory.Store.
func (s *Store) Load(ctx context.Context) (*directory.Snapshot, error) {
	snap, _, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	if snap == nil {
		return nil, fmt.Errorf("%w (looked for %s at %s)", directory.ErrNoCluster, s.key, s.where())
	}
	return snap, nil
}

// load returns nil without an error if there is no cluster, and the revision
// at which that was so.
func (s *Store) load(ctx context.Context) (*directory.Snapshot, int64, error) {
	snap, rev, err := s.loadSince(ctx, s.parts.since())
	if errors.Is(err, directory.ErrPart) {
		snap, rev, err = s.loadSince(ctx, 0)
	}
	return snap, rev, err
}

// loadSince reads the head, and those parts that changed after a revision.
func (s *Store) loadSince(ctx context.Context, since int64) (*directory.Snapshot, int64, error) {
	rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Txn(rctx).Then(
		clientv3.OpGet(s.key),
		clientv3.OpGet(s.key+partKeys, clientv3.WithPrefix(), clientv3.WithMinModRev(since+1)),
	).Commit()
	if err != nil {
		return nil, 0, s.wrap("load", err)
	}
	rev := resp.Header.Revision
	head := resp.Responses[0].GetResponseRange().Kvs
	if len(head) == 0 {
		return nil, rev, nil
	}
	snap, err := s.parts.decode(head[0], resp.Responses[1].GetResponseRange().Kvs, s.key+partKeys, rev)
	return snap, rev, err
}

// Update implements directory.Store.
func (s *Store) Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	return s.update(ctx, fn, nil)
}

// with is what a change does beside the snapshot, in the same transaction and
// only if its conditions hold. It is asked for each attempt, with the snapshot
// to be stored.
type with func(next *directory.Snapshot) (conditions []clientv3.Cmp, ops []clientv3.Op)

// update tries until it wins. The number of attempts is not limited: whenever
// one fails, another writer has succeeded.
func (s *Store) update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error), more with) (*directory.Snapshot, error) {
	for {
		old, _, err := s.load(ctx)
		if err != nil {
			return nil, err
		}
		next, err := fn(old)
		if err != nil {
			return nil, err
		}
		if err := directory.Successor(old, next); err != nil {
			return nil, err
		}
		if directory.Rises(old, next) {
			list, err := s.Proxies(ctx)
			if err != nil {
				return nil, err
			}
			if err := directory.Readable(next, list); err != nil {
				return nil, err
			}
		}
		e, err := next.Encode(old)
		if err != nil {
			return nil, err
		}
		if e.Same() {
			return old, nil
		}
		var expect int64 // 0: the key does not exist
		if old != nil {
			expect = old.Version
		}
		version, err := s.swap(ctx, expect, e, next, more)
		if err != nil {
			return nil, err
		}
		if version != 0 {
			return e.Stored(version), nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("update directory: %w", err)
		}
	}
}

// swap writes e if the head is still at revision expect, and returns the new
// revision, or 0 if another writer came first.
func (s *Store) swap(ctx context.Context, expect int64, e *directory.Encoded, next *directory.Snapshot, more with) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	conditions := []clientv3.Cmp{clientv3.Compare(clientv3.ModRevision(s.key), "=", expect)}
	ops := []clientv3.Op{clientv3.OpPut(s.key, string(e.Head))}
	for name, value := range e.Parts {
		ops = append(ops, clientv3.OpPut(s.key+partKeys+name, string(value)))
	}
	for _, name := range e.Gone {
		ops = append(ops, clientv3.OpDelete(s.key+partKeys+name))
	}
	if more != nil {
		c, o := more(next)
		conditions, ops = append(conditions, c...), append(ops, o...)
	}
	resp, err := s.client.Txn(ctx).If(conditions...).Then(ops...).Commit()
	if err != nil {
		// The request may have arrived and the answer not. Doing it again
		// would run fn on its own result, so the caller must look first.
		return 0, fmt.Errorf("it is unknown whether the change was stored, look before trying again: %w", s.wrap("update", err))
	}
	if !resp.Succeeded {
		return 0, nil
	}
	return resp.Header.Revision, nil
}

// where names the endpoints in messages.
func (s *Store) where() string { return "etcd " + strings.Join(s.cfg.Endpoints, ",") }

// wrap sorts a client's error into the directory's kinds.
func (s *Store) wrap(step string, err error) error {
	kind := error(nil)
	switch code := errCode(err); {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s directory: %w", step, err)
	case errors.Is(err, rpctypes.ErrAuthFailed), errors.Is(err, rpctypes.ErrPermissionDenied), errors.Is(err, rpctypes.ErrUserEmpty),
		errors.Is(err, rpctypes.ErrAuthNotEnabled), code == codes.PermissionDenied, code == codes.Unauthenticated:
		kind = directory.ErrDenied
	case errors.Is(err, context.DeadlineExceeded), code == codes.Unavailable, code == codes.DeadlineExceeded:
		kind = directory.ErrUnavailable
	default:
		return fmt.Errorf("%s directory at %s: %w", step, s.where(), err)
	}
	return fmt.Errorf("%s: %w: %s: %w", step, kind, s.where(), err)
}

func errCode(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	if st, ok := status.FromError(err); ok {
		return st.Code()
	}
	return codes.Unknown
}
