package auth

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// DefaultQuery is what Config.AuthQuery "default" stands for: the passwords of those
// who may log in, as long as they are valid.
const DefaultQuery = "SELECT rolname, rolpassword FROM pg_catalog.pg_authid WHERE rolname = $1 AND rolcanlogin" +
	" AND (rolvaliduntil IS NULL OR rolvaliduntil > pg_catalog.now())"

// DefaultQueryTTL is how long an answer is used if nothing is said.
const DefaultQueryTTL = 30 * time.Second

// Query says how a shard is asked for the passwords of users who have none in
// the configuration; see Config.
type Query struct {
	SQL      string // empty: no shard is asked
	Database string
	TTL      time.Duration
}

func (c *Config) query() Query {
	return Query{SQL: c.AuthQuery, Database: c.AuthQueryDatabase, TTL: c.AuthQueryTTL}
}

func (q Query) validate() error {
	switch {
	case q.SQL != "" && q.SQL != "default" && !strings.Contains(q.SQL, "$1"):
		return errors.New("auth_query has no $1 for the user's name")
	case q.TTL < 0:
		return fmt.Errorf("auth_query_ttl is %v, must not be negative", q.TTL)
	}
	return nil
}

// withDefaults returns q with what it leaves out.
func (q Query) withDefaults() Query {
	if q.SQL == "" {
		return Query{}
	}
	if q.SQL == "default" {
		q.SQL = DefaultQuery
	}
	if q.Database == "" {
		q.Database = "postgres"
	}
	if q.TTL == 0 {
		q.TTL = DefaultQueryTTL
	}
	return q
}

// Query returns how passwords are looked up, with defaults filled in; its SQL is
// empty if they are not.
func (a *Authenticator) Query() Query { return a.query }
