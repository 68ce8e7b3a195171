package pool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"weft/primary"
)

// How long a client keeps a backend.
const (
	// ModeTransaction lends a backend for one transaction.
	ModeTransaction = "transaction"
	// ModeSession lends a backend until the client disconnects.
	ModeSession = "session"
)

// Config bounds the connections to the shards.
type Config struct {
	// Mode is ModeTransaction (default) or ModeSession.
	Mode string
	// MaxPerShard bounds the connections to one shard over all users and
	// databases. Default 80: it fits under PostgreSQL's max_connections of 100.
	MaxPerShard int
	// MaxPerStandby bounds the connections to one standby. Default 0: MaxPerShard does.
	MaxPerStandby int
	// MaxPerUser bounds the connections of one user to one shard. Default 0: only MaxPerShard
	// bounds them.
	MaxPerUser int
	// MaxDials bounds the connections to one server that are opened at a time, except for few sessions that hold others. Default 16: after a failover all sessions want
	// new ones at once, and a server forks a process for each.
	MaxDials int
	// MaxPrepared bounds the prepared statements kept on one backend. Default 500.
	MaxPrepared int
	// QueueTimeout bounds the wait for a free connection. Default 30s.
	QueueTimeout time.Duration
	// OverloadWait bounds the wait while the shard is overloaded, see strain. Default 0: QueueTimeout
	// alone bounds it.
	OverloadWait time.Duration
	// IdleTimeout closes connections unused for this long. Default 10m.
	IdleTimeout time.Duration
	// MaxLifetime closes connections older than this when they are given
	// back. Default 1h.
	MaxLifetime time.Duration
	// ConnectTimeout bounds dialling a shard. Default 5s.
	ConnectTimeout time.Duration
	// TCPTimeout is how long data may stay unacknowledged before a connection counts as lost: its server's host is gone. Default
	// 10s. Only Linux can be told; other systems only send keepalives.
	TCPTimeout time.Duration
	// HealthInterval is how often idle connections are looked at. Default 1s.
	HealthInterval time.Duration
	// Failover bounds how long sessions wait while a shard has no primary.
	Failover Failover
	// Users holds what differs for single users.
	Users map[string]User
	// Verify judges the identity that a new backend reports, before the backend is used. Many
	// goroutines may call Verify at once. Nil: every backend is accepted.
	Verify func(Login) error
	// Ask runs a query on a database of a shard as weft itself, to end backends that go on after
	// their connection was closed: see Pool.Ghosts. Nil: such backends are left alone.
	Ask func(ctx context.Context, shard, database, sql string) ([][]string, error)
	// Registrar makes each new backend register with its database, except those of Spares. Nil:
	// none registers.
	Registrar Registrar
	// Seeker knows more about the servers of shards. Nil: a login that fails is an error at once.
	Seeker Seeker
	// Guard wraps the function of a goroutine of the pool, so that a panic ends only that
	// goroutine. Nil: panics are not caught.
	Guard func(where string, f func()) func()
	// Loops is how many loops the sessions that use the pool run in. Adopt makes one of them watch a new connection. 0 and nil: none.
	Loops int
	Adopt func(net.Conn) net.Conn
	// Log receives what operators should know. Default: discarded.
	Log *slog.Logger
}

// Failover bounds how long sessions wait while a shard has no primary.
type Failover struct {
	// Wait is for sessions that hold no connection. Default 0: they do not wait.
	Wait time.Duration
	// InTransaction is for sessions that hold connections to other shards, and perhaps locks there, if it is less than Wait.
	InTransaction time.Duration
	// Probes is how often servers are probed. The pool leaves that to Seeker.
	Probes primary.Timing
	// LagWarning is how far behind a standby may be before the log says so. The pool leaves that to Seeker. 0: the log does not.
	LagWarning time.Duration
}

// Seeker finds out which servers the primaries of shards are. Many goroutines may call it at once.
type Seeker interface {
	// Suspect has the servers of a shard looked at, because a login has failed, and returns when that was done: the shard has then been
	// told by Seek and Lead.
	Suspect(ctx context.Context, shard string)
	// Describe says what each server of a shard has answered.
	Describe(shard string) string
}

// User overrides the configuration for one user.
type User struct {
	Mode           string // empty: as Config.Mode
	MaxConnections int    // 0: as Config.MaxPerUser
	ServerUser     string // role to log in as on the shards; empty: the same name
	ServerPassword string
	// Priority is how urgent the user's statements may be at most, while others wait too.
	Priority Priority
	// Role is the role that ServerUser becomes with SET ROLE. A connection is refused if
	// ServerUser can do anything that Role cannot. Empty: no SET ROLE.
	Role string
}

// WithDefaults returns c with every zero field set to its default.
func (c Config) WithDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	if c.Mode == "" {
		c.Mode = ModeTransaction
	}
	if c.MaxPerShard == 0 {
		c.MaxPerShard = 80
	}
	if c.MaxDials == 0 {
		c.MaxDials = 16
	}
	if c.MaxPrepared == 0 {
		c.MaxPrepared = 500
	}
	def(&c.QueueTimeout, 30*time.Second)
	def(&c.IdleTimeout, 10*time.Minute)
	def(&c.MaxLifetime, time.Hour)
	def(&c.ConnectTimeout, 5*time.Second)
	def(&c.TCPTimeout, 10*time.Second)
	def(&c.HealthInterval, time.Second)
	if c.Guard == nil {
		c.Guard = func(_ string, f func()) func() { return f }
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Validate reports every field with an impossible value.
func (c Config) Validate() error {
	var errs []error
	mode := func(where, m string) {
		if m != "" && m != ModeTransaction && m != ModeSession {
			errs = append(errs, fmt.Errorf("%s: unknown pool mode %q: use %q or %q", where, m, ModeTransaction, ModeSession))
		}
	}
	mode("pool", c.Mode)
	for name, u := range c.Users {
		mode(fmt.Sprintf("user %q", name), u.Mode)
		if u.MaxConnections < 0 {
			errs = append(errs, fmt.Errorf("user %q: max_connections must not be negative", name))
		}
	}
	for _, f := range []struct {
		name string
		n    int
	}{{"max_per_shard", c.MaxPerShard}, {"max_per_standby", c.MaxPerStandby}, {"max_per_user", c.MaxPerUser}, {"max_dials", c.MaxDials}, {"max_prepared", c.MaxPrepared}} {
		if f.n < 0 {
			errs = append(errs, fmt.Errorf("pool: %s must not be negative", f.name))
		}
	}
	return errors.Join(errs...)
}

// UserMode returns the pool mode of a user.
func (c Config) UserMode(user string) string {
	if u := c.Users[user]; u.Mode != "" {
		return u.Mode
	}
	return c.Mode
}

// UserLimit returns how many connections a user may have to a shard, 0 for as many as
// the shard allows.
func (c *Config) UserLimit(user string) int {
	if u := c.Users[user]; u.MaxConnections > 0 {
		return u.MaxConnections
	}
	return c.MaxPerUser
}

// loginName returns the role that a user logs in to the shards as.
func (c *Config) loginName(user string) string {
	if u := c.Users[user].ServerUser; u != "" {
		return u
	}
	return user
}
