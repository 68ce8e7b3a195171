package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"weft/auth"
	"weft/console"
	"weft/directory"
	"weft/heat/ferry"
	"weft/heat/limit"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/pool"
	"weft/proxy/target"
	"weft/schema"
	"weft/span"
	"weft/twopc"
)

// Config is what a Server needs from outside.
type Config struct {
	// Snapshot returns the cluster as it is now. Required.
	Snapshot func() *directory.Snapshot
	// Directory is where declarations are changed. Nil: they cannot be changed.
	Directory Directory
	// Keeps are what the directory keeps beside its snapshots.
	Keeps Keeps
	// Current follows the directory. Nil: the cluster never changes.
	Current Current
	// Proxy is this proxy's id in the directory.
	Proxy string
	// Peers says how this proxy and others reach each other.
	Peers Peers
	// Auth lets clients in. Required.
	Auth *auth.Authenticator
	// ProxyProtocol are the networks of load balancers that may say whose connection they pass
	// on.
	ProxyProtocol []netip.Prefix
	// TLS is offered to clients that ask for it. Nil: weft answers N.
	TLS *tls.Config
	// RequireTLS turns away clients that do not ask for TLS.
	RequireTLS bool
	// ServiceUser is the user as which weft logs in to the shards for its own work. Default
	// "postgres".
	ServiceUser string
	// Pool bounds the connections to the shards.
	Pool pool.Config
	// AdminDatabase is the name under which clients connect to weft's console. Default "weft".
	AdminDatabase string
	// AdminUsers are the users that may use the console. Default: ServiceUser.
	AdminUsers []string
	// MaxClients bounds the client connections. Default 10000.
	MaxClients int
	// MaxClientsPerUser and MaxClientsPerDatabase bound the client connections of one user and
	// of one database. Default 0: MaxClients alone.
	MaxClientsPerUser, MaxClientsPerDatabase int
	// UserClients are the bounds of users that have one of their own, in place of
	// MaxClientsPerUser.
	UserClients map[string]int
	// AuthFailures is how many logins may fail in a minute from one address.
	// Default 0: any number.
	AuthFailures int
	// StartupTimeout bounds the dialogue before the first query. Default 60s.
	StartupTimeout time.Duration
	// ReadyShards is the share of shards that must answer for the proxy to be ready, from 0 to
	// 1. Default 0: shards are not asked.
	ReadyShards float64
	// Drain says how sessions end when the proxy shuts down.
	Drain Drain
	// MaxQueryBytes bounds one message that is kept whole. Default: PostgreSQL's 1 GB.
	MaxQueryBytes int
	// Memory bounds the memory of all clients' messages. Default 0: no bound.
	Memory int64
	// Gather bounds what statements over several shards may do, in sessions that do not set
	// their own bounds.
	Gather Gather
	// FactsBytes bounds the memory of what is known about query texts.
	// Default 32 MiB.
	FactsBytes int64
	// PlanBytes bounds the memory of plans. Default 64 MiB.
	PlanBytes int64
	// Statements says what is counted and logged of statements.
	Statements Statements
	// Heat says which statements are sampled, to find hot keys, buckets and shards.
	Heat Heat
	// Tracer receives the traces of sessions. Nil: sessions are not traced.
	Tracer *span.Tracer
	// Version is the version of weft, for SHOW VERSION. Default "dev".
	Version string
	// Settings are what SHOW CONFIG shows, and Reload is what RELOAD does: it returns what has
	// changed and what needs a restart. Nil: SHOW CONFIG shows nothing, and RELOAD is refused.
	Settings func() []console.Setting
	Reload   func(ctx context.Context) ([]string, error)
	// StopAt, if not nil, is called at the named points of a commit and of its recovery: tests
	// end the process there.
	StopAt func(twopc.Point)
	// Log receives what operators should know. Default: discarded.
	Log *slog.Logger
	// Panics counts the process's panics. Default: only the proxy's panics, logged in Log.
	Panics *Panics
	// Metrics receives the proxy's metrics; nil for none.
	Metrics prometheus.Registerer
}

