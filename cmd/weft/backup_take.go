package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"weft/backup"
	"weft/directory"
	"weft/pgserver"
	"weft/server"
)

// manifestFile is the name of the manifest in a directory of weft backup take.
const manifestFile = "manifest.json"

func backupTakeCommand() *cobra.Command {
	var b backingUp
	var name, bin string
	var strict bool
	cmd := &cobra.Command{
		Use:   "take DIR",
		Short: "Copy all shards, and the WAL up to a point, into a directory",
		Long: `For small clusters, and to try a restore: copy every shard with pg_basebackup into
DIR/SHARD/base, its WAL with pg_receivewal into DIR/SHARD/wal, make a point when all
copies are done, and write its manifest to DIR/manifest.json. Shards need no archive.
The service user needs the right REPLICATION, and the servers a free replication slot.

Clients go on meanwhile. What was begun is removed if the command fails.`,
		Example: `  weft backup take /var/backups/2026-11-18 -c weft.yaml`,
		Args:    words("where to? give a directory that does not exist"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if name == "" {
				name = stamp(time.Now())
			}
			return b.run(cmd, func(ctx context.Context) error {
				t := taking{b: &b, dir: args[0], name: name, strict: strict}
				var err error
				if t.install, err = pgserver.Find(bin); err != nil {
					return err
				}
				return t.run(ctx)
			})
		},
	}
	b.flags(cmd)
	cmd.Flags().StringVar(&name, "point", "", "name of the point (default: the time)")
	cmd.Flags().BoolVar(&strict, "strict", false, "hold the commits of all shards while the point is made")
	cmd.Flags().StringVar(&bin, "pg-bin", "", "directory of pg_basebackup and pg_receivewal (default: searched for)")
	return cmd
}

// taking is one run of weft backup take.
type taking struct {
	b       *backingUp
	install pgserver.Install
	dir     string
	name    string
	strict  bool
	slot    string
}

