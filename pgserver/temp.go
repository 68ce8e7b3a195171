package pgserver

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
)

// Temp is a throw-away server in a directory of its own.
type Temp struct {
	*Server
	root string
}

// CreateDatabase is the statement that makes a database on a throw-away server, with further options.
// Since 15 PostgreSQL writes a log of all that it copies, unless it is told to copy
// files: that takes half as long where nothing is flushed.
func (t *Temp) CreateDatabase(name string, options ...string) string {
	sql := "create database " + name
	for _, o := range options {
		sql += " " + o
	}
	if t.Config().Install.Major >= 15 {
		sql += " strategy file_copy"
	}
	return sql
}

// StartTemp starts a throw-away server. In cfg everything may be left empty:
// then Find's installation is used, and a free port. Dir must be empty. The
// caller has to Close it.
func StartTemp(ctx context.Context, cfg Config) (*Temp, error) {
	if cfg.Dir != "" {
		return nil, errors.New("pgserver: a throw-away server chooses its own directory")
	}
	if cfg.Install.Bin == "" {
		inst, err := Find("")
		if err != nil {
			return nil, err
		}
		cfg.Install = inst
	}
	root, err := TempDir()
	if err != nil {
		return nil, err
	}
	t := &Temp{root: root}
	cfg.Dir = filepath.Join(root, "data")
	choose := cfg.Port == 0
	if choose {
		cfg.Port = 1 // for Validate: Init uses no port
	}
	if err := cfg.InitFromTemplate(ctx); err != nil {
		return nil, errors.Join(err, os.RemoveAll(root))
	}
	for try := 1; ; try++ {
		if choose {
			if cfg.Port, err = FreePort(); err != nil {
				break
			}
		}
		if t.Server, err = cfg.Start(ctx); err == nil {
			return t, nil
		}
		// Another process may have taken the port between choosing and binding.
		if !choose || try == 3 || ctx.Err() != nil {
			break
		}
	}
	return nil, errors.Join(err, os.RemoveAll(root))
}

// Restart brings the server back after Stop or Kill, on the same port with the
// same data.
func (t *Temp) Restart(ctx context.Context) error {
	s, err := t.Config().Start(ctx)
	if err != nil {
		return err
	}
	t.Server = s
	return nil
}

// Close ends the server and removes its data.
func (t *Temp) Close() error {
	return errors.Join(t.quit(), os.RemoveAll(t.root))
}

// TempDir makes a directory that the servers' user can enter, which one made by
// os.MkdirTemp or a test's TempDir is not when the caller is root: then programs
// that run as that user, psql reading a file say, work in it too.
func TempDir() (string, error) {
	dir, err := os.MkdirTemp("", "weft-*")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", errors.Join(err, os.Remove(dir))
	}
	return dir, nil
}

// FreePort returns a port on 127.0.0.1 that nobody listens on now. It is taken
// from below the range that systems hand out to outgoing connections, so that a
// server which restarts on it does not find it taken by a client.
func FreePort() (int, error) {
	const low, high = 15000, 32000
	for range 100 {
		port := low + rand.IntN(high-low)
		if CheckPort(fmt.Sprintf("127.0.0.1:%d", port)) == nil {
			return port, nil
		}
	}
	return 0, errors.New("found no free port on 127.0.0.1")
}
