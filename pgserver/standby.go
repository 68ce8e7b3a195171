package pgserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/quote"
)

// standbySignal is the file that makes postgres start as a standby. A promotion
// removes the file.
const standbySignal = "standby.signal"

// replicationSettings are what servers need that replace each other.
var replicationSettings = map[string]string{
	"wal_log_hints":                "on",    // pg_rewind needs every changed page in the log
	"hot_standby":                  "on",    // standbys say how far they are
	"wal_keep_size":                "128MB", // for standbys whose slot on a new primary is not there yet
	"max_slot_wal_keep_size":       "2GB",   // a dead standby must not fill the disk
	"wal_sender_timeout":           "10s",
	"wal_receiver_timeout":         "10s",
	"wal_receiver_status_interval": "1s",
	"wal_retrieve_retry_interval":  "200ms", // standbys find a primary that is back soon
}

// ReplicationSettings returns what Settings of a primary and of its standbys have
// to hold, so that each can take the other's place.
func ReplicationSettings() map[string]string { return maps.Clone(replicationSettings) }

// Standby starts a standby of a running primary in Dir. A Dir that does not exist is
// copied from the primary first.
func (c Config) Standby(ctx context.Context, primary *Server) (*Server, error) {
	c, err := c.withDefaults()
	if err != nil {
		return nil, err
	}
	c.Follow = primary.Port()
	if !c.Exists() {
		if err := c.BaseBackup(ctx, primary); err != nil {
			return nil, err
		}
	} else if err := primary.makeSlot(ctx, c.slot()); err != nil {
		return nil, err
	}
	return c.Start(ctx)
}

// BaseBackup makes Dir a copy of a running server, from which Start makes a standby.
// Like Init, BaseBackup makes all of the directory or nothing.
func (c Config) BaseBackup(ctx context.Context, from *Server) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	as, err := accountFor(c.RunAs)
	if err != nil {
		return err
	}
	if err := vacant(c.Dir); err != nil {
		return err
	}
	if err := c.removeParts(); err != nil {
		return err
	}
	if err := from.makeSlot(ctx, c.slot()); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(c.Dir), "."+filepath.Base(c.Dir)+".init-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // after the rename there is nothing left to remove
	if err := as.own(tmp); err != nil {
		return err
	}
	way, err := as.entrance(tmp)
	if err != nil {
		return err
	}
	defer way.close()
	began := time.Now()
	args := []string{
		"-D", way.path, "-h", "127.0.0.1", "-p", strconv.Itoa(from.Port()), "-U", from.cfg.User, "-w",
		"-X", "stream", "-c", "fast", "-S", c.slot(),
	}
	if !c.Fsync {
		args = append(args, "--no-sync")
	}
	if _, err := run(ctx, as, way.inherited(), c.Install.Program("pg_basebackup"), args...); err != nil {
		return err
	}
	// The log is the other server's.
	for _, log := range []string{logName, logName + ".old"} {
		if err := os.Remove(filepath.Join(tmp, log)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	// Before the directory has its name: a copy is never taken for a primary.
	part := c
	part.Dir = tmp
	if err := part.markStandby(as); err != nil {
		return err
	}
	if err := os.Rename(tmp, c.Dir); err != nil {
		return err
	}
	c.Log.Debug("copied a server", "dir", c.Dir, "from", from.Addr(), "took", time.Since(began))
	return nil
}

// removeParts removes what a copy, an initdb or a rewind that was killed has left.
func (c Config) removeParts() error {
	parent, base := filepath.Split(c.Dir)
	parts, _ := filepath.Glob(filepath.Join(parent, "."+base+".init-*")) // errs only on a bad pattern
	for _, dir := range parts {
		if err := os.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove what an earlier start left: %w", err)
		}
	}
	return nil
}

// markStandby makes the data directory start as a standby.
func (c Config) markStandby(as account) error {
	path := filepath.Join(c.Dir, standbySignal)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return err
	}
	return as.own(path)
}

// IsStandby reports whether a server that starts in Dir is a standby.
func (c Config) IsStandby() bool {
	_, err := os.Stat(filepath.Join(c.Dir, standbySignal))
	return err == nil
}

// conninfo is how a standby connects to its primary.
func (c Config) conninfo() string {
	return fmt.Sprintf("host=127.0.0.1 port=%d user=%s application_name=%s sslmode=disable connect_timeout=5",
		c.Follow, connValue(c.User), connValue(c.Name))
}

// slot is the name of the standby's replication slot.
func (c Config) slot() string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, strings.ToLower(c.Name))
}

// makeSlot makes a physical replication slot unless there is one.
func (s *Server) makeSlot(ctx context.Context, name string) error {
	_, err := s.exec(ctx, "SELECT pg_create_physical_replication_slot("+quote.Literal(name)+", true) "+
		"WHERE NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = "+quote.Literal(name)+")")
	if err != nil {
		return fmt.Errorf("make slot %s on %s: %w", name, s.Addr(), err)
	}
	return nil
}

