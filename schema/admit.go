package schema

import (
	"errors"

	"weft/pgerr"
)

// A server that has just become a shard knows neither the roles nor the database of the
// application. weft's own user makes them there, as they are on the home shard, when the first
// table is declared.

// maintenance is a database that every server has.
const maintenance = "postgres"

// databaseQuery returns the statement that makes the current database. The columns that name the
// provider of its locale depend on the server's version.
const databaseQuery = `SELECT concat(format('CREATE DATABASE %I OWNER %I TEMPLATE template0 ENCODING %L LC_COLLATE %L LC_CTYPE %L CONNECTION LIMIT %s',
  d.datname, pg_get_userbyid(d.datdba), pg_encoding_to_char(d.encoding), d.datcollate, d.datctype, d.datconnlimit),
  CASE j.of->>'datlocprovider' WHEN 'i' THEN format(' LOCALE_PROVIDER icu ICU_LOCALE %L', coalesce(j.of->>'datlocale', j.of->>'daticulocale'))
  WHEN 'b' THEN format(' LOCALE_PROVIDER builtin BUILTIN_LOCALE %L', j.of->>'datlocale') END)
FROM pg_database d CROSS JOIN LATERAL (SELECT to_jsonb(d) AS of) j WHERE d.datname = current_database()`

// stranger reports whether a login failed because the role or the database does not exist. A server
// that asks for a password does not tell which of the two.
func stranger(err error) bool {
	e := (*pgerr.Error)(nil)
	return errors.As(err, &e) &&
		(e.Code == pgerr.InvalidAuthorizationSpec || e.Code == pgerr.InvalidPassword || e.Code == pgerr.InvalidCatalogName)
}

// admit makes the roles and the database that the declaring user needs to log in to a shard.
func (d *declaration) admit(shard string) error {
	as := func(shard, database string) (*session, error) {
		return open(d.ctx, d.cfg.Shards, shard, database, d.cfg.Service, application(d.table.Job.ID))
	}
	home, err := as(d.snap.Home, d.req.Database)
	if err != nil {
		return err
	}
	defer home.close()
	own := &declaration{Mover: d.Mover, ctx: d.ctx, req: d.req, home: home, notice: d.notice}
	s, err := as(shard, d.req.Database)
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.InvalidCatalogName {
		m, err := as(shard, maintenance)
		if err != nil {
			return err
		}
		err = own.makeDatabase(m)
		m.close()
		if err != nil {
			return err
		}
		if s, err = as(shard, d.req.Database); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	defer s.close()
	if err := s.run("BEGIN"); err != nil {
		return err
	}
	if err := own.bringRoles(s); err != nil {
		return err
	}
	if err := own.bringRights(s); err != nil {
		return err
	}
	return s.run("COMMIT")
}

// makeDatabase makes the roles, one of which owns the database, and then the database on another
// shard.
func (d *declaration) makeDatabase(s *session) error {
	text, err := d.home.one(databaseQuery)
	if err != nil {
		return err
	}
	if err := d.makeRoles(s); err != nil {
		return err
	}
	err = s.run(text)
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == "42P04" {
		return nil // a declaration of another table has made it first
	}
	if err == nil {
		d.notice.tell("database %q has been made on shard %s", d.req.Database, s.shard)
	}
	return err
}

// unadmitted is the error of a shard that does not know the declaring user. It ends the attempt,
// not the session.
func unadmitted(shard, user string, err error) error {
	return pgerr.New(pgerr.InvalidAuthorizationSpec, "%q cannot log in to shard %q: %s", user, shard, pgerr.From(err).Message).
		WithHint("Make the role and the database on that server, or let weft do so: its service user must be a superuser on all shards.").WithCause(err)
}
