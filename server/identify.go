package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/config"
	"weft/directory"
	"weft/identity"
	"weft/pgerr"
	"weft/pool"
	"weft/primary"
)

// Host is one server of a shard, and what it says of itself.
type Host struct {
	Shard, Address string
	// Standby: it is in recovery, and takes no writes.
	Standby bool
	// Timeline grows with every promotion. Ping finds it out.
	Timeline int
	// Seen is what a proxy would see of it. Ping finds it out.
	Seen primary.Sighting
	// Prepared is max_prepared_transactions, -1 if it is not known. Ping finds it out.
	Prepared int
	// Halted: an operator has paused the replay of a standby. Ping finds it out.
	Halted bool
	// SyncNames is synchronous_standby_names of a primary, and Hasty are the defaults by which commits do not wait for its standby. Ping finds
	// them out.
	SyncNames string
	Hasty     []string
	System    string
	Databases []Database
	// Connections is how many it takes from those who are no superusers.
	Connections int
	// Err is why it could not be asked.
	Err error
}

// Database is one that accepts connections, and whose it is.
type Database struct {
	Name  string
	Found identity.Found
}

// Servers asks the servers of shards who they are, as the service user.
type Servers struct {
	cfg  config.Config
	pool *pool.Pool
}

// NewServers returns what asks with cfg's service user.
func NewServers(cfg config.Config) (*Servers, error) {
	p, err := pool.New(withService(poolConfig(cfg.Pool, cfg.Auth.Users, slog.New(slog.DiscardHandler)), cfg.Service))
	if err != nil {
		return nil, err
	}
	return &Servers{cfg: cfg, pool: p}, nil
}

// Ask asks all hosts of the shards at once, for at most timeout: some may be dead.
func (s *Servers) Ask(ctx context.Context, shards []directory.Shard, timeout time.Duration) []Host {
	return s.each(ctx, shards, timeout, s.ask)
}

// each asks every host something, each in its own goroutine.
func (s *Servers) each(ctx context.Context, shards []directory.Shard, timeout time.Duration, ask func(context.Context, *directory.Shard, *Host) error) []Host {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	var out []Host
	for i := range shards {
		for _, h := range shards[i].Hosts {
			out = append(out, Host{Shard: shards[i].Name, Address: h})
		}
	}
	var wg sync.WaitGroup
	for i := range out {
		h := &out[i]
		at := slices.IndexFunc(shards, func(sh directory.Shard) bool { return sh.Name == h.Shard })
		wg.Go(func() {
			defer pgerr.Recovered(&h.Err)
			h.Err = ask(ctx, &shards[at], h)
		})
	}
	wg.Wait()
	return out
}

// maintenance are the databases that every server has, unless somebody took them away.
var maintenance = []string{"postgres", "template1"}

// dialAny logs in to a database that every server has.
func (s *Servers) dialAny(ctx context.Context, shard *directory.Shard, h *Host) (c *pool.Conn, err error) {
	for _, db := range maintenance {
		c, err = s.Dial(ctx, shard, h.Address, db)
		if err == nil || pgerr.From(err).Code != pgerr.InvalidCatalogName {
			break
		}
	}
	return c, err
}

// list returns the databases of a host.
func (s *Servers) list(ctx context.Context, shard *directory.Shard, h *Host) ([]string, error) {
	c, err := s.dialAny(ctx, shard, h)
	if err != nil {
		return nil, err
	}
	rows, err := exec(ctx, c, "SELECT pg_catalog.pg_is_in_recovery(), d.datname FROM (SELECT) one LEFT JOIN pg_catalog.pg_database d "+
		"ON d.datallowconn AND NOT d.datistemplate AND pg_catalog.has_database_privilege(d.datname, 'CONNECT') ORDER BY 2")
	c.Terminate()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, r := range rows {
		h.Standby = r[0] == "t"
		if r[1] != "" {
			names = append(names, r[1])
		}
	}
	return names, nil
}

func (s *Servers) ask(ctx context.Context, shard *directory.Shard, h *Host) error {
	names, err := s.list(ctx, shard, h)
	if err != nil {
		return err
	}
	for _, name := range names {
		found, err := s.identify(ctx, shard, h.Address, name)
		if err != nil {
			return fmt.Errorf("database %s: %w", name, err)
		}
		h.System, h.Connections = found.System, found.Connections
		h.Databases = append(h.Databases, Database{name, found})
	}
	return nil
}

