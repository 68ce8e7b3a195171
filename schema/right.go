package schema

import (
	"fmt"
	"slices"

	"weft/pgerr"
)

// Roles and default privileges belong to a server or a database, not to a table. weft brings them
// to the other shards if the declaring user may make roles there.

// rolesQuery returns the roles of a server: the name and the statement that makes the role.
const rolesQuery = `SELECT rolname, format('CREATE ROLE %I WITH %s %s %s %s %s %s %s CONNECTION LIMIT %s%s%s', rolname,
  CASE WHEN rolsuper THEN 'SUPERUSER' ELSE 'NOSUPERUSER' END, CASE WHEN rolinherit THEN 'INHERIT' ELSE 'NOINHERIT' END,
  CASE WHEN rolcreaterole THEN 'CREATEROLE' ELSE 'NOCREATEROLE' END, CASE WHEN rolcreatedb THEN 'CREATEDB' ELSE 'NOCREATEDB' END,
  CASE WHEN rolcanlogin THEN 'LOGIN' ELSE 'NOLOGIN' END, CASE WHEN rolreplication THEN 'REPLICATION' ELSE 'NOREPLICATION' END,
  CASE WHEN rolbypassrls THEN 'BYPASSRLS' ELSE 'NOBYPASSRLS' END, rolconnlimit,
  ' PASSWORD ' || quote_literal(rolpassword), ' VALID UNTIL ' || quote_literal(rolvaliduntil::text))
FROM pg_authid WHERE rolname !~ '^pg_' ORDER BY rolname`

// membersQuery returns the statements that make roles members of roles.
const membersQuery = `SELECT format('GRANT %I TO %I%s', r.rolname, m.rolname, CASE WHEN a.admin_option THEN ' WITH ADMIN OPTION' END)
FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member WHERE r.oid >= 16384 OR m.oid >= 16384 ORDER BY 1`

// roleSettingsQuery lists the settings of roles and of this database: whose setting it is, and its
// text in pg_db_role_setting.
const roleSettingsQuery = `SELECT CASE WHEN s.setrole = 0 THEN '' ELSE r.rolname END, CASE WHEN s.setdatabase = 0 THEN '' ELSE current_database() END, c
FROM pg_db_role_setting s CROSS JOIN unnest(s.setconfig) c LEFT JOIN pg_roles r ON r.oid = s.setrole
WHERE s.setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database())) AND (s.setrole = 0 OR r.oid >= 16384) ORDER BY 1, 2, 3`

// bringRoles makes the roles that another shard lacks, in the transaction there. A user who is not
// a superuser on both sides cannot; a missing role that the table needs is reported later.
func (d *declaration) bringRoles(s *session) error {
	const super = "SELECT rolsuper FROM pg_roles WHERE rolname = current_user"
	for _, side := range []*session{d.home, s} {
		if is, err := side.one(super); err != nil || is != "t" {
			return err
		}
	}
	if err := d.makeRoles(s); err != nil {
		return err
	}
	if err := d.bringLines(s, membersQuery, firstColumn); err != nil {
		return err
	}
	return d.bringLines(s, roleSettingsQuery, settingLine)
}

// firstColumn returns the statement in a row of a query that writes statements.
func firstColumn(row []string) string { return row[0] }

// makeRoles makes the roles that another shard lacks.
func (d *declaration) makeRoles(s *session) error {
	roles, err := d.home.Exec(rolesQuery)
	if err != nil {
		return err
	}
	there, err := s.Exec("SELECT rolname FROM pg_roles")
	if err != nil {
		return err
	}
	for _, r := range roles {
		if !slices.ContainsFunc(there, func(t []string) bool { return t[0] == r[0] }) {
			if err := s.only(r[1]); err != nil {
				return err
			}
		}
	}
	return nil
}

// defaultsQuery lists what ALTER DEFAULT PRIVILEGES has said.
const defaultsQuery = `WITH a AS (SELECT a.oid, a.defaclacl, a.defaclnamespace <> 0 AS inside, concat('ALTER DEFAULT PRIVILEGES FOR ROLE ', quote_ident(pg_get_userbyid(a.defaclrole)), ' IN SCHEMA ' || quote_ident(n.nspname)) AS head,
  CASE a.defaclobjtype WHEN 'r' THEN 'TABLES' WHEN 'S' THEN 'SEQUENCES' WHEN 'f' THEN 'FUNCTIONS' WHEN 'T' THEN 'TYPES' ELSE 'SCHEMAS' END AS what, pg_get_userbyid(a.defaclrole) AS owner
  FROM pg_default_acl a LEFT JOIN pg_namespace n ON n.oid = a.defaclnamespace)
SELECT line FROM (
  SELECT 0 AS rank, format('%s REVOKE ALL ON %s FROM PUBLIC, %I', head, what, owner) AS line FROM a WHERE NOT inside
  UNION ALL SELECT 1, format('%s GRANT %s ON %s TO %s%s', head, string_agg(x.privilege_type, ', ' ORDER BY x.privilege_type), what,
    CASE x.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(x.grantee)) END, CASE WHEN x.is_grantable THEN ' WITH GRANT OPTION' END)
  FROM a, aclexplode(a.defaclacl) x GROUP BY head, what, x.grantee, x.is_grantable) l ORDER BY rank, line`

// publicQuery lists the rights on the schema that every database has.
var publicQuery = "SELECT line FROM (" + grantsOf("SCHEMA", "quote_ident(o.nspname)", "(SELECT * FROM pg_namespace WHERE nspname = 'public') o", "o.nspowner", "o.nspacl") + ") AS l(line) ORDER BY line LIKE 'GRANT%', line"

// bringRights brings default privileges and those on schema public.
func (d *declaration) bringRights(s *session) error {
	for _, query := range []string{publicQuery, defaultsQuery} {
		if err := d.bringLines(s, query, firstColumn); err != nil {
			return err
		}
	}
	return nil
}

// bringLines runs on another shard what a query says on the home shard, unless it
// says the same there. line makes a statement of a row.
func (d *declaration) bringLines(s *session, query string, line func(row []string) string) error {
	want, err := d.home.Exec(query)
	if err != nil {
		return err
	}
	have, err := s.Exec(query)
	if err != nil {
		return err
	}
	if len(want) == 0 || slices.EqualFunc(want, have, slices.Equal[[]string]) {
		return nil
	}
	const point = `"\x01c"`
	if err := s.run("SAVEPOINT " + point); err != nil {
		return err
	}
	for _, row := range want {
		if err = s.only(line(row)); err != nil {
			break
		}
	}
	if err == nil {
		return s.run("RELEASE " + point)
	}
	d.notice(&pgerr.Error{
		Severity: pgerr.SeverityNotice, Code: "00000",
		Message: fmt.Sprintf("not all roles and rights of the home shard are on shard %s: %s", s.shard, pgerr.From(err).Message),
	})
	return s.run("ROLLBACK TO " + point + "; RELEASE " + point)
}
