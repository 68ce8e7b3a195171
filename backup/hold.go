package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	"weft/directory"
)

// Held is the locks of a cluster whose disks are copied: commits over several shards wait until they are released. The locks live in
// connections, and end with the process.
type Held struct {
	// Manifest says where each shard was when the locks were got, and what the directory is. Its Kind is Snapshot.
	Manifest *Manifest

	m *Maker
	h *holding
}

// Hold keeps commits over several shards from being decided, until Release.
func (m *Maker) Hold(ctx context.Context, name string) (*Held, error) {
	if !pointName.MatchString(name) {
		return nil, fmt.Errorf("%q: %w", name, ErrName)
	}
	var out *Held
	err := m.retry(ctx, func() error {
		before, err := m.Cluster.Load(ctx)
		if err != nil {
			return err
		}
		if why := unsettled(before); why != "" {
			return &BusyError{Why: why}
		}
		h, err := m.hold(ctx, before)
		if err != nil {
			h.release()
			return err
		}
		out = &Held{m: m, h: h, Manifest: &Manifest{Format: Format, Kind: Snapshot, Name: name, Cluster: before.Cluster, Home: before.Home, Marks: make([]Mark, len(before.Shards))}}
		if err := out.where(before); err != nil {
			h.release()
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// whereQuery says where a server is, in the columns of markQuery.
const whereQuery = "SELECT l::text, pg_catalog.pg_walfile_name(l), (SELECT system_identifier::text FROM pg_catalog.pg_control_system()), " +
	"pg_catalog.current_setting('server_version'), pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', pg_catalog.current_setting('archive_mode') " +
	"FROM pg_catalog.pg_current_wal_insert_lsn() l"

// where notes where all shards are.
func (d *Held) where(snap *directory.Snapshot) error {
	for i := range snap.Shards {
		if err := d.h.ask(whereQuery, snap.Shards[i].Name, &d.Manifest.Marks[i]); err != nil {
			return err
		}
	}
	if err := current(snap, d.Manifest); err != nil {
		return err
	}
	text, err := snap.EncodeCopy()
	if err != nil {
		return err
	}
	d.Manifest.Directory, d.Manifest.Number = text, snap.Number()
	d.Manifest.seal()
	return nil
}

// lookInterval is how often Wait asks whether the locks are held.
const lookInterval = time.Second

// Wait waits until a time has passed or ctx ends, and returns an error as soon as a lock or a connection is lost.
func (d *Held) Wait(ctx context.Context, lasts time.Duration) error {
	limit, stop := context.WithTimeout(ctx, lasts)
	defer stop()
	for {
		select {
		case <-limit.Done():
			return nil
		case <-time.After(lookInterval):
		}
		for i, c := range d.h.conns {
			if _, err := c.Exec("SELECT 1"); err != nil {
				return fmt.Errorf("the lock on %s, database %s was lost: copies that were made are of no use: %w", d.h.places[i].shard, d.h.places[i].database, err)
			}
		}
	}
}

// Release gives the locks back. It returns an error if they were not held to the end, or if the directory has changed meanwhile: copies that were
// made are of no use then.
func (d *Held) Release(ctx context.Context) error {
	defer d.h.release()
	for i, c := range d.h.conns {
		if _, err := c.Exec("SELECT 1"); err != nil {
			return d.h.places[i].failed(err)
		}
	}
	if err := d.h.still(); err != nil {
		return err
	}
	after, err := d.m.Cluster.Load(ctx)
	if err != nil {
		return err
	}
	text, err := after.EncodeCopy()
	if why := unsettled(after); why != "" {
		err = errors.Join(err, errors.New(why))
	}
	if err == nil && text != d.Manifest.Directory {
		err = errors.New("declarations or the placement of rows have changed meanwhile")
	}
	if err != nil {
		return fmt.Errorf("copies that were made are of no use: %w", err)
	}
	return nil
}