// DropSlots drops all replication slots that are not in use, but for those of the
// named servers. A server that has become a standby keeps slots from its time as a
// primary, and each of them would keep WAL for ever.
func (s *Server) DropSlots(ctx context.Context, keep ...Config) error {
	names := []string{}
	for _, c := range keep {
		c, err := c.withDefaults()
		if err != nil {
			return err
		}
		names = append(names, c.slot())
	}
	_, err := s.exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE NOT active AND slot_name <> ALL ("+
		quote.Array(names)+")")
	if err != nil {
		return fmt.Errorf("drop slots on %s: %w", s.Addr(), err)
	}
	return nil
}

// Follow makes a running standby follow another primary.
func (s *Server) Follow(ctx context.Context, primary *Server) error {
	if err := primary.makeSlot(ctx, s.Config().slot()); err != nil {
		return err
	}
	return s.change(func(c *Config) { c.Follow = primary.Port() })
}

// SetSynchronous makes every commit on a running primary wait until all of the named
// standbys have it on disk. Without names commits wait for none. Servers promoted later
// have a list of their own.
func (s *Server) SetSynchronous(names ...string) error {
	return s.change(func(c *Config) { c.Settings["synchronous_standby_names"] = SynchronousNames(names) })
}

// SynchronousNames is the value of synchronous_standby_names that waits for all of the
// named standbys.
func SynchronousNames(names []string) string {
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = quote.Ident(n)
	}
	slices.Sort(quoted)
	return fmt.Sprintf("FIRST %d (%s)", len(quoted), strings.Join(quoted, ", "))
}

// change changes settings of a running server, which takes notice a moment later.
func (s *Server) change(what func(*Config)) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.cfg
	next.Settings = maps.Clone(s.cfg.Settings)
	if next.Settings == nil {
		next.Settings = map[string]string{}
	}
	what(&next)
	as, err := accountFor(next.RunAs)
	if err != nil {
		return err
	}
	if err := next.writeConf(as); err != nil {
		return fmt.Errorf("write %s: %w", confName, err)
	}
	s.cfg.Settings, s.cfg.Follow = next.Settings, next.Follow
	return s.signal(syscall.SIGHUP)
}

// promoteLimit bounds the wait for a promotion, which replays what is left of the log.
const promoteLimit = time.Minute

// promoteLook is how often Promote asks whether the promotion is done.
const promoteLook = 10 * time.Millisecond

// Promote makes a running standby the primary of a new timeline, and returns when it
// takes writes. The caller has made sure that the old primary takes none.
//
// Promote asks again and again, where pg_promote could wait: a statement that waits
// keeps a snapshot, and what is left of the log may have a vacuum that the snapshot
// holds up. The promotion would wait for its own statement.
func (s *Server) Promote(ctx context.Context) error {
	if err := s.promote(ctx); err != nil {
		return fmt.Errorf("promote %s: %w", s.Addr(), err)
	}
	s.mu.Lock()
	s.cfg.Follow = 0
	s.mu.Unlock()
	return nil
}

// promote asks for a promotion and waits until it is done.
func (s *Server) promote(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, promoteLimit, fmt.Errorf("not done after %v", promoteLimit))
	defer cancel()
	conn, err := pgconn.Connect(ctx, s.ConnString("postgres"))
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if _, err := firstColumn(ctx, conn, "SELECT pg_promote(false)"); err != nil {
		return err
	}
	for {
		rows, err := firstColumn(ctx, conn, "SELECT pg_is_in_recovery()")
		if err != nil {
			return errors.Join(err, context.Cause(ctx))
		}
		if len(rows) == 1 && rows[0] == "f" {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(promoteLook):
		}
	}
}

// Received is how far a running standby has the primary's log on disk, as a number of
// bytes.
func (s *Server) Received(ctx context.Context) (int64, error) {
	rows, err := s.exec(ctx, "SELECT pg_wal_lsn_diff(greatest(pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0')::bigint")
	if err != nil {
		return 0, err
	}
	if len(rows) != 1 || rows[0] == "" {
		return 0, fmt.Errorf("%s is no standby", s.Addr())
	}
	return strconv.ParseInt(rows[0], 10, 64)
}

// exec runs a statement as the superuser and returns the first column.
func (s *Server) exec(ctx context.Context, sql string) ([]string, error) {
	conn, err := pgconn.Connect(ctx, s.ConnString("postgres"))
	if err != nil {
		return nil, err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return firstColumn(ctx, conn, sql)
}

// firstColumn is the first column of what a statement answers.
func firstColumn(ctx context.Context, conn *pgconn.PgConn, sql string) ([]string, error) {
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil || len(results) == 0 {
		return nil, err
	}
	var out []string
	for _, r := range results[len(results)-1].Rows {
		out = append(out, string(r[0]))
	}
	return out, nil
}
