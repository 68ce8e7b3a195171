package config

import (
	"runtime"
	"strconv"
	"time"

	"weft/auth"
)

// Config is weft.yaml. Shards are not in it: they are in the directory, where
// every proxy sees the same ones.
type Config struct {
	// Cluster is the name under which the directory keeps the cluster.
	Cluster string `yaml:"cluster"`
	// Etcd says where the directory is.
	Etcd Etcd `yaml:"etcd"`
	// Listen is the address for PostgreSQL clients.
	Listen string `yaml:"listen"`
	// ListenStandby is another address for PostgreSQL clients, whose sessions begin with Replicas.ListenTarget. Empty: none.
	ListenStandby string `yaml:"listen_standby,omitempty"`
	// Advertise is where other proxies reach this one. Empty: at Listen, by the
	// machine's name if that is every address.
	Advertise string `yaml:"advertise,omitempty"`
	// RunDir is the directory in which processes meet that take over from each other. Empty: none can.
	RunDir string `yaml:"run_dir,omitempty"`
	// Loop says how sessions run: LoopAuto, LoopOff or a number of loops.
	Loop string `yaml:"loop"`
	// ProxyProtocol are addresses and networks of load balancers, which say in
	// a PROXY header whose connection they pass on. Empty: nobody is believed.
	ProxyProtocol []string `yaml:"proxy_protocol,omitempty"`
	// AdminDatabase is the name of the database that answers about weft
	// itself. A real database of that name cannot be reached.
	AdminDatabase string `yaml:"admin_database"`
	// AdminUsers may enter it. Empty: Service.User.
	AdminUsers []string `yaml:"admin_users,omitempty"`

	HTTP    HTTP        `yaml:"http"`
	TLS     TLS         `yaml:"tls,omitempty"`
	Auth    auth.Config `yaml:"auth"`
	Service Service     `yaml:"service"`
	Pool    Pool        `yaml:"pool"`
	// Failover says what clients notice while a shard has no primary.
	Failover Failover `yaml:"failover"`
	// Replicas says which sessions read standbys, and Zone is where this proxy is.
	Replicas Replicas `yaml:"replicas"`
	Zone     string   `yaml:"zone,omitempty"`
	Gather   Gather   `yaml:"gather"`
	Limits   Limits   `yaml:"limits"`
	Log      Log      `yaml:"log"`

	Statements Statements `yaml:"statements"`
	Heat       Heat       `yaml:"heat"`
	Tracing    Tracing    `yaml:"tracing"`
}

// Values of Config.Loop that are no number.
const (
	LoopAuto = "auto" // a loop for each two processors
	LoopOff  = "off"  // a goroutine for each session
)

// maxLoops is how many loops there can be.
const maxLoops = 64

// Loops is how many loops sessions run in. 0: each session is a goroutine.
func (c Config) Loops() int {
	switch c.Loop {
	case LoopAuto:
		return min(max(runtime.GOMAXPROCS(0)/2, 1), maxLoops)
	case LoopOff:
		return 0
	}
	n, _ := strconv.Atoi(c.Loop) // the file has been checked
	return n
}

// Service is who weft is to the shards when it acts by itself: when it makes its
// own tables there, and ends transactions that nobody else can.
type Service struct {
	User string `yaml:"user"`
	// Password is clear text. Empty: that of auth.users, if the user is there.
	Password string `yaml:"password,omitempty"`
}

// Etcd says where the directory is and how to get in.
type Etcd struct {
	Endpoints []string `yaml:"endpoints"`        // http://host:port, https://host:port or host:port
	Prefix    string   `yaml:"prefix,omitempty"` // of all keys; empty: /weft/<cluster>/
	Username  string   `yaml:"username,omitempty"`
	Password  string   `yaml:"password,omitempty"`
	TLS       EtcdTLS  `yaml:"tls,omitempty"`
	// Timeout bounds each request.
	Timeout time.Duration `yaml:"timeout"`
}

// EtcdTLS is needed beside an https endpoint when the system's certificate
// authorities do not do or etcd asks for a client certificate.
type EtcdTLS struct {
	CA         string `yaml:"ca,omitempty"`
	Cert       string `yaml:"cert,omitempty"`
	Key        string `yaml:"key,omitempty"`
	ServerName string `yaml:"server_name,omitempty"`
}

