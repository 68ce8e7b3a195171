package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Rewind makes a former primary's data directory one that can follow the server that
// took its place: what the former primary wrote and its successor does not have is
// taken back by pg_rewind. Where that is not possible the directory is replaced by
// a copy, and copied is true. No server may run in Dir.
//
// Meanwhile the directory has another name, so that a start after a crash does not
// take half of a rewound directory for a server. Such a rest is removed by the next
// BaseBackup or Rewind.
func (c Config) Rewind(ctx context.Context, to *Server) (copied bool, err error) {
	if err := c.Validate(); err != nil {
		return false, err
	}
	if c, err = c.withDefaults(); err != nil {
		return false, err
	}
	if err := c.removeParts(); err != nil {
		return false, err
	}
	// pg_rewind believes the control data, which know of the new timeline from the first
	// checkpoint on. A server that does not answer costs the directory nothing.
	if _, err := to.exec(ctx, "CHECKPOINT"); err != nil {
		return false, err
	}
	if err := to.makeSlot(ctx, c.slot()); err != nil {
		return false, err
	}
	if err := c.rewind(ctx, to); err != nil {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		c.Log.Info("no rewind, copying instead", "dir", c.Dir, "err", err)
		if err := os.RemoveAll(c.Dir); err != nil {
			return false, err
		}
		return true, c.BaseBackup(ctx, to)
	}
	return false, nil
}

// rewind runs pg_rewind. After an error Dir is gone, or as it was.
func (c Config) rewind(ctx context.Context, to *Server) error {
	as, err := accountFor(c.RunAs)
	if err != nil {
		return err
	}
	part := c
	part.Dir = filepath.Join(filepath.Dir(c.Dir), "."+filepath.Base(c.Dir)+".init-rewind")
	if err := os.Rename(c.Dir, part.Dir); err != nil {
		return err
	}
	defer os.RemoveAll(part.Dir) // after the rename there is nothing left to remove
	// pg_rewind recovers a server that did not end in good order, which a standby's
	// mark forbids.
	if err := os.Remove(filepath.Join(part.Dir, standbySignal)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// The log would become the other server's.
	log := part.Dir + ".log"
	_ = os.Rename(filepath.Join(part.Dir, logName), log) // there may be none
	defer os.Remove(log)
	way, err := as.entrance(part.Dir)
	if err != nil {
		return err
	}
	defer way.close()
	args := []string{"-D", way.path, "--source-server=" + to.ConnString("postgres")}
	if !c.Fsync {
		args = append(args, "--no-sync")
	}
	if _, err := run(ctx, as, way.inherited(), c.Install.Program("pg_rewind"), args...); err != nil {
		return err
	}
	_ = os.Remove(filepath.Join(part.Dir, logName)) // the other server's
	_ = os.Rename(log, filepath.Join(part.Dir, logName))
	if err := part.markStandby(as); err != nil {
		return err
	}
	if err := os.Rename(part.Dir, c.Dir); err != nil {
		return fmt.Errorf("put %s back: %w", c.Dir, err)
	}
	return nil
}
