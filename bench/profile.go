package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profile starts fetching a CPU profile of t for as long as a run lasts; the returned function waits for it. It does
// nothing for targets without one. Of several rounds the last one's profile stays.
//
// Being profiled costs the proxy about a percent, so figures from such a run are for reading the profile, not for keeping.
func (b *bench) profile(ctx context.Context, t target, w workload, mode string, clients int) (wait func() error) {
	if b.opts.Profile == "" || t.HTTP == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		done <- fetchProfile(ctx, t.HTTP, b.opts.Seconds, b.profileName(w, mode, clients))
	}()
	return func() error { return <-done }
}

func (b *bench) profileName(w workload, mode string, clients int) string {
	scripts := 0
	for _, name := range workloadNames() {
		if b.opts.has(name) {
			scripts++
		}
	}
	if scripts*len(b.opts.Modes)*len(b.opts.Clients) == 1 {
		return b.opts.Profile
	}
	ext := filepath.Ext(b.opts.Profile)
	return fmt.Sprintf("%s-%s-%s-%d%s", strings.TrimSuffix(b.opts.Profile, ext), w.Name, mode, clients, ext)
}

// profiler may see profiles of the weft that is measured, by this password.
const profiler = "bench"

func fetchProfile(ctx context.Context, addr string, seconds int, name string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", addr, seconds)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	req.SetBasicAuth(profiler, profiler)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("profile: %s", res.Status)
	}
	out, err := os.Create(name)
	if err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	if _, err := io.Copy(out, res.Body); err != nil {
		out.Close()
		return fmt.Errorf("profile: %w", err)
	}
	return out.Close()
}
