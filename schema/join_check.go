package schema

import (
	"fmt"

	"weft/pgerr"
	"weft/quote"
)

// unfit is the refusal of a server.
func (j *join) unfit(hint, format string, args ...any) error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the server of shard %q cannot join: %s", j.shard, fmt.Sprintf(format, args...)).WithHint("%s", hint)
}

// checkServer compares what no database decides.
func (j *join) checkServer() error {
	const query = "SELECT current_setting('server_version_num')::int / 10000, pg_is_in_recovery(), current_setting('max_prepared_transactions')::int, (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)"
	want, err := j.home.Exec(query)
	if err != nil {
		return err
	}
	got, err := j.there.Exec(query)
	if err != nil {
		return err
	}
	switch {
	case got[0][0] != want[0][0]:
		return j.unfit("All shards must be of one major version.", "it runs PostgreSQL %s, and the home shard %s", got[0][0], want[0][0])
	case got[0][1] == "t":
		return j.unfit("Name the primary, or promote it.", "it is a standby")
	case got[0][2] == "0":
		return j.unfit("Set max_prepared_transactions to at least weft's pool.max_per_shard and restart it.", "prepared transactions are disabled there")
	case got[0][3] != "t":
		return j.unfit("Moving rows needs a service user (service.user in weft.yaml) that is a superuser on every shard.", "user %q is no superuser there", j.cfg.Service)
	}
	return nil
}

// checkOther refuses a server that is a shard already, by whatever name: every row would be there
// twice.
func (j *join) checkOther() error {
	// Servers made from one image share the identifier, and were not started at the same moment.
	const query = "SELECT system_identifier || ' ' || extract(epoch FROM pg_postmaster_start_time()) FROM pg_control_system()"
	own, err := j.there.one(query)
	if err != nil {
		return err
	}
	for i := range j.snap.Shards {
		name := j.snap.Shards[i].Name
		s, err := j.open(name, maintenance)
		if err != nil {
			return err
		}
		other, err := s.one(query)
		s.close()
		if err != nil {
			return err
		}
		if other == own {
			return j.unfit("Name another server.", "it is the server of shard %q", name)
		}
	}
	return nil
}

// unjoined is the comment on databases that weft has made for a shard that has not joined yet.
func (j *join) unjoined() string { return "weft: made for " + j.shard + ", which has not joined yet" }

// there lists the databases of the new server: name, comment, encoding, locale.
const databasesQuery = "SELECT datname, coalesce(shobj_description(oid, 'pg_database'), ''), pg_encoding_to_char(encoding), datcollate || ', ' || datctype FROM pg_database WHERE datallowconn AND NOT datistemplate ORDER BY 1"

// checkEmpty refuses a server that has anything that users have made.
func (j *join) checkEmpty() error {
	rows, err := j.there.Exec(databasesQuery)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r[1] == j.unjoined() {
			continue
		}
		s, err := j.open(j.shard, r[0])
		if err != nil {
			return err
		}
		found, err := s.Exec("SELECT c.oid::regclass::text, count(*) OVER () FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.oid >= 16384 AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f') " +
			"AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'weft', 'weft_gate') AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.classid = 'pg_class'::regclass AND d.deptype = 'e') ORDER BY 1 LIMIT 1")
		s.close()
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return j.unfit("A shard begins empty. If nothing needs what is there, drop the database; a database that is to be sharded becomes the home shard.",
				"its database %q has %s relations, %s among them", r[0], found[0][1], found[0][0])
		}
	}
	return nil
}

// checkDatabases compares the databases that both servers have, and looks for the extensions.
func (j *join) checkDatabases() error {
	there, err := j.there.Exec(databasesQuery)
	if err != nil {
		return err
	}
	for _, database := range j.databases() {
		want, err := j.home.Exec("SELECT pg_encoding_to_char(encoding), datcollate || ', ' || datctype FROM pg_database WHERE datname = " + quote.Literal(database))
		if err != nil {
			return err
		}
		if len(want) == 0 {
			return fmt.Errorf("the home shard has no database %q", database)
		}
		for _, r := range there {
			if r[0] == database && r[1] != j.unjoined() && (r[2] != want[0][0] || r[3] != want[0][1]) {
				return j.unfit("Drop it there: weft makes it as it is on the home shard.", "its database %q has encoding %s and locale %s, and on the home shard %s and %s", database, r[2], r[3], want[0][0], want[0][1])
			}
		}
		if err := j.checkExtensions(database); err != nil {
			return err
		}
	}
	return nil
}

// checkExtensions looks whether the server has the extensions of a database.
func (j *join) checkExtensions(database string) error {
	home, err := j.open(j.snap.Home, database)
	if err != nil {
		return err
	}
	rows, err := home.Exec("SELECT extname, extversion FROM pg_extension ORDER BY 1")
	home.close()
	if err != nil {
		return err
	}
	for _, r := range rows {
		found, err := j.there.one("SELECT 1 FROM pg_available_extension_versions WHERE name = " + quote.Literal(r[0]) + " AND version = " + quote.Literal(r[1]))
		if err != nil {
			return err
		}
		if found == "" {
			return j.unfit("Install the extension's package there.", "it lacks version %s of extension %q, which database %q uses", r[1], r[0], database)
		}
	}
	return nil
}
