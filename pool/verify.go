package pool

import (
	"context"
	"errors"
	"strconv"
	"time"

	"weft/identity"
	"weft/pgerr"
)

// Login is the identity of a backend that has just been logged in to.
type Login struct {
	Shard, Database string
	Address         string // address of the server
	Found           identity.Found
}

// askLogin asks for the login's timeouts, before Ask changes them, and for the start of its
// backend.
const askLogin = "SELECT pg_catalog.current_setting('statement_timeout'), pg_catalog.current_setting('lock_timeout'), " +
	"(SELECT " + startedSQL + " FROM pg_catalog.pg_stat_get_activity(pg_catalog.pg_backend_pid())); "

// startedSQL is the start of a backend in SQL, in the form of Process.Started.
const startedSQL = "(1000000 * pg_catalog.date_part('epoch', backend_start))::bigint"

// Registrar says how backends register with their databases. Many goroutines may call it at once.
type Registrar interface {
	// Statement returns the statement with which a backend registers, and the epoch under which it
	// does. An empty statement says that it need not register.
	Statement(ctx context.Context, shard, database string, pid int32) (statement string, epoch int64, err error)
	// Failed is told why a statement with an epoch has failed, and returns the error for the client. Nil
	// asks for another try.
	Failed(ctx context.Context, shard, database string, epoch int64, err *pgerr.Error) error
}

// registerTries is how often a backend tries to register.
const registerTries = 2

// readWrite makes the transaction in which a backend registers able to write, and to see what
// others have committed meanwhile, whatever the client's defaults are.
const readWrite = "SET TRANSACTION ISOLATION LEVEL READ COMMITTED, READ WRITE; "

// verify asks a new backend for its identity, lets Config.Verify judge, and registers the backend.
// A server that is no primary, or not any more, is refused. It costs one round trip per backend, and nothing for the statements that
// use the backend. The server has limit to answer.
func (c *Conn) verify(ctx context.Context, limit time.Duration) error {
	if c.lane.shard.standby != nil {
		return c.verifyStandby(limit)
	}
	cfg := c.lane.shard.pool.conf()
	if cfg.Verify == nil && len(c.lane.shard.spec.Load().Hosts) == 1 {
		return nil
	}
	database := c.lane.key.Database
	for n := 1; ; n++ {
		statement, epoch := "", int64(0)
		if cfg.Registrar != nil && !c.own {
			var err error
			if statement, epoch, err = cfg.Registrar.Statement(ctx, c.Shard(), database, c.pid); err != nil {
				return err
			}
		}
		refused, err := c.identify(cfg, statement, limit)
		if err != nil || statement == "" {
			return err
		}
		if refused == nil {
			c.registered.Store(epoch)
			return nil
		}
		if err := cfg.Registrar.Failed(ctx, c.Shard(), database, epoch, refused); err != nil || n == registerTries {
			if err == nil {
				err = refused
			}
			return err
		}
		if err := c.End(); err != nil {
			return err
		}
	}
}

// identify asks a backend for its identity, and runs the statement that registers it, if there is
// one. refused is why that statement has failed.
func (c *Conn) identify(cfg *Config, statement string, limit time.Duration) (refused *pgerr.Error, err error) {
	first, text := askLogin, identity.Query
	if statement != "" {
		first, text = readWrite+first, text+"; "+statement
	}
	_ = c.Conn().SetDeadline(time.Now().Add(limit))
	rows, err := c.Ask(first, text)
	_ = c.Conn().SetDeadline(time.Time{})
	var found identity.Found
	if len(rows) > 1 && len(rows[0]) == 3 {
		if c.started == 0 { // afterwards other goroutines may read it
			copy(c.timeouts[:], rows[0])
			c.started, _ = strconv.ParseInt(rows[0][2], 10, 64)
		}
		rows = rows[1:]
	}
	if statement != "" && len(rows) > 0 {
		if err != nil { // the identity is there, so it is the statement that has failed
			refused, err = said(err), nil
		}
		rows = rows[:1]
	}
	if err == nil {
		found, err = identity.Read(rows)
	}
	if err != nil && said(err).Code == pgerr.ReadOnlySQLTransaction {
		return nil, c.standby() // what registers a backend begins a transaction that writes
	}
	if err != nil {
		return nil, pgerr.New(pgerr.ConnectionFailure, "shard %q could not be asked who it is: %s", c.Shard(), pgerr.From(err).Message).
			WithHint("Every role must be able to call pg_control_system(), as is PostgreSQL's default.").WithCause(err)
	}
	if c.lane.shard.standby != nil {
		return nil, c.mayRead(found)
	}
	if found.Recovery {
		return nil, c.standby()
	}
	c.generation = found.Generation()
	if err := c.outdated(); err != nil || cfg.Verify == nil {
		return refused, err
	}
	return refused, cfg.Verify(Login{Shard: c.Shard(), Database: c.lane.key.Database, Address: c.endpoint.address, Found: found})
}

// said returns the server's error behind an error of Ask, or the error itself if there is none.
func said(err error) *pgerr.Error {
	e := pgerr.From(err)
	for inner := (*pgerr.Error)(nil); errors.As(errors.Unwrap(e), &inner); inner = nil {
		e = inner
	}
	return e
}
