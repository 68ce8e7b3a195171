package pgserver

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weft/quote"
)

// Config describes one server. Install, Dir and Port are required.
type Config struct {
	Install Install

	// Dir is the data directory. Init makes it; its parent must exist.
	Dir string

	// Port on 127.0.0.1. The server listens nowhere else.
	Port int

	// Locale is given to initdb as it is. Empty means: C for sorting, and for
	// the classes of characters C.UTF-8 where the system has it, so that texts
	// sort alike on every machine and lower('Ä') still works.
	Locale string

	// User is the superuser, trusted on loopback. Default postgres.
	User string

	// RunAs is the system user the server runs as when the caller is root.
	// Default postgres if there is one, else nobody. Ignored for others.
	RunAs string

	// Settings are added to, and win over, DefaultSettings. ALTER SYSTEM wins
	// over both.
	Settings map[string]string

	// Name is how a primary knows this server as a standby: the application_name of
	// its replication, which synchronous_standby_names names, and, with every other
	// character than a letter or a digit as _, its replication slot. Default: the
	// last part of Dir.
	Name string

	// Follow is the port of the primary on 127.0.0.1 whose standby the server is.
	// Zero: the server is what its data directory says.
	Follow int

	// Fsync makes commits survive a crash of the machine. Off, they survive
	// only crashes of processes, which is enough for tests: so nothing else is
	// relaxed with it. synchronous_commit = off would lose commits at a kill -9,
	// and without full page writes one could tear a page.
	Fsync bool

	// StartTimeout bounds the wait for the first connection. A server that has
	// to recover from a crash first may need a while. Default one minute.
	StartTimeout time.Duration

	// Log gets the few events that matter. Default: none.
	Log *slog.Logger
}

// DefaultSettings returns what a shard needs: prepared transactions for
// two-phase commit, logical WAL for moving buckets, and memory so modest that
// four servers fit on a laptop.
func DefaultSettings() map[string]string {
	return map[string]string{
		"max_connections":             "200",
		"max_prepared_transactions":   "200", // every connection may hold one
		"wal_level":                   "logical",
		"max_wal_senders":             "20",
		"max_replication_slots":       "20",
		"max_worker_processes":        "24",
		"shared_buffers":              "32MB",
		"max_wal_size":                "512MB",
		"log_min_messages":            "warning",
		"log_checkpoints":             "off",
		"log_line_prefix":             "%m [%p] %q%u@%d ",
		"log_autovacuum_min_duration": "-1",
	}
}

// Validate says what is missing or wrong.
func (c Config) Validate() error {
	switch {
	case c.Install.Bin == "":
		return errors.New("pgserver: no installation given")
	case c.Dir == "":
		return errors.New("pgserver: no data directory given")
	case c.Port < 1 || c.Port > 65535:
		return fmt.Errorf("pgserver: port %d is not between 1 and 65535", c.Port)
	case strings.ContainsAny(c.Dir, "\n\x00"):
		return errors.New("pgserver: data directory with a line break in its name")
	}
	return nil
}

// withDefaults returns the config with every default filled in.
func (c Config) withDefaults() (Config, error) {
	dir, err := filepath.Abs(c.Dir)
	if err != nil {
		return c, err
	}
	c.Dir = dir
	if c.User == "" {
		c.User = "postgres"
	}
	if c.Name == "" {
		c.Name = filepath.Base(c.Dir)
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = time.Minute
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// confName is the file in the data directory that holds our settings;
// postgresql.conf includes it.
const confName = "weft.conf"

// conf renders the settings as a configuration file.
func (c Config) conf() string {
	all := DefaultSettings()
	all["fsync"] = onOff(c.Fsync)
	if !c.Fsync {
		// A server that is killed and never started again leaves its shared memory behind. In the data directory it goes with the data.
		all["dynamic_shared_memory_type"] = "mmap"
	}
	maps.Copy(all, c.Settings)
	if c.Follow != 0 {
		all["primary_conninfo"] = c.conninfo()
		all["primary_slot_name"] = c.slot()
	}
	var b strings.Builder
	b.WriteString("# Written at every start; use ALTER SYSTEM for settings of your own.\n")
	for _, name := range slices.Sorted(maps.Keys(all)) {
		fmt.Fprintf(&b, "%s = '%s'\n", name, quote.Double(all[name]))
	}
	return b.String()
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}
