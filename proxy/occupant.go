package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"weft/pgerr"
	"weft/proxy/peer"
	"weft/quote"
)

// A client that drops a database must own it and find it unused, or be allowed to end the
// sessions in it. A shard sees the backends that sessions hold at the moment; only the proxies
// see the sessions. The functions below ask with the client's own role, in PostgreSQL's order:
// no session is ended, or waited for, on behalf of a client that has no right to it.

// ownsDatabase reports whether the client may drop or rename a database, or the database does
// not exist.
func (u *utility) ownsDatabase(name string) (bool, error) {
	return u.askTrue("SELECT coalesce(bool_and(pg_catalog.pg_has_role(datdba, 'USAGE')), true) FROM pg_catalog.pg_database WHERE datname = " + quote.Literal(name))
}

// askTrue asks the home shard, with the client's role, a question that is true or not.
func (u *utility) askTrue(sql string) (bool, error) {
	rows, err := u.s.route.askHome(sql)
	return err == nil && len(rows) == 1 && rows[0][0] == "t", err
}

// leaving is how long PostgreSQL, and weft, waits for the sessions in a database to end: the
// server may not have noticed yet that a client has hung up.
const leaving = 5 * time.Second

// awaitUnused waits until no other session is in the database, on any proxy.
func (u *utility) awaitUnused(what, name string) error {
	for until := time.Now().Add(leaving); ; {
		n := len(u.s.srv.register.occupants(name, u.s))
		wait := 10 * time.Millisecond
		if n == 0 {
			n, wait = len(u.elsewhere(name)), 200*time.Millisecond
		}
		switch {
		case n == 0:
			return nil
		case time.Now().After(until):
			return inUse(what, name, n)
		}
		select {
		case <-u.s.srv.ctx.Done():
			return context.Cause(u.s.srv.ctx)
		case <-time.After(wait):
		}
		if err := u.s.reach.checkKilled(); err != nil {
			return err
		}
	}
}

// evict ends the sessions in a database, on all proxies, if the client may end every one of
// them.
func (u *utility) evict(name string) error {
	if err := u.mayEnd(append(u.s.srv.register.occupants(name, u.s), u.elsewhere(name)...)); err != nil {
		return err
	}
	u.s.srv.register.killOn(name, u.s)
	_, silent := u.s.srv.circle.Ask(u.s.srv.ctx, peer.Question{Database: name, Kill: true})
	u.s.route.warnSilent(silent, "sessions there may still be in the database")
	return nil
}

// awaitLeft waits a little until the backends of ended sessions, and the idle backends of
// proxies, are gone: the client may lack the right to end some of them. If other backends
// remain, PostgreSQL decides.
func (u *utility) awaitLeft(name string) {
	for until := time.Now().Add(leaving / 2); time.Now().Before(until); {
		left, err := u.askTrue("SELECT NOT EXISTS (SELECT FROM pg_catalog.pg_stat_activity WHERE pid <> pg_catalog.pg_backend_pid() AND datname = " + quote.Literal(name) + ")")
		if left || err != nil {
			return
		}
		select {
		case <-u.s.srv.ctx.Done():
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// mayEnd refuses, as PostgreSQL does, to end backends of roles that the client may not signal.
func (u *utility) mayEnd(roles []string) error {
	if len(roles) == 0 {
		return nil
	}
	quoted := make([]string, len(roles))
	for i, r := range roles {
		quoted[i] = quote.Literal(r)
	}
	rows, err := u.s.route.askHome("SELECT coalesce(bool_or(r.rolsuper AND NOT me.rolsuper), false)," +
		" coalesce(bool_or(NOT pg_catalog.pg_has_role(r.oid, 'USAGE') AND NOT pg_catalog.pg_has_role('pg_signal_backend', 'USAGE')), false)" +
		" FROM pg_catalog.pg_roles r, pg_catalog.pg_roles me WHERE me.rolname = current_user AND r.rolname IN (" + strings.Join(quoted, ", ") + ")")
	if err != nil {
		return err
	}
	switch {
	case len(rows) != 1:
	case rows[0][0] == "t":
		return pgerr.New(pgerr.InsufficientPrivilege, "must be a superuser to terminate superuser process")
	case rows[0][1] == "t":
		return pgerr.New(pgerr.InsufficientPrivilege, "must be a member of the role whose process is being terminated or member of pg_signal_backend")
	}
	return nil
}

// occupants returns the roles of the sessions of this proxy in a database, one per session. It
// leaves out the session but.
func (r *register) occupants(database string, but *Session) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var roles []string
	for _, sess := range r.sessions {
		if sess != but && sess.db != nil && sess.db.Name == database {
			roles = append(roles, sess.login.user)
		}
	}
	return roles
}

// elsewhere returns the roles of the sessions of other proxies in a database. The sessions of a
// proxy that does not answer are left to the shards, which see their backends.
func (u *utility) elsewhere(database string) (roles []string) {
	answers, silent := u.s.srv.circle.Ask(u.s.srv.ctx, peer.Question{Database: database})
	for _, err := range silent {
		u.s.log.Warn("another proxy did not answer", "err", err)
	}
	for _, a := range answers {
		var here []string
		if err := json.Unmarshal(a, &here); err == nil {
			roles = append(roles, here...)
		}
	}
	return roles
}

// killOn ends all sessions of this proxy in a database except but.
func (r *register) killOn(database string, but *Session) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, sess := range r.sessions {
		if sess != but && sess.db != nil && sess.db.Name == database {
			sess.kill(pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command"))
		}
	}
}
