package proxy

import (
	"bytes"
	"context"
	"strings"

	"weft/catalog"
	"weft/console"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// weft.shards, weft.sessions and their like look like tables to clients. They are
// views on every shard, over a parameter of the backend: before a text that
// names one is run, the parameter is given its rows. So PostgreSQL does the SQL.

// ownRows is the parameter, see ownSteps of package schema.
const ownRows = "weft.rows"

// readsOwn reports whether a text reads such a view.
func readsOwn(f *parser.Facts) bool {
	for _, r := range f.Relations {
		if strings.HasPrefix(r, "weft.") && console.Named(r[len("weft."):]) != nil {
			return true
		}
	}
	return false
}

// showOwn gives the backend at hand the rows of the views that a text reads. In a
// transaction, the client's or that of the messages before a Sync, they go with
// it. Otherwise hideOwn takes them away, or the backend is not used again.
func (s *Session) showOwn(c *pool.Conn, f *parser.Facts, unsynced bool, exec func(sql string) error) error {
	if _, err := s.srv.own(s.ctx, c.Shard(), s.db.Name); err != nil {
		return err
	}
	local := c.Status == wire.TxActive || unsynced
	sql := setOwn(s.ownJSON(f), local)
	c.Shown = c.Shown || !local
	return exec(sql)
}

func setOwn(rows string, local bool) string {
	scope := "false)"
	if local {
		scope = "true)"
	}
	return "SELECT pg_catalog.set_config('" + ownRows + "', " + pool.QuoteLiteral(rows) + ", " + scope
}

// hideOwn takes the rows away.
func hideOwn(c *pool.Conn) {
	_, err := c.Exec(setOwn("", false))
	c.Shown = err != nil
}

// showOwnTo does so for a leg, whose statement reads them beside other tables.
func (s *Session) showOwnTo(l *leg, f *parser.Facts) error {
	return s.showOwn(l.conn, f, false, func(sql string) error { return s.execBeside(l.conn, sql) })
}

// ownJSON is the rows of the views that a text reads, by name of the view.
func (s *Session) ownJSON(f *parser.Facts) string {
	src := adminSource{srv: s.srv, database: s.db.Name}
	viewer := console.Viewer{User: s.user, Database: s.db.Name, All: s.monitors(s.ctx)}
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
		out = append(append(out, '"', ':'), s.spreadRows(view, src, viewer)...)
	}
	return string(append(out, '}'))
}

// spreadRows is the rows of a view, those of other proxies included if each has its own.
func (s *Session) spreadRows(view *console.View, src adminSource, viewer console.Viewer) []byte {
	rows := view.Table(s.ctx, src, viewer).JSON()
	if !view.Spread {
		return rows
	}
	answers, silent := s.srv.askPeers(s.ctx, peerQuestion{View: view.Name, User: viewer.User, All: viewer.All})
	s.warnSilent(silent, "weft."+view.Name+" is without its rows")
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

// monitors reports whether the client may see what concerns others: as in
// PostgreSQL, superusers and members of pg_read_all_stats, which pg_monitor is, and
// users of the admin database. It is the role it has logged in as that counts, not
// one it has SET.
func (s *Session) monitors(ctx context.Context) bool {
	if s.srv.isAdmin(s.user) {
		return true
	}
	c, err := s.srv.dialService(ctx, s.srv.cfg.Snapshot().Home, s.db.Name)
	if err != nil {
		s.log.Warn("cannot ask for the rights of a user", "user", s.user, "err", err)
		return false
	}
	defer c.Terminate()
	name := s.lane.Role() // what it is made on every connection
	if name == "" {
		name = s.lane.LoginRole()
	}
	role := pool.QuoteLiteral(name)
	rows, err := c.Exec("SELECT r.rolsuper OR pg_catalog.pg_has_role(r.oid, 'pg_read_all_stats', 'USAGE') FROM pg_catalog.pg_roles r WHERE r.rolname = " + role)
	return err == nil && len(rows) == 1 && rows[0][0] == "t"
}

// resetStatements makes weft.statements begin anew, on all proxies: all of it, or what
// the client itself has run.
func (s *Session) resetStatements(ctx context.Context) error {
	all := s.monitors(ctx)
	s.srv.resetStatements(s.user, all)
	_, silent := s.srv.askPeers(ctx, peerQuestion{User: s.user, All: all, Reset: true})
	s.warnSilent(silent, "what statements have cost there is not forgotten")
	return nil
}

// warnSilent tells the client of proxies that have not answered.
func (s *Session) warnSilent(silent []error, consequence string) {
	for _, err := range silent {
		s.log.Warn("another proxy did not answer", "err", err)
		s.tell(&pgerr.Error{Severity: pgerr.SeverityWarning, Code: "01000", Message: err.Error(), Detail: "So " + consequence + "."})
	}
}

// knowOwn makes sure that the views a text reads are there, and that the schema it
// is planned by has them: they are made when they are first asked for.
func (s *Session) knowOwn(f *parser.Facts) error {
	if !readsOwn(f) {
		return nil
	}
	if _, err := s.srv.own(s.ctx, s.snap.Home, s.db.Name); err != nil {
		return err
	}
	env, err := s.environment()
	if err != nil || env.Schema.Relation(catalog.Name{Schema: "weft", Name: console.Views[0].Name}) != nil {
		return err
	}
	s.env = nil
	return s.srv.envs.slot(s.db.Name).forget(s.ctx)
}