func (t *taking) run(ctx context.Context) (err error) {
	snap, err := t.b.store.Load(ctx)
	if err != nil {
		return err
	}
	servers, err := server.NewServers(t.b.cfg)
	if err != nil {
		return err
	}
	hosts, err := primaries(servers.Ping(ctx, snap.Shards, identifyTimeout), snap)
	if err != nil {
		return err
	}
	if err := os.Mkdir(t.dir, 0o700); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.RemoveAll(t.dir)
		}
	}()
	var id [4]byte
	_, _ = rand.Read(id[:])
	t.slot = "weft_backup_" + hex.EncodeToString(id[:])
	wals := make([]*receiving, len(snap.Shards))
	defer func() {
		for _, w := range wals {
			if w != nil {
				err = errors.Join(err, w.stop())
			}
		}
	}()
	for i := range snap.Shards {
		if wals[i], err = t.receive(ctx, &snap.Shards[i], hosts[i]); err != nil {
			return fmt.Errorf("%s: %w", snap.Shards[i].Name, err)
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	for i := range snap.Shards {
		g.Go(func() error {
			if err := t.copy(gctx, &snap.Shards[i], hosts[i]); err != nil {
				return fmt.Errorf("%s: %w", snap.Shards[i].Name, err)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	made, err := t.b.point(ctx, t.name, making{manifest: filepath.Join(t.dir, manifestFile), strict: t.strict})
	if err != nil {
		return err
	}
	for i, k := range made.Marks {
		if err := wals[i].await(ctx, k); err != nil {
			return fmt.Errorf("%s: %w", k.Shard, err)
		}
	}
	t.b.say("point %s can be restored: weft restore files %s --into DIR", made.Name, t.dir)
	return nil
}

// primaries returns the address of each shard's primary.
func primaries(hosts []server.Host, snap *directory.Snapshot) ([]string, error) {
	out := make([]string, len(snap.Shards))
	for i := range snap.Shards {
		var errs []error
		for _, h := range hosts {
			if h.Shard != snap.Shards[i].Name {
				continue
			}
			if h.Err == nil && !h.Standby {
				out[i] = h.Address
			}
			errs = append(errs, h.Err)
		}
		if out[i] == "" {
			return nil, fmt.Errorf("shard %s has no primary that answers: %w", snap.Shards[i].Name, errors.Join(errs...))
		}
	}
	return out, nil
}

// program runs one of PostgreSQL's programs against a server of a shard.
func (t *taking) program(ctx context.Context, spec *directory.Shard, host, name string, args ...string) *exec.Cmd {
	user, password := t.b.cluster.Login()
	cmd := exec.CommandContext(ctx, t.install.Program(name), append(args, "--no-password", "--dbname="+conninfo(spec, host, user))...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	cmd.Env = append(os.Environ(), "PGAPPNAME=weft backup")
	if password != "" {
		cmd.Env = append(cmd.Env, "PGPASSWORD="+password)
	}
	return cmd
}

// conninfo is a connection string of libpq.
func conninfo(spec *directory.Shard, address, user string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		host, port = address, ""
	}
	set := map[string]string{"host": host, "port": port, "user": user}
	for k, v := range spec.Options {
		if strings.HasPrefix(k, "ssl") {
			set[k] = v
		}
	}
	var parts []string
	for k, v := range set {
		parts = append(parts, k+"='"+strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(v)+"'")
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}

// copy makes the base backup of a shard.
func (t *taking) copy(ctx context.Context, spec *directory.Shard, host string) error {
	t.b.say("%s: copying %s", spec.Name, host)
	var complaint bytes.Buffer
	cmd := t.program(ctx, spec, host, "pg_basebackup", "--pgdata="+filepath.Join(t.dir, spec.Name, "base"), "--checkpoint=fast", "--wal-method=stream", "--no-sync")
	cmd.Stderr = &complaint
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("pg_basebackup: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return nil
}

// receiving is a pg_receivewal.
type receiving struct {
	dir       string
	cmd       *exec.Cmd
	complaint *lockedBuffer
	ended     chan struct{}
	err       error // of the program, when ended is closed
	drop      func() error
	once      sync.Once
}

// lockedBuffer may be written and read at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(l.b.String())
}

// receive starts to receive the WAL of a shard, from a replication slot, so that none is missed.
func (t *taking) receive(ctx context.Context, spec *directory.Shard, host string) (*receiving, error) {
	r := &receiving{dir: filepath.Join(t.dir, spec.Name, "wal"), ended: make(chan struct{}), complaint: &lockedBuffer{}}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return nil, err
	}
	if out, err := t.program(ctx, spec, host, "pg_receivewal", "--create-slot", "--slot="+t.slot).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("pg_receivewal: %w: %s", err, strings.TrimSpace(string(out)))
	}
	r.drop = func() error {
		dctx, stop := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer stop()
		if out, err := t.program(dctx, spec, host, "pg_receivewal", "--drop-slot", "--slot="+t.slot).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: the replication slot %s could not be dropped and keeps WAL: %w: %s", spec.Name, t.slot, err, strings.TrimSpace(string(out)))
		}
		return nil
	}
	r.cmd = t.program(ctx, spec, host, "pg_receivewal", "--directory="+r.dir, "--slot="+t.slot, "--no-loop", "--synchronous")
	r.cmd.Stderr = r.complaint
	if err := r.cmd.Start(); err != nil {
		return nil, errors.Join(err, r.drop())
	}
	go func() {
		r.err = r.cmd.Wait()
		close(r.ended)
	}()
	return r, r.begun(ctx)
}

// begun waits for the first file.
func (r *receiving) begun(ctx context.Context) error {
	return r.until(ctx, func() bool {
		list, err := os.ReadDir(r.dir)
		return err == nil && len(list) > 0
	})
}

// await waits until the WAL file of a point is whole.
func (r *receiving) await(ctx context.Context, k backup.Mark) error {
	return r.until(ctx, func() bool {
		_, err := os.Stat(filepath.Join(r.dir, k.File))
		return err == nil
	})
}

// until waits for a condition, while the program runs.
func (r *receiving) until(ctx context.Context, met func() bool) error {
	for !met() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.ended:
			return fmt.Errorf("pg_receivewal ended: %w: %s", r.err, r.complaint)
		case <-time.After(50 * time.Millisecond):
		}
	}
	return nil
}

// stop ends the program and drops its slot.
func (r *receiving) stop() (err error) {
	r.once.Do(func() {
		_ = r.cmd.Process.Signal(os.Interrupt)
		<-r.ended
		err = r.drop()
	})
	return err
}