// HTTP is the endpoint for health, metrics, the dashboard and profiles.
type HTTP struct {
	Listen string `yaml:"listen,omitempty"` // empty: no HTTP
	// TLS serves all of it with the certificate of Config.TLS.
	TLS bool `yaml:"tls"`
	// Dashboard serves pages about the cluster to Users.
	Dashboard bool `yaml:"dashboard"`
	// Pprof serves /debug/pprof, which shows statement texts, to Users.
	Pprof bool `yaml:"pprof"`
	// Users may see what is not open to everybody: all but health and metrics.
	Users []HTTPUser `yaml:"users,omitempty"`
	// PrivateMetrics shows metrics to Users alone.
	PrivateMetrics bool `yaml:"private_metrics"`
	// ReadyShards is the share of shards that must answer for /readyz to say 200, from 0
	// to 1.
	ReadyShards Ratio `yaml:"ready_shards"`
}

// HTTPUser is somebody who is asked for a password over HTTP.
type HTTPUser struct {
	Name string `yaml:"name"`
	// Password is clear text or a verifier, as auth.User has it.
	Password string `yaml:"password"`
	// Operator may act by the dashboard. Others look.
	Operator bool `yaml:"operator,omitempty"`
}

// HasDashboard reports whether there is somebody to whom a dashboard is served.
func (h HTTP) HasDashboard() bool { return h.Dashboard && h.Listen != "" && len(h.Users) > 0 }

// String returns the name, so that printing a user prints no password.
func (u HTTPUser) String() string { return u.Name }

// How clients may use TLS.
const (
	TLSDisable = "disable"
	TLSAllow   = "allow"
	TLSRequire = "require"
)

// Whether TLS clients must show a certificate.
const (
	ClientCertRequire  = "require"
	ClientCertOptional = "optional"
)

// TLS is for connections from clients. Those to shards are encrypted by the
// shard's own options in the directory.
type TLS struct {
	// Mode is TLSDisable, TLSAllow (the client chooses) or TLSRequire. Empty:
	// TLSAllow if there is a certificate, else TLSDisable.
	Mode string `yaml:"mode,omitempty"`
	Cert string `yaml:"cert,omitempty"` // PEM files
	Key  string `yaml:"key,omitempty"`
	// ClientCA, if set, is who signs the certificates of clients.
	ClientCA string `yaml:"client_ca,omitempty"`
	// ClientCert is ClientCertRequire, then every TLS client must show one, or
	// ClientCertOptional, then the rules say who must. Only with ClientCA.
	ClientCert string `yaml:"client_cert,omitempty"`
	// MinVersion is 1.2 or 1.3.
	MinVersion string `yaml:"min_version,omitempty"`
}

// Pool bounds the connections to the shards.
type Pool struct {
	// Mode is transaction or session, for users who have none of their own.
	Mode string `yaml:"mode"`
	// MaxPerShard bounds the connections of this proxy to one shard.
	MaxPerShard int `yaml:"max_per_shard"`
	// MaxPerStandby bounds those to one standby. 0: MaxPerShard does.
	MaxPerStandby int `yaml:"max_per_standby"`
	// MaxPerUser bounds those of one user to one shard. 0: see UserShare.
	MaxPerUser int `yaml:"max_per_user"`
	// MaxDials bounds the connections of this proxy to one server that are opened at a time.
	MaxDials int `yaml:"max_dials"`
	// MaxPrepared bounds the prepared statements kept on one backend.
	MaxPrepared int `yaml:"max_prepared"`
	// QueueTimeout is how long a client waits for a free connection.
	QueueTimeout time.Duration `yaml:"queue_timeout"`
	// OverloadWait is how long a client waits while the shard is overloaded. 0: QueueTimeout.
	OverloadWait time.Duration `yaml:"overload_wait"`
	// IdleTimeout closes connections unused for so long.
	IdleTimeout time.Duration `yaml:"idle_timeout"`
	// MaxLifetime closes connections this old once they are free.
	MaxLifetime time.Duration `yaml:"max_lifetime"`
	// ConnectTimeout bounds dialling and logging in to a shard.
	ConnectTimeout time.Duration `yaml:"connect_timeout"`
	// TCPTimeout is how long data sent to a shard may stay unacknowledged before the connection counts as lost.
	TCPTimeout time.Duration `yaml:"tcp_timeout"`
	// HealthInterval is how often idle connections are looked at.
	HealthInterval time.Duration `yaml:"health_interval"`
}

// UserShare is the bound of one user's connections to one shard: three quarters of all of
// them, if none is set, so that somebody who keeps all it can get leaves room for others.
func (p Pool) UserShare() int {
	if p.MaxPerUser > 0 {
		return p.MaxPerUser
	}
	return p.MaxPerShard - p.MaxPerShard/4
}

// Failover says what clients notice while a shard has no primary.
type Failover struct {
	// Wait is how long clients wait for a primary. 0: they get an error at once.
	Wait time.Duration `yaml:"wait"`
	// InTransaction is how long clients wait whose transaction holds connections to other shards.
	InTransaction time.Duration `yaml:"wait_in_transaction"`
	// ProbeInterval is between two probes of a server, and ProbeTimeout is how long it may take to answer.
	ProbeInterval time.Duration `yaml:"probe_interval"`
	ProbeTimeout  time.Duration `yaml:"probe_timeout"`
	// LagWarning is how far behind a standby may be before the log says so. 0: the log does not.
	LagWarning time.Duration `yaml:"lag_warning"`
}

