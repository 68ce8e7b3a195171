package server

import (
	"log/slog"
	"net"
	"os"
	"time"

	"weft/auth"
	"weft/config"
	"weft/directory"
	"weft/directory/etcd"
	"weft/pool"
	"weft/primary"
	"weft/proxy"
	"weft/twopc"
)

// Options is what Start needs.
type Options struct {
	// Config must be valid and its secrets resolved.
	Config config.Config
	// Store, if set, is used instead of the etcd that Config names, and is not
	// closed by the server.
	Store directory.Store
	// Listener, if set, is used instead of Config.Listen, and is closed by the
	// server.
	Listener net.Listener
	// Takeover: a process that serves with the same Config.RunDir hands its sockets over.
	Takeover bool
	// Load reads the configuration again, secrets resolved. Nil: it cannot be.
	Load func() (config.Config, error)
	// Hup, if set, delivers whenever that is to be done.
	Hup <-chan os.Signal
	// Level, if set, is changed when the configuration's log level is.
	Level *slog.LevelVar
	// Version of the binary, for weft status.
	Version string
	// StopAt, if set, is called at the named points of a commit: for tests.
	StopAt func(twopc.Point)
	// LookEvery, if set, is how often plans are made that would relieve saturated shards: for tests.
	LookEvery time.Duration
	// Log. Default: discarded.
	Log *slog.Logger

	// mock is the secret of this process that stands for auth.mock_secret. What is
	// made of it must not change when the file is read again.
	mock string
	// panics are those of this process.
	panics *proxy.Panics
}

// OpenDirectory opens the store that cfg names. An etcd that is away fails here
// only if there is a user to log in; then the error wraps
// directory.ErrUnavailable.
func OpenDirectory(cfg config.Config, log *slog.Logger) (*etcd.Store, error) {
	tls, err := cfg.Etcd.TLS.Load()
	if err != nil {
		return nil, err
	}
	prefix := cfg.Etcd.Prefix
	if prefix == "" {
		prefix = etcd.Prefix(cfg.Cluster)
	}
	return etcd.Open(etcd.Config{
		Endpoints:      cfg.Etcd.Endpoints,
		Prefix:         prefix,
		TLS:            tls,
		Username:       cfg.Etcd.Username,
		Password:       cfg.Etcd.Password,
		RequestTimeout: cfg.Etcd.Timeout,
		Log:            log,
	})
}

// withFailover adds how long clients wait for a primary, and how it is sought.
func withFailover(c pool.Config, f config.Failover) pool.Config {
	c.Failover = pool.Failover{Wait: f.Wait, InTransaction: f.InTransaction, Probes: primary.Timing{Interval: f.ProbeInterval, Timeout: f.ProbeTimeout}, LagWarning: f.LagWarning}
	return c
}

// withLoops adds how many loops sessions run in.
func withLoops(c pool.Config, cfg config.Config) pool.Config {
	c.Loops = cfg.Loops()
	return c
}

// poolConfig translates cfg, with each user's own settings.
func poolConfig(cfg config.Pool, users []auth.User, log *slog.Logger) pool.Config {
	c := pool.Config{
		Mode:           cfg.Mode,
		MaxPerShard:    cfg.MaxPerShard,
		MaxPerStandby:  cfg.MaxPerStandby,
		MaxPerUser:     cfg.UserShare(),
		MaxDials:       cfg.MaxDials,
		MaxPrepared:    cfg.MaxPrepared,
		QueueTimeout:   cfg.QueueTimeout,
		OverloadWait:   cfg.OverloadWait,
		IdleTimeout:    cfg.IdleTimeout,
		MaxLifetime:    cfg.MaxLifetime,
		ConnectTimeout: cfg.ConnectTimeout,
		TCPTimeout:     cfg.TCPTimeout,
		HealthInterval: cfg.HealthInterval,
		Users:          make(map[string]pool.User, len(users)),
		Log:            log,
	}
	for i := range users {
		u := &users[i]
		login := u.ServerLogin()
		c.Users[u.Name] = pool.User{
			Mode:           u.PoolMode,
			MaxConnections: u.MaxConnections,
			ServerUser:     login.User,
			ServerPassword: login.Password,
			Role:           login.Role,
			Priority:       priorities[u.Priority],
		}
	}
	return c
}

// priorities are what the priorities of users are called.
var priorities = map[string]pool.Priority{"low": pool.PriorityLow, "": pool.PriorityNormal, "normal": pool.PriorityNormal, "high": pool.PriorityHigh}

// withService adds the user that weft is when it works by itself.
func withService(c pool.Config, service config.Service) pool.Config {
	u, known := c.Users[service.User]
	if !known || service.Password != "" {
		u.ServerPassword = service.Password
	}
	c.Users[service.User] = u
	return c
}
