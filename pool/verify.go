package pool

import (
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

// verify asks a new backend for its identity and lets Config.Verify judge. It costs one round
// trip per backend, and nothing for the statements that use the backend.
func (c *Conn) verify() error {
	cfg := c.lane.shard.pool.conf()
	if cfg.Verify == nil {
		return nil
	}
	_ = c.Conn().SetDeadline(time.Now().Add(cfg.ConnectTimeout))
	rows, err := c.Ask(askLogin, identity.Query)
	_ = c.Conn().SetDeadline(time.Time{})
	var found identity.Found
	if len(rows) > 1 && len(rows[0]) == 3 {
		copy(c.timeouts[:], rows[0])
		c.started, _ = strconv.ParseInt(rows[0][2], 10, 64)
		rows = rows[1:]
	}
	if err == nil {
		found, err = identity.Read(rows)
	}
	if err != nil {
		return pgerr.New(pgerr.ConnectionFailure, "shard %q could not be asked who it is: %s", c.Shard(), pgerr.From(err).Message).
			WithHint("Every role must be able to call pg_control_system(), as is PostgreSQL's default.").WithCause(err)
	}
	return cfg.Verify(Login{Shard: c.Shard(), Database: c.lane.key.Database, Address: c.endpoint.address, Found: found})
}