// Replicas says what sessions begin with that may read standbys; each can set its own target, lag and causality.
type Replicas struct {
	// Target is weft.target.
	Target string `yaml:"target"`
	// ListenTarget is weft.target of clients that connect at listen_standby.
	ListenTarget string `yaml:"listen_target"`
	// MaxLag is weft.max_lag. 0: any lag.
	MaxLag time.Duration `yaml:"max_lag"`
	// MaxLagBytes is how many bytes a standby may be behind. 0: any number.
	MaxLagBytes Size `yaml:"max_lag_bytes"`
	// Fallback is what sessions with the target any read if no standby is fit: FallbackPrimary or FallbackRefuse.
	Fallback string `yaml:"fallback"`
	// Causal is weft.causal.
	Causal string `yaml:"causal"`
	// CausalWait is weft.causal_wait.
	CausalWait time.Duration `yaml:"causal_wait"`
}

// The values of replicas.fallback.
const (
	FallbackPrimary = "primary"
	FallbackRefuse  = "refuse"
)

// Gather holds what sessions begin with that read several shards in one
// statement; each can set its own.
type Gather struct {
	// MaxBytes is weft.max_gather_bytes: how much one statement may bring
	// together.
	MaxBytes Size `yaml:"max_bytes"`
	// Scatter is weft.scatter: whether statements may read several shards.
	Scatter bool `yaml:"scatter"`
	// MaxParallelShards is weft.max_parallel_shards. 0: all.
	MaxParallelShards int `yaml:"max_parallel_shards"`
}

// What becomes of idle clients when a proxy ends: they are closed at once, one by one, or when they leave.
const (
	DrainClose  = "close"
	DrainSpread = "spread"
	DrainKeep   = "keep"
)

// Limits keep one client, or many, from taking everything.
type Limits struct {
	MaxClients int `yaml:"max_clients"`
	// MaxClientsPerUser and MaxClientsPerDatabase bound those of one user and
	// of one database. 0: MaxClients alone.
	MaxClientsPerUser     int `yaml:"max_clients_per_user"`
	MaxClientsPerDatabase int `yaml:"max_clients_per_database"`
	// AuthFailures is how many logins may fail in a minute from one address.
	// 0: any number.
	AuthFailures int `yaml:"auth_failures"`
	// StartupTimeout is how long a client may take to log in.
	StartupTimeout time.Duration `yaml:"startup_timeout"`
	// DrainTimeout is how long running transactions may take to finish after
	// the first SIGTERM.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
	// DrainDelay is how long clients are taken after the first SIGTERM, while /readyz fails.
	DrainDelay time.Duration `yaml:"drain_delay"`
	// DrainIdle says what becomes of idle clients after that: DrainClose, DrainSpread or DrainKeep.
	DrainIdle string `yaml:"drain_idle"`
	// MaxQueryBytes bounds one statement: its text, or its parameters.
	MaxQueryBytes Size `yaml:"max_query_bytes"`
	// Memory bounds what the statements of all clients take.
	Memory Size `yaml:"memory"`
}

// Log says what is logged and how.
type Log struct {
	Level  string `yaml:"level"`  // debug, info, warn or error
	Format string `yaml:"format"` // text or json
	// SlowStatement: statements that take longer are logged, without their values.
	// 0: none.
	SlowStatement time.Duration `yaml:"slow_statement"`
}

// Statements is about weft.statements, what statements have cost.
type Statements struct {
	// MaxBytes bounds its memory: statements unused for longest go.
	MaxBytes Size `yaml:"max_bytes"`
}

// Heat is about weft.hot_keys, weft.heat, weft.load and weft.skew, which say what is hot.
type Heat struct {
	// Samples is how many statements per second are sampled to find that out. 0: none.
	Samples int `yaml:"samples"`
	// Keys says whether the values of hot keys are shown: KeysShown or KeysHashed.
	Keys string `yaml:"keys"`
	// Plan says what becomes of plans that would relieve saturated shards: PlanOff, PlanAdvise or PlanAuto.
	Plan string `yaml:"plan"`
	// Throttle says what becomes of automatic throttles: ThrottleOff, ThrottleObserve or ThrottleAuto.
	Throttle string `yaml:"throttle"`
	// MaxThrottles is how many there may be at a time, and ThrottleFor how long each lasts unless it
	// is still needed.
	MaxThrottles int           `yaml:"max_throttles"`
	ThrottleFor  time.Duration `yaml:"throttle_for"`
	// Rows says what becomes of transactions that write a hot key: ThrottleOff, ThrottleObserve or ThrottleAuto.
	Rows string `yaml:"rows"`
	// Limit says what becomes of limits of shards that follow what the shards can do: ThrottleOff, ThrottleObserve or
	// ThrottleAuto.
	Limit string `yaml:"limit"`
	// Coalesce says what becomes of reads of a hot key that are the same: ThrottleOff, ThrottleObserve or CoalesceOn.
	Coalesce string `yaml:"coalesce"`
}