// Keeps are what the directory keeps beside its snapshots, apart from them. Its parts do not change while the proxy runs.
type Keeps struct {
	// Entries keeps the places of lookup vindexes. Nil: there are no lookup vindexes.
	Entries schema.Entries
	// Throttles keeps throttles. Nil: there are none.
	Throttles directory.Throttles
	// Failovers keeps changes of primaries. Nil: each proxy knows those that it has seen.
	Failovers directory.Failovers
	// Points keeps backup points. Nil: sessions make none.
	Points directory.Points
	// Losses keeps transactions that failovers have harmed. Nil: each proxy knows those that it has found.
	Losses directory.Losses
}

// Statements says what is counted and logged of statements.
type Statements struct {
	// Bytes bounds the memory of the counts by statement. Default 16 MiB.
	Bytes int64
	// Slow is the duration from which on a statement is logged. Default 0: no statement is.
	Slow time.Duration
}

// Heat says which statements are sampled, to find hot keys, buckets and shards.
type Heat struct {
	// Samples is how many statements are sampled per second. Default 0: none.
	Samples int
	// Hashed says that values of keys are not kept, and not shown.
	Hashed bool
	// Plan says what becomes of plans that would relieve saturated shards.
	Plan PlanMode
	// LookEvery is how often such plans are made, and what has become unusual is looked for. Default 15 s.
	LookEvery time.Duration
	// History says that the work of buckets is remembered for a day.
	History bool
	// Throttle says what becomes of automatic throttles.
	Throttle throttle.Auto
	// Rows says what becomes of hot rows. Default: nothing.
	Rows queue.Mode
	// Limit says what becomes of limits of shards that follow what the shards can do. Default: there are none.
	Limit limit.Mode
	// Coalesce says what becomes of reads of a hot key that are the same. Default: nothing.
	Coalesce ferry.Mode
	// Exempt are the users whose statements no throttle concerns.
	Exempt map[string]bool
}

// PlanMode says what becomes of plans that would relieve saturated shards.
type PlanMode uint8

// The modes.
const (
	NoPlan     PlanMode = iota // there are none
	AdvisePlan                 // warnings have their SQL
	AutoPlan                   // weft moves buckets by itself, too
)

// Gather holds the defaults of weft's own session parameters.
type Gather struct {
	// MaxBytes is weft.max_gather_bytes. Default 1 GiB.
	MaxBytes int64
	// Off says that weft.scatter is off.
	Off bool
	// MaxParallelShards is weft.max_parallel_shards. Default 0: all.
	MaxParallelShards int
	// Replicas says which sessions read standbys.
	Replicas Replicas
}

// Replicas holds the defaults of what sessions say of reads on standbys, and what holds for all of them.
type Replicas struct {
	// Target is weft.target.
	Target target.Target
	// Users are the targets of users that have one of their own, in place of Target.
	Users map[string]target.Target
	// There is the target of clients of a listener of ForStandbys, in place of Target and Users.
	There target.Target
	// MaxLag is weft.max_lag. Default 0: any lag.
	MaxLag time.Duration
	// Causal is weft.causal.
	Causal target.Causal
	// CausalWait is weft.causal_wait. Default 0: sessions do not wait.
	CausalWait time.Duration
	// MaxLagBytes is how many bytes a standby may be behind. Default 0: any number.
	MaxLagBytes uint64
	// Refuse: sessions with the target any do not read primaries.
	Refuse bool
	// Zone is where this proxy is. Standbys there come first. Default: nowhere.
	Zone string
}

// options are what the session of a client begins with.
func (g Gather) options(l *login) options {
	r := &g.Replicas
	first, own := r.Users[l.user]
	switch {
	case l.there:
		first = r.There
	case !own:
		first = r.Target
	}
	return options{
		away:           wish{target: first, maxLag: r.MaxLag, causal: r.Causal, wait: r.CausalWait},
		maxGatherBytes: g.MaxBytes, scatter: !g.Off, maxParallelShards: g.MaxParallelShards, inlineBytes: inlineBytes, native: true, read: readShard, coalesce: true,
	}
}

