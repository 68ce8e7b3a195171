package pool

import (
	"time"

	"weft/identity"
	"weft/pgerr"
)

// Login is a backend that has just been logged in to, as it says who it is.
type Login struct {
	Shard, Database string
	Address         string // of the server
	Found           identity.Found
}

// askTimeouts asks for the timeouts of a login, before a question sets one.
const askTimeouts = "SELECT pg_catalog.current_setting('statement_timeout'), pg_catalog.current_setting('lock_timeout'); "

// verify asks a new backend who it is and lets Config.Verify judge. It costs a round
// trip for each backend, and nothing for the statements that use it.
func (c *Conn) verify() error {
	cfg := c.lane.shard.pool.conf()
	if cfg.Verify == nil {
		return nil
	}
	_ = c.Conn().SetDeadline(time.Now().Add(cfg.ConnectTimeout))
	rows, err := c.Ask(askTimeouts, identity.Query)
	_ = c.Conn().SetDeadline(time.Time{})
	var found identity.Found
	if len(rows) > 1 && copy(c.Timeouts[:], rows[0]) == len(c.Timeouts) {
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
