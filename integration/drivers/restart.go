package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/pgserver"
)

const restartCommand = "restart"

// desk takes the wishes of suites that want a server restarted: the servers are children of
// the runner, so the suite's $RESTART asks it over HTTP on the loopback.
type desk struct {
	world *world
	http  *http.Server
	addr  string
	done  chan error

	mu sync.Mutex // one restart at a time
}

func openDesk(w *world) (*desk, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &desk{world: w, addr: l.Addr().String(), done: make(chan error, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /plain", func(rw http.ResponseWriter, r *http.Request) { d.restart(rw, r, d.world.plain) })
	mux.HandleFunc("POST /weft", func(rw http.ResponseWriter, r *http.Request) {
		n, err := strconv.Atoi(r.FormValue("shard"))
		if err != nil || n < 0 || n >= len(d.world.shards) {
			http.Error(rw, fmt.Sprintf("no shard %q", r.FormValue("shard")), http.StatusBadRequest)
			return
		}
		d.restart(rw, r, d.world.shards[n])
	})
	d.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go func() { d.done <- d.http.Serve(l) }()
	return d, nil
}

func (d *desk) restart(rw http.ResponseWriter, r *http.Request, s *pgserver.Temp) {
	d.mu.Lock()
	defer d.mu.Unlock()
	// Not the request's context: a server that is down must come back for the next suite.
	ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), time.Minute)
	defer stop()
	if err := errors.Join(s.Stop(ctx), s.Restart(ctx)); err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
	}
}

// Close waits for a restart that is under way.
func (d *desk) Close() error {
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	err := d.http.Shutdown(ctx)
	if served := <-d.done; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// askRestart is $RESTART: the address of the desk, the target, and perhaps the number of a shard
// (0 is the home shard; the default is 1). It returns when the server accepts connections again.
func askRestart(ctx context.Context, args []string) error {
	if len(args) < 2 || len(args) > 3 {
		return errors.New("restart: use it as $RESTART [SHARD]")
	}
	shard := "1"
	if len(args) == 3 {
		shard = args[2]
	}
	body := url.Values{"shard": {shard}}.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+args[0]+"/"+args[1], strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		why, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return fmt.Errorf("restart: %s", why)
	}
	return nil
}
