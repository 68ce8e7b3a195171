package dev

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"weft/dev/supervisor"
)

// controlName is the file that says how other commands reach a run.
const controlName = "control.json"

// entry is what the file says. Only the user of the run can read it.
type entry struct {
	Address string `json:"address"`
	Token   string `json:"token"`
}

// control answers other commands of the same user: what servers there are, and orders
// to them.
type control struct {
	path   string
	token  string
	shards []*shard
	http   http.Server
	done   chan struct{} // closed when http has ended
}

// openControl listens, and writes the file.
func openControl(dir string, shards []*shard) (*control, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c := &control{path: filepath.Join(dir, controlName), token: rand.Text(), shards: shards, done: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /servers", c.servers)
	mux.HandleFunc("POST /shards/{shard}/{order}", c.order)
	c.http = http.Server{Handler: c.known(mux), ReadHeaderTimeout: 10 * time.Second}
	text, err := json.Marshal(entry{l.Addr().String(), c.token})
	if err == nil {
		err = writeSecret(c.path, append(text, '\n'))
	}
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	go func() {
		defer close(c.done)
		_ = c.http.Serve(l) // ends with close
	}()
	return c, nil
}

// writeSecret replaces a file that nobody else may read.
func writeSecret(path string, text []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// close removes the file and ends what is asked.
func (c *control) close() error {
	err := errors.Join(os.Remove(c.path), c.http.Close())
	<-c.done
	return err
}

// known turns away those who have not read the file.
func (c *control) known(next http.Handler) http.Handler {
	want := []byte("Bearer " + c.token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			http.Error(w, "unknown token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *control) servers(w http.ResponseWriter, _ *http.Request) {
	all := []supervisor.Status{}
	for _, s := range c.shards {
		all = append(all, s.Servers()...)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(all) // who asked is gone
}

func (c *control) order(w http.ResponseWriter, r *http.Request) {
	var names []string
	for _, s := range c.shards {
		if s.name != r.PathValue("shard") {
			names = append(names, s.name)
			continue
		}
		text, err := s.Do(r.Context(), r.PathValue("order"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		fmt.Fprintln(w, text)
		return
	}
	http.Error(w, fmt.Sprintf("there is no shard %q: it is one of %s", r.PathValue("shard"), strings.Join(names, ", ")), http.StatusNotFound)
}

// ErrNotRunning is wrapped by the errors of Servers and Order when no weft dev runs in
// the directory.
var ErrNotRunning = errors.New("no weft dev is running")

// Servers asks the weft dev that runs in dir for its servers.
func Servers(ctx context.Context, dir string) ([]supervisor.Status, error) {
	text, err := ask(ctx, dir, http.MethodGet, "/servers")
	if err != nil {
		return nil, err
	}
	var all []supervisor.Status
	return all, json.Unmarshal(text, &all)
}

// Order gives an order about a shard to the weft dev that runs in dir, and returns what
// has happened.
func Order(ctx context.Context, dir, shard, order string) (string, error) {
	text, err := ask(ctx, dir, http.MethodPost, "/shards/"+shard+"/"+order)
	return strings.TrimSpace(string(text)), err
}

func ask(ctx context.Context, dir, method, path string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(dir, controlName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%w in %s", ErrNotRunning, dir)
	}
	if err != nil {
		return nil, err
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, fmt.Errorf("read %s: %w", controlName, err)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+e.Address+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "Bearer "+e.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("%w in %s: %w", ErrNotRunning, dir, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.New(string(bytes.TrimSpace(body)))
	}
	return body, err
}
