package proxy

import (
	"bytes"
	"context"
	"slices"
	"strings"

	"weft/catalog"
	"weft/console"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/proxy/peer"
	"weft/quote"
	"weft/wire"
)

// weft.shards, weft.sessions and the like look like tables to clients. They are views on
// every shard, over a parameter of the backend: before a text that names such a view is
// run, weft sets the parameter to the view's rows. So PostgreSQL does the SQL.

// ownRows is the parameter that holds the rows of weft's views, see ownSteps of package
// schema.
const ownRows = "weft.rows"

// readsOwn reports whether a text reads one of weft's views.
func readsOwn(f *parser.Facts) bool {
	for _, r := range f.Relations {
		if strings.HasPrefix(r, "weft.") && console.Named(r[len("weft."):]) != nil {
			return true
		}
	}
	return false
}

// showOwn gives the backend at hand the rows of weft's views that a text reads. In a
// transaction, the client's or that of the messages before a Sync, the rows vanish when the
// transaction ends. Otherwise hideOwn takes them away, or the backend is not used again.
func (rt *routing) showOwn(c *pool.Conn, f *parser.Facts, unsynced bool, exec func(sql string) error) error {
	if _, err := rt.s.srv.keeper.owns.Ensure(rt.s.srv.ctx, c.Shard(), rt.s.db.Name); err != nil {
		return err
	}
	local := c.Status() == wire.TxActive || unsynced
	sql := setOwn(rt.ownJSON(f), local)
	if !local {
		c.Show()
	}
	return exec(sql)
}

// setOwn is the statement that sets the rows of weft's views; local: until the transaction
// ends.
func setOwn(rows string, local bool) string {
	scope := "false)"
	if local {
		scope = "true)"
	}
	return "SELECT pg_catalog.set_config('" + ownRows + "', " + quote.Literal(rows) + ", " + scope
}

// hideOwn takes the rows of weft's views away from a backend.
func hideOwn(c *pool.Conn) {
	if _, err := c.Exec(setOwn("", false)); err == nil {
		c.Hidden()
	}
}

// showOwnTo is showOwn for a leg whose statement reads weft's views beside other tables.
func (rt *routing) showOwnTo(l *leg, f *parser.Facts) error {
	return rt.showOwn(l.conn, f, false, func(sql string) error { return rt.s.every.execBeside(l.conn, sql) })
}

// ownJSON returns the rows of weft's views that a text reads, by name of the view.
func (rt *routing) ownJSON(f *parser.Facts) string {
	src := adminSource{srv: rt.s.srv, database: rt.s.db.Name, silent: rt.warnSilent}
	viewer := console.Viewer{User: rt.s.login.user, Database: rt.s.db.Name, All: rt.monitors(rt.s.srv.ctx)}
	out := []byte{'{'}
	for _, r := range f.Relations {
		name, ok := strings.CutPrefix(r, "weft.")
		view := console.Named(name)
		if !ok || view == nil {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(out, '"'), name...)
		out = append(append(out, '"', ':'), rt.spreadRows(view, src, viewer)...)
	}
	return string(append(out, '}'))
}

// spreadRows returns the rows of a view, with those of the other proxies if each proxy has
// its own.
func (rt *routing) spreadRows(view *console.View, src adminSource, viewer console.Viewer) []byte {
	rows := view.Table(rt.s.srv.ctx, src, viewer).JSON()
	if !view.Spread {
		return rows
	}
	answers, silent := rt.s.srv.circle.Ask(rt.s.srv.ctx, peer.Question{View: view.Name, User: viewer.User, All: viewer.All})
	rt.warnSilent(silent, "weft."+view.Name+" is without its rows")
	for _, a := range answers {
		a = bytes.TrimSuffix(bytes.TrimPrefix(a, []byte("[")), []byte("]"))
		if len(a) == 0 {
			continue
		}
		rows = rows[:len(rows)-1]
		if len(rows) > 1 {
			rows = append(rows, ',')
		}
		rows = append(append(rows, a...), ']')
	}
	return rows
}

// monitors reports whether the client may see what concerns other users: as in PostgreSQL,
// superusers and members of pg_read_all_stats, which pg_monitor is, and users of the admin
// database. The login role counts, not a role that the client has SET.
func (rt *routing) monitors(ctx context.Context) bool {
	return hasRights(ctx, rt.s, "pg_read_all_stats")
}

// hasRights reports whether a client has the rights of a predefined role, as a superuser, a member of it or one of
// the users of the admin database.
func hasRights(ctx context.Context, s *Session, of string) bool {
	if s.srv.isAdmin(s.login.user) {
		return true
	}
	c, err := s.srv.awaitService(ctx, s.srv.cfg.Snapshot().Home, s.db.Name)
	if err != nil {
		s.log.Warn("cannot ask for the rights of a user", "user", s.login.user, "err", err)
		return false
	}
	defer c.Terminate()
	name := s.lane.Role() // the role that the session has on every backend
	if name == "" {
		name = s.lane.LoginRole()
	}
	role := quote.Literal(name)
	rows, err := c.Exec("SELECT r.rolsuper OR pg_catalog.pg_has_role(r.oid, " + quote.Literal(of) + ", 'USAGE') FROM pg_catalog.pg_roles r WHERE r.rolname = " + role)
	return err == nil && len(rows) == 1 && rows[0][0] == "t"
}

// resetStatements empties weft.statements on all proxies: all of it, or only what the
// client's user has run.
func (rt *routing) resetStatements(ctx context.Context) error {
	all := rt.monitors(ctx)
	rt.s.srv.resetStatements(rt.s.login.user, all)
	_, silent := rt.s.srv.circle.Ask(ctx, peer.Question{User: rt.s.login.user, All: all, Reset: true})
	rt.warnSilent(silent, "what statements have cost there is not forgotten")
	return nil
}

// warnSilent warns the client about proxies that have not answered.
func (rt *routing) warnSilent(silent []error, consequence string) {
	for _, err := range silent {
		rt.s.log.Warn("another proxy did not answer", "err", err)
		rt.s.out.tell(&pgerr.Error{Severity: pgerr.SeverityWarning, Code: "01000", Message: err.Error(), Detail: "So " + consequence + "."})
	}
}

// knowOwn makes sure that weft's views that a text reads exist, and that the schema that
// plans are made by has them, with all columns: weft makes them when they are first read, and
// adds columns that an older weft did not know.
func (rt *routing) knowOwn(f *parser.Facts) error {
	if !readsOwn(f) {
		return nil
	}
	if _, err := rt.s.srv.keeper.owns.Ensure(rt.s.srv.ctx, rt.snap.Home, rt.s.db.Name); err != nil {
		return err
	}
	env, err := rt.environment()
	if err != nil || !slices.ContainsFunc(f.Relations, func(r string) bool {
		name, ok := strings.CutPrefix(r, "weft.")
		view := console.Named(name)
		if !ok || view == nil {
			return false
		}
		known := env.Schema.Relation(catalog.Name{Schema: "weft", Name: name})
		return known == nil || len(known.Columns) < len(view.Columns)
	}) {
		return err
	}
	rt.env = nil
	return rt.s.srv.memory.envs.slot(rt.s.db.Name).forget(rt.s.srv.ctx)
}
