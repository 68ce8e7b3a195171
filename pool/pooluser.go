package pool

import (
	"strings"
	"time"

	"weft/pgerr"
	"weft/quote"
)

// Role returns the role that connections of the lane take on after login; "" if they stay the
// login role.
func (l *Lane) Role() string { return l.shard.pool.conf().Users[l.key.User].Role }

// poolUserSQL lists what the login role of a session can do and another role cannot. PostgreSQL
// has no SET ROLE that cannot be undone: any function may run RESET ROLE, in a text made at run
// time. So a client can do whatever the login role can do, and the list must be empty.
const poolUserSQL = `WITH p AS (SELECT * FROM pg_catalog.pg_roles WHERE rolname = session_user),
r AS (SELECT * FROM pg_catalog.pg_roles WHERE rolname = $ROLE),
more(what) AS (
 SELECT 'is a superuser' FROM p WHERE rolsuper
 UNION ALL SELECT 'has CREATEROLE' FROM p, r WHERE p.rolcreaterole AND NOT r.rolcreaterole
 UNION ALL SELECT 'has CREATEDB' FROM p, r WHERE p.rolcreatedb AND NOT r.rolcreatedb
 UNION ALL SELECT 'has REPLICATION' FROM p, r WHERE p.rolreplication AND NOT r.rolreplication
 UNION ALL SELECT 'has BYPASSRLS' FROM p, r WHERE p.rolbypassrls AND NOT r.rolbypassrls
 UNION ALL SELECT 'is a member of ' || g.rolname FROM p, r, pg_catalog.pg_roles g
  WHERE g.oid <> p.oid AND pg_catalog.pg_has_role(p.oid, g.oid, 'MEMBER') AND NOT pg_catalog.pg_has_role(r.oid, g.oid, 'MEMBER')
 UNION ALL SELECT 'may grant ' || g.rolname FROM p, r, pg_catalog.pg_roles g
  WHERE g.oid <> p.oid AND pg_catalog.pg_has_role(p.oid, g.oid, 'MEMBER WITH ADMIN OPTION')
  AND NOT pg_catalog.pg_has_role(r.oid, g.oid, 'MEMBER WITH ADMIN OPTION')
 UNION ALL SELECT 'owns objects or has been granted rights of its own' FROM p
  WHERE EXISTS (SELECT FROM pg_catalog.pg_shdepend d WHERE d.refclassid = 1260 AND d.refobjid = p.oid AND d.deptype IN ('o', 'a', 'r')))
SELECT what FROM more WHERE NOT EXISTS (SELECT FROM r WHERE rolsuper) LIMIT 3`

// checkPoolUser refuses a connection whose login role can do more than the role it takes on. It
// asks on every new connection, because rights change.
func (c *Conn) checkPoolUser(user, role string) error {
	_ = c.Conn().SetDeadline(time.Now().Add(c.lane.shard.pool.conf().ConnectTimeout))
	// The client's startup parameters are in force: without a search_path of weft's, the client's
	// operators could run.
	rows, err := c.Exec("BEGIN; SET LOCAL search_path = pg_catalog; " + strings.ReplaceAll(poolUserSQL, "$ROLE", quote.Literal(role)) + "; COMMIT")
	_ = c.Conn().SetDeadline(time.Time{})
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return nil
	}
	more := make([]string, len(rows))
	for i, r := range rows {
		more[i] = r[0]
	}
	return pgerr.New(pgerr.InvalidAuthorizationSpec, "weft does not log in to shard %q as %q to become %q", c.Shard(), user, role).
		WithDetail("The pool user can do more than the role: it %s. PostgreSQL lets whoever has SET ROLE go back with RESET ROLE.", strings.Join(more, ", ")).
		WithHint("Take these rights from the pool user, or let weft log in as %q itself; see docs/security.md.", role)
}