// Directory is the part of the directory's store that a proxy uses.
type Directory interface {
	Load(ctx context.Context) (*directory.Snapshot, error)
	Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error)
	Acknowledged(ctx context.Context, version int64) error
	Cleared(ctx context.Context, version int64) error
	Proxies(ctx context.Context) ([]directory.Proxy, error)
	Live(ctx context.Context) (directory.Live, error)
}

// Current is the part of a directory.Current that a proxy uses.
type Current interface {
	// Reach waits until the snapshot has the given version or a newer one.
	Reach(ctx context.Context, version int64) (*directory.Snapshot, error)
	// Changed returns a channel that is closed when the snapshot changes.
	Changed() <-chan struct{}
	// Clear says that nothing is in flight that rounds of a version must wait for.
	Clear(version int64)
	// Epoch returns the epoch under which this process serves, 0 as long as it has none. The
	// snapshot is at least as new as the epoch.
	Epoch() int64
	// Renewed waits until this process serves under another epoch than the one given, and reports
	// whether it does.
	Renewed(ctx context.Context, epoch int64) bool
}

func (c Config) withDefaults() Config {
	if c.AdminDatabase == "" {
		c.AdminDatabase = "weft"
	}
	if c.ServiceUser == "" {
		c.ServiceUser = "postgres"
	}
	if c.MaxClients == 0 {
		c.MaxClients = 10000
	}
	if c.StartupTimeout == 0 {
		c.StartupTimeout = time.Minute
	}
	if c.Drain.Timeout == 0 {
		c.Drain.Timeout = 30 * time.Second
	}
	if c.Gather.MaxBytes == 0 {
		c.Gather.MaxBytes = 1 << 30
	}
	if c.FactsBytes == 0 {
		c.FactsBytes = 32 << 20
	}
	if c.PlanBytes == 0 {
		c.PlanBytes = 64 << 20
	}
	if c.Statements.Bytes == 0 {
		c.Statements.Bytes = 16 << 20
	}
	if c.Version == "" {
		c.Version = "dev"
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Panics == nil {
		c.Panics = NewPanics(c.Log)
	}
	c.Pool.Log, c.Pool.Guard = c.Log, c.Panics.Guarded
	return c
}

// Validate reports settings that are missing, contradict each other or are out of range.
func (c Config) Validate() error {
	var errs []error
	if c.Snapshot == nil {
		errs = append(errs, errors.New("proxy: Snapshot is required"))
	}
	if c.Auth == nil {
		errs = append(errs, errors.New("proxy: Auth is required"))
	}
	if c.RequireTLS && c.TLS == nil {
		errs = append(errs, errors.New("proxy: TLS is required of clients but no certificate is configured"))
	}
	if c.Gather.MaxBytes < 0 || c.Gather.MaxParallelShards < 0 {
		errs = append(errs, errors.New("proxy: bounds of a gather must not be negative"))
	}
	if c.Heat.Samples < 0 {
		errs = append(errs, errors.New("proxy: samples per second must not be negative"))
	}
	if c.MaxClients < 0 || c.MaxClientsPerUser < 0 || c.MaxClientsPerDatabase < 0 || c.AuthFailures < 0 || c.StartupTimeout < 0 || c.Drain.Timeout < 0 || c.MaxQueryBytes < 0 {
		errs = append(errs, errors.New("proxy: limits must not be negative"))
	}
	return errors.Join(append(errs, c.Pool.Validate())...)
}

// clientsOf returns how many clients may be connected as a user, 0 for any number, and whether
// that is the user's own bound.
func (c *Config) clientsOf(user string) (limit int, own bool) {
	if n := c.UserClients[user]; n > 0 {
		return n, true
	}
	return c.MaxClientsPerUser, false
}
