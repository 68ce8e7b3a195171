package etcd

import (
	"bytes"
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
)

// Store is a directory in etcd. Its methods may be called concurrently.
type Store struct {
	cfg    Config
	client *clientv3.Client
	key    string // of the snapshot
}

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
		Logger:               ZapLogger(cfg.Log),
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
	snap, err := s.load(ctx)
	if err != nil {
		return nil, err
	}
	if snap == nil {
		return nil, fmt.Errorf("%w (looked for %s at %s)", directory.ErrNoCluster, s.key, s.where())
	}
	return snap, nil
}

// load returns nil without an error if there is no cluster.
func (s *Store) load(ctx context.Context) (*directory.Snapshot, error) {
	rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Get(rctx, s.key)
	if err != nil {
		return nil, s.wrap("load", err)
	}
	if len(resp.Kvs) == 0 {
		return nil, nil
	}
	return directory.Decode(resp.Kvs[0].Value, resp.Kvs[0].ModRevision)
}

// Update implements directory.Store. The number of attempts is not limited:
// whenever one fails, another writer has succeeded.
func (s *Store) Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	for {
		old, err := s.load(ctx)
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
		value, err := next.Encode()
		if err != nil {
			return nil, err
		}
		var expect int64 // 0: the key does not exist
		if old != nil {
			expect = old.Version
			if was, err := old.Encode(); err == nil && bytes.Equal(was, value) {
				return old, nil
			}
		}
		version, err := s.swap(ctx, expect, value)
		if err != nil {
			return nil, err
		}
		if version != 0 {
			next = next.Clone()
			next.Version = version
			return next, nil
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("update directory: %w", err)
		}
	}
}

// swap writes value if the key is still at revision expect, and returns the
// new revision, or 0 if another writer came first.
func (s *Store) swap(ctx context.Context, expect int64, value []byte) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	resp, err := s.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(s.key), "=", expect)).
		Then(clientv3.OpPut(s.key, string(value))).
		Commit()
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
