package patroni

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
)

// view is what Patroni says of a shard.
type view struct {
	Members []struct {
		Name     string `json:"name"`
		Role     string `json:"role"`  // leader, replica, sync_standby and others
		State    string `json:"state"` // running, streaming, starting and others
		Timeline int    `json:"timeline"`
	} `json:"members"`
}

// leader is the name of the primary if it runs, and "" otherwise.
func (v view) leader() string {
	for _, m := range v.Members {
		if m.Role == "leader" && m.State == "running" {
			return m.Name
		}
	}
	return ""
}

// standby reports whether a server follows the primary, and whether commits wait for it.
func (v view) standby(name string) (follows, sync bool) {
	timeline := 0
	for _, m := range v.Members {
		if m.Role == "leader" {
			timeline = m.Timeline
		}
	}
	for _, m := range v.Members {
		if m.Name == name && m.Role != "leader" && (m.State == "running" || m.State == "streaming") && m.Timeline == timeline {
			return true, m.Role == "sync_standby"
		}
	}
	return false, false
}

// look asks any Patroni that answers for the shard.
func (s *Shard) look(ctx context.Context) (view, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	last := errors.New("no Patroni runs")
	for _, m := range s.members {
		if m.isFrozen() {
			continue
		}
		var v view
		text, err := call(ctx, http.MethodGet, m.api, "/cluster", nil)
		if err == nil {
			err = json.Unmarshal(text, &v)
		}
		if err == nil {
			return v, nil
		}
		last = err
	}
	return view{}, last
}

// call calls Patroni's REST API.
func call(ctx context.Context, method, addr, path string, body any) ([]byte, error) {
	var text []byte
	if body != nil {
		var err error
		if text, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://"+addr+path, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	out, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("patroni: %s: %s", resp.Status, bytes.TrimSpace(out))
	}
	return out, err
}