func (s *Servers) identify(ctx context.Context, shard *directory.Shard, address, database string) (identity.Found, error) {
	c, err := s.Dial(ctx, shard, address, database)
	if err != nil {
		return identity.Found{}, err
	}
	defer c.Terminate()
	rows, err := exec(ctx, c, identity.Query)
	if err != nil {
		return identity.Found{}, err
	}
	return identity.Read(rows)
}

// Dial logs in to a database of one host of a shard as the service user.
func (s *Servers) Dial(ctx context.Context, shard *directory.Shard, address, database string) (*pool.Conn, error) {
	one := *shard
	one.Hosts = []string{address}
	one.Name = shard.Name + "@" + address // hosts of one shard are kept apart
	lane := s.pool.Shard(&one).OpenLane(pool.Key{Database: database, User: s.cfg.Service.User})
	defer lane.CloseLane()
	c, err := lane.Dedicated(ctx)
	if e := (*pgerr.Error)(nil); errors.As(err, &e) {
		named := *e
		named.Message = strings.ReplaceAll(e.Message, one.Name, shard.Name)
		err = &named
	}
	return c, err
}

// exec runs a statement until ctx ends.
func exec(ctx context.Context, c *pool.Conn, sql string) ([][]string, error) {
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec("SET statement_timeout = 0; SET search_path = pg_catalog; " + sql)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return nil, cause
	}
	return rows, err
}

// Judge compares what hosts say with the cluster that they are to be, and returns what is
// wrong, one error for each host. Whoever adopts a shard's server does not ask whose it was.
// System is entered in the shards of snap that have none.
func Judge(snap *directory.Snapshot, hosts []Host, adopted []string) []error {
	var errs []error
	for i := range snap.Shards {
		sh := &snap.Shards[i]
		adopt := slices.Contains(adopted, sh.Name) || slices.Contains(adopted, "all")
		if adopt {
			sh.Adopt("")
		}
		first := sh.System
		for _, h := range hosts {
			if h.Shard != sh.Name || h.Err != nil || h.System == "" {
				continue
			}
			if first == "" {
				first = h.System
			}
			want := identity.Expected{Cluster: snap.Cluster, Shard: sh.Name, System: first}
			if err := h.judge(want, snap, adopt); err != nil {
				errs = append(errs, fmt.Errorf("%s at %s: %w", sh.Name, h.Address, err))
			}
		}
		if len(errs) == 0 && first != "" {
			sh.System = first
		}
	}
	return errs
}

// judge looks at all databases of a server: one of another cluster's is none of ours as long as
// the server has some of ours, too.
func (h *Host) judge(want identity.Expected, snap *directory.Snapshot, adopt bool) error {
	if adopt {
		return nil
	}
	var foreign error
	ours := false
	for _, d := range h.Databases {
		err := want.Check(d.Found, d.Name)
		switch {
		case err == nil:
			ours = ours || d.Found.Stamped
		case d.Found.Stamped && d.Found.Stamp.Cluster != want.Cluster && len(snap.Declared(d.Name)) == 0:
			foreign = err
		default:
			return err
		}
	}
	if ours {
		return nil
	}
	return foreign
}

// Adopt makes the databases of the adopted shards say that they belong to snap's cluster,
// where they said otherwise, and tells w.
func (s *Servers) Adopt(ctx context.Context, snap *directory.Snapshot, hosts []Host, adopted []string, w io.Writer) error {
	for _, h := range hosts {
		sh, ok := snap.Shard(h.Shard)
		if !ok || h.Standby || !slices.Contains(adopted, h.Shard) && !slices.Contains(adopted, "all") {
			continue
		}
		if h.Err != nil {
			return fmt.Errorf("%s at %s cannot be adopted: %w", h.Shard, h.Address, h.Err)
		}
		for _, d := range h.Databases {
			next := identity.Expected{Cluster: snap.Cluster, Shard: h.Shard}.Stamp(d.Found)
			if !d.Found.Stamped || d.Found.Stamp == next {
				continue
			}
			c, err := s.Dial(ctx, sh, h.Address, d.Name)
			if err == nil {
				_, err = exec(ctx, c, next.Write())
				c.Terminate()
			}
			if err != nil {
				return fmt.Errorf("%s at %s, database %s: %w", h.Shard, h.Address, d.Name, err)
			}
			fmt.Fprintf(w, "~ database %s of %s belonged to %s\n", d.Name, h.Shard, strings.TrimPrefix(d.Found.Stamp.String(), "weft: "))
		}
	}
	return nil
}
