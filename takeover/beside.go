package takeover

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// besidePattern is what the sockets of processes are called, by which the others reach them.
const besidePattern = "proxy-*.sock"

const (
	// maxRequest bounds what is read of a request, maxReply what is read of a reply.
	maxRequest = 64 << 10
	maxReply   = 65 << 20
	// maxBeside is how many requests are passed on at once: who causes them need not have logged in.
	maxBeside = 64
	// besideWithin bounds how long passing on may take.
	besideWithin = 3 * time.Second
)

// Beside is the other processes with the same run_dir: one that drains after a takeover, or one that is about to take over.
// Clients and other proxies know all of them by one address. Its methods may be called by several goroutines.
type Beside struct {
	cfg      Config
	path     string
	listener *net.UnixListener
	places   chan struct{}
}

// Local is what a process does for the others.
type Local struct {
	// Cancel cancels what a session does, if the session is here and the key is right.
	Cancel func(pid int32, key []byte) bool
	// Answer answers a question that is sealed for this process.
	Answer func(channel, challenge, message []byte) ([]byte, bool)
}

// sealed is a question of another proxy, and what its seal depends on. Only the process that it is meant for can open it.
type sealed struct {
	Channel   []byte `json:"channel,omitempty"`
	Challenge []byte `json:"challenge"`
	Message   []byte `json:"message"`
}

// besideRequest is what one process asks of another: to cancel, or to answer.
type besideRequest struct {
	PID    int32   `json:"pid,omitempty"`
	Key    []byte  `json:"key,omitempty"`
	Sealed *sealed `json:"sealed,omitempty"`
}

// Join makes this process known to those beside it, under an ID of its own.
func Join(cfg Config, id string) (*Beside, error) {
	b := &Beside{cfg: cfg, path: filepath.Join(cfg.Dir, strings.Replace(besidePattern, "*", id, 1)), places: make(chan struct{}, maxBeside)}
	early := filepath.Join(cfg.Dir, id+".sock")
	l, err := listenUnix(early)
	if err != nil {
		return nil, fmt.Errorf("run_dir: %w", err)
	}
	// The name by which others find the socket comes when it listens: a socket that refuses connections is taken for that of a dead process.
	if err := os.Rename(early, b.path); err != nil {
		_ = l.Close()
		return nil, fmt.Errorf("run_dir: %w", err)
	}
	b.listener = l
	return b, nil
}

// Serve does what the others ask for, until ctx ends or the Beside is closed.
func (b *Beside) Serve(ctx context.Context, local Local) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	defer context.AfterFunc(ctx, func() { _ = b.listener.Close() })()
	for {
		c, err := b.listener.AcceptUnix()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			b.cfg.Log.Warn("accept failed in run_dir", "err", err)
			select {
			case <-time.After(50 * time.Millisecond):
				continue
			case <-ctx.Done():
				return nil
			}
		}
		wg.Go(b.cfg.Guard("process beside", func() {
			defer c.Close()
			b.serve(c, local)
		}))
	}
}

// serve carries out one request. The reply is empty for what is not for this process.
func (b *Beside) serve(c *net.UnixConn, local Local) {
	within(c, besideWithin)
	if err := checkPeer(c); err != nil {
		b.cfg.Log.Warn("a request in run_dir is refused", "err", err)
		return
	}
	var r besideRequest
	if err := json.NewDecoder(io.LimitReader(c, maxRequest)).Decode(&r); err != nil {
		return
	}
	reply, ok := []byte(nil), false
	if r.Sealed != nil {
		reply, ok = local.Answer(r.Sealed.Channel, r.Sealed.Challenge, r.Sealed.Message)
	} else {
		ok = local.Cancel(r.PID, r.Key)
	}
	if ok {
		within(c, besideWithin)
		_, _ = c.Write(append([]byte{1}, reply...))
	}
}

// Cancel passes a cancel request on, and reports whether a process had the session.
func (b *Beside) Cancel(ctx context.Context, pid int32, key []byte) bool {
	_, ok := b.pass(ctx, besideRequest{PID: pid, Key: key})
	return ok
}

// Answer passes a question on, with what its seal depends on, and returns the answer of the process that it was for.
func (b *Beside) Answer(ctx context.Context, channel, challenge, message []byte) ([]byte, bool) {
	return b.pass(ctx, besideRequest{Sealed: &sealed{channel, challenge, message}})
}

// pass passes a request on to one process after the other, until one has carried it out.
func (b *Beside) pass(ctx context.Context, r besideRequest) ([]byte, bool) {
	select {
	case b.places <- struct{}{}:
		defer func() { <-b.places }()
	default:
		return nil, false
	}
	ctx, stop := context.WithTimeout(ctx, besideWithin)
	defer stop()
	paths, _ := filepath.Glob(filepath.Join(b.cfg.Dir, besidePattern))
	for _, path := range paths {
		if path == b.path {
			continue
		}
		if reply, ok := passTo(ctx, path, r); ok {
			return reply, true
		}
	}
	return nil, false
}

// passTo passes a request on to one process. The socket of a process that was killed is removed.
func passTo(ctx context.Context, path string, r besideRequest) ([]byte, bool) {
	c, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
	if err != nil {
		if isRefused(err) {
			_ = os.Remove(path)
		}
		return nil, false
	}
	defer c.Close()
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return nil, false
	}
	reply, err := io.ReadAll(io.LimitReader(c, maxReply))
	if err != nil || len(reply) == 0 || reply[0] != 1 {
		return nil, false
	}
	return reply[1:], true
}

// Close makes this process unknown to the others.
func (b *Beside) Close() error {
	_ = os.Remove(b.path)
	_ = b.listener.Close() // closed by Serve
	return nil
}