// What becomes of automatic throttles, of hot rows, and of limits of shards.
const (
	ThrottleOff     = "off"     // there are none
	ThrottleObserve = "observe" // they count what they would do, and do nothing
	ThrottleAuto    = "auto"    // they delay and refuse statements
)

// CoalesceOn says that reads of a hot key which are the same share an execution.
const CoalesceOn = "on"

// What becomes of plans that would relieve saturated shards.
const (
	PlanOff    = "off"    // there are none
	PlanAdvise = "advise" // warnings have their SQL
	PlanAuto   = "auto"   // weft moves buckets by itself, too
)

// What weft.hot_keys shows of keys.
const (
	KeysShown  = "shown"  // their values, to those who may see all
	KeysHashed = "hashed" // names that tell nothing of their values
)

// Tracing sends traces to an OpenTelemetry collector: sessions, their statements,
// and what each shard did for them.
type Tracing struct {
	// Endpoint is where the collector takes OTLP over gRPC: http://host:port, or
	// https://host:port. Empty: no traces.
	Endpoint string `yaml:"endpoint,omitempty"`
	// Ratio is the share of sessions that are traced, from 0 to 1. A statement that
	// comes with a traceparent in a comment is traced if that says so.
	Ratio Ratio `yaml:"ratio"`
}

// Default is what holds where weft.yaml says nothing. It is valid but for the
// endpoints of etcd.
func Default() Config {
	return Config{
		Cluster:       "main",
		Etcd:          Etcd{Timeout: 5 * time.Second},
		Listen:        "127.0.0.1:6432",
		Loop:          LoopOff,
		AdminDatabase: "weft",
		// On loopback: metrics name users and databases.
		HTTP: HTTP{Listen: "127.0.0.1:6480", Dashboard: true},
		TLS:  TLS{MinVersion: "1.2", ClientCert: ClientCertRequire},
		Auth: auth.Config{Method: auth.MethodScramSHA256, AuthQueryDatabase: "postgres", AuthQueryTTL: auth.DefaultQueryTTL},
		// The role that initdb makes. It may do everything; one that owns schema
		// weft and may signal backends does too.
		Service: Service{User: "postgres"},
		Pool: Pool{
			Mode: "transaction",
			// Under PostgreSQL's own max_connections of 100, with room for
			// superusers, replication and a psql of one's own.
			MaxPerShard:    80,
			MaxDials:       16,
			MaxPrepared:    500,
			QueueTimeout:   30 * time.Second,
			OverloadWait:   5 * time.Second,
			IdleTimeout:    10 * time.Minute,
			MaxLifetime:    time.Hour,
			ConnectTimeout: 5 * time.Second,
			TCPTimeout:     10 * time.Second,
			HealthInterval: time.Second,
		},
		// Patroni's least ttl is 20 seconds: clients wait for longer than a failover takes.
		Failover: Failover{Wait: 45 * time.Second, InTransaction: 5 * time.Second, ProbeInterval: 500 * time.Millisecond, ProbeTimeout: time.Second, LagWarning: 30 * time.Second},
		Gather:   Gather{MaxBytes: 1 << 30, Scatter: true},
		Replicas: Replicas{Target: "primary", ListenTarget: "standby", MaxLag: 10 * time.Second, Fallback: FallbackPrimary, Causal: "auto", CausalWait: time.Second},
		Limits: Limits{
			MaxClients:     10_000,
			AuthFailures:   100,         // no application fails so often, and no password is found so
			StartupTimeout: time.Minute, // PostgreSQL's authentication_timeout
			DrainTimeout:   30 * time.Second,
			DrainIdle:      DrainClose,
			MaxQueryBytes:  64 << 20,
			Memory:         1 << 30,
		},
		Log: Log{Level: "info", Format: "text"},

		Statements: Statements{MaxBytes: 16 << 20},
		Heat:       Heat{Samples: 2000, Keys: KeysShown, Plan: PlanAdvise, Throttle: ThrottleObserve, MaxThrottles: 16, ThrottleFor: 10 * time.Second, Rows: ThrottleObserve, Limit: ThrottleObserve, Coalesce: ThrottleObserve},
		Tracing:    Tracing{Ratio: 0.01},
	}
}
