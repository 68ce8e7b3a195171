package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// A shard joins with everything that the others have alike: roles, databases, types and functions,
// declared tables, views of them, the rows of reference tables. All of it is read from the home
// shard and made while nobody looks: no proxy knows the shard yet. Whoever goes on after a death
// begins anew, with databases made anew: a comment tells those that weft has made for a shard that
// has not joined.

// CheckJoin refuses a server that cannot become the shard of that name.
func (m *Mover) CheckJoin(ctx context.Context, snap *directory.Snapshot, shard string) error {
	j, err := m.newJoin(ctx, snap, shard)
	if err != nil {
		return m.ended(ctx, err)
	}
	defer j.close()
	for _, step := range []func() error{j.checkServer, j.checkOther, j.checkEmpty, j.checkDatabases} {
		if err := step(); err != nil {
			return m.ended(ctx, err)
		}
	}
	return nil
}

// join makes a server ready to become a shard.
type join struct {
	*Mover
	ctx   context.Context
	snap  *directory.Snapshot
	shard string
	home  *session // in the maintenance database
	there *session // in the maintenance database of the new server
}

func (m *Mover) newJoin(ctx context.Context, snap *directory.Snapshot, shard string) (*join, error) {
	j := &join{Mover: m, ctx: ctx, snap: snap, shard: shard}
	var err error
	if j.home, err = j.open(snap.Home, maintenance); err != nil {
		return nil, err
	}
	if j.there, err = j.open(shard, maintenance); err != nil {
		j.close()
		return nil, err
	}
	return j, nil
}

func (j *join) open(shard, database string) (*session, error) {
	return open(j.ctx, j.cfg.Shards, shard, database, j.cfg.Service, "weft join "+j.shard)
}

func (j *join) close() {
	j.home.close()
	j.there.close()
}

// databases are those with declared tables.
func (j *join) databases() []string {
	var out []string
	for i := range j.snap.Tables {
		if d := j.snap.Tables[i].Database; !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

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

// EquipShard makes on a server that is to join everything that shards have alike.
func (m *Mover) EquipShard(ctx context.Context, snap *directory.Snapshot, shard string) error {
	j, err := m.newJoin(ctx, snap, shard)
	if err != nil {
		return m.ended(ctx, err)
	}
	defer j.close()
	for _, database := range j.databases() {
		for _, t := range snap.Declared(database) {
			if t.State != directory.Active {
				return pgerr.New(pgerr.ObjectInUse, "%q is being %s", t.Schema+"."+t.Name, progress(t.State)).WithHint("Wait for it to end.")
			}
		}
		if err := j.equip(database); err != nil {
			return m.ended(ctx, fmt.Errorf("database %s: %w", database, err))
		}
		if err := m.cfg.step("equipped " + database); err != nil {
			return err
		}
	}
	return nil
}

// equip makes one database.
func (j *join) equip(database string) error {
	home, err := j.open(j.snap.Home, database)
	if err != nil {
		return err
	}
	defer home.close()
	req := &Request{Database: database, User: j.cfg.Service}
	d := &declaration{
		Mover: j.Mover, ctx: j.ctx, req: req, snap: j.snap.For(database), home: home,
		notice: func(e *pgerr.Error) {
			j.cfg.Log.Info("a shard joins", "shard", j.shard, "database", database, "notice", e.Message)
		},
	}
	if err := j.makeDatabase(d); err != nil {
		return err
	}
	s, err := j.open(j.shard, database)
	if err != nil {
		return err
	}
	defer s.close()
	d.shards = []*session{s}
	tables, err := j.makeTables(d, s)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if t.reference {
			if _, err := j.fill(home, database, t.def); err != nil {
				return err
			}
		}
	}
	if err := j.complete(d, s, tables); err != nil {
		return err
	}
	if _, err := Install(j.ctx, j.cfg.Shards, j.snap.Cluster, j.shard, database, j.cfg.Service); err != nil {
		return err
	}
	if err := j.makeLookups(home, s); err != nil {
		return err
	}
	return j.makeGuards(database)
}

// makeDatabase makes the database anew, unless the server has an empty one.
func (j *join) makeDatabase(d *declaration) error {
	name := quote.Ident(d.req.Database)
	comment, err := j.there.one("SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = " + quote.Literal(d.req.Database))
	if err != nil {
		return err
	}
	if comment == j.unjoined() {
		from := j.there
		if d.req.Database == maintenance {
			if from, err = j.open(j.shard, "template1"); err != nil {
				return err
			}
			defer from.close()
			j.there.close()
		}
		if err := from.run("DROP DATABASE " + name + " WITH (FORCE)"); err != nil {
			return err
		}
		if err := d.makeDatabase(from); err != nil {
			return err
		}
		if d.req.Database == maintenance {
			if j.there, err = j.open(j.shard, maintenance); err != nil {
				return err
			}
		}
	} else if err := d.makeDatabase(j.there); err != nil {
		return err
	}
	return j.there.run("COMMENT ON DATABASE " + name + " IS " + quote.Literal(j.unjoined()))
}

// joining is a declared table on its way to the new server.
type joining struct {
	def       *Definition
	reference bool
}

// makeTables makes the roles and the tables, without what belongs after the rows.
func (j *join) makeTables(d *declaration, s *session) ([]*joining, error) {
	var tables []*joining
	for _, t := range d.snap.Declared(d.req.Database) {
		def, err := readDefinition(d.home, catalog.Name{Schema: t.Schema, Name: t.Name})
		if err != nil {
			return nil, err
		}
		tables = append(tables, &joining{def, t.Kind == directory.Reference})
	}
	if err := s.run("BEGIN"); err != nil {
		return nil, err
	}
	if err := d.bringRoles(s); err != nil {
		return nil, err
	}
	if err := d.bringRights(s); err != nil {
		return nil, err
	}
	err := inAnyOrder(s, tables, func(t *joining) error { return t.def.apply(s) })
	if err != nil {
		return nil, err
	}
	return tables, s.run("COMMIT")
}

// inAnyOrder does something with each item, in a transaction. What fails because of something that
// is missing is tried again after the others, as long as any succeeds.
func inAnyOrder[T any](s *session, items []T, do func(T) error) error {
	const point = `"\x01j"`
	for left := items; len(left) > 0; {
		var later []T
		var failed error
		for _, item := range left {
			if err := s.run("SAVEPOINT " + point); err != nil {
				return err
			}
			err := do(item)
			if err == nil {
				if err := s.run("RELEASE " + point); err != nil {
					return err
				}
				continue
			}
			if !missingSomething(err) {
				return err
			}
			if err := s.run("ROLLBACK TO "+point, "RELEASE "+point); err != nil {
				return err
			}
			later, failed = append(later, item), err
		}
		if len(later) == len(left) {
			return failed
		}
		left = later
	}
	return nil
}

// missingSomething reports whether an error says that something does not exist, or has no unique
// index that a foreign key needs.
func missingSomething(err error) bool {
	var e *pgerr.Error
	if !errors.As(err, &e) {
		return false
	}
	return slices.Contains([]string{pgerr.UndefinedTable, pgerr.UndefinedObject, pgerr.UndefinedFunction, pgerr.UndefinedColumn, pgerr.InvalidForeignKey, "3F000"}, e.Code)
}

// complete makes what belongs after the rows, the views, and what else users have made.
func (j *join) complete(d *declaration, s *session, tables []*joining) error {
	schema, err := catalog.Load(0, d.home.Exec)
	if err != nil {
		return err
	}
	if err := s.run("BEGIN"); err != nil {
		return err
	}
	var after []string
	for _, t := range tables {
		after = append(after, t.def.After...)
	}
	if err := inAnyOrder(s, after, func(sql string) error { return s.only(sql) }); err != nil {
		return err
	}
	for _, t := range tables {
		d.req.Table = t.def.Name
		d.seen = &sight{judgement: &judgement{snap: d.snap, schema: schema, def: t.def, req: d.req}, def: t.def}
		views, err := d.copiedViews()
		if err != nil {
			return err
		}
		if err := applyObjects(s, views); err != nil {
			return err
		}
	}
	if d.seen != nil {
		if err := d.bring(); err != nil {
			return err
		}
	}
	return s.run("COMMIT")
}

// makeLookups makes the lookup tables, which are empty: the shard has no buckets.
func (j *join) makeLookups(home, s *session) error {
	found, err := home.one("SELECT to_regclass('weft.lookup')")
	if err != nil || found == "" {
		return err
	}
	if err := installLookups(s); err != nil {
		return err
	}
	rows, err := home.Exec(`SELECT state, name, format('SELECT weft.lookup_add(%L, %L::regclass, %L::text[], %L::text[], %L::text[], %L::bool, coalesce(to_regclass(%L)::oid, 0), %L, %L, %L, '''')',
  name, owner::regclass, names[1:cardinality(columns)], names[cardinality(columns)+1:], types, single, CASE WHEN index <> 0 THEN index::regclass::text END, state, id_sql, bucket_sql) FROM weft.lookup ORDER BY name`)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r[0] != "public" {
			return pgerr.New(pgerr.ObjectInUse, "lookup %q is being made or dropped", r[1]).WithHint("Wait for it to end.")
		}
		if err := s.run("BEGIN", r[2], "SELECT weft.lookup_make("+quote.Literal(r[1])+")", "COMMIT"); err != nil {
			return err
		}
	}
	return nil
}

// makeGuards tells the server by which columns tables are sharded.
func (j *join) makeGuards(database string) error {
	var calls []string
	for _, t := range j.snap.Declared(database) {
		if guardable(t) {
			calls = append(calls, guardCall(&t))
		}
	}
	_, err := j.guard(j.ctx, &directory.Snapshot{Shards: []directory.Shard{{Name: j.shard}}}, database, calls)
	return err
}

// JoinShard says on the server that it has joined: its databases are no longer made anew.
func (m *Mover) JoinShard(ctx context.Context, snap *directory.Snapshot, shard string) error {
	j := &join{Mover: m, ctx: ctx, snap: snap, shard: shard}
	s, err := j.open(shard, maintenance)
	if err != nil {
		return err
	}
	defer s.close()
	for _, database := range j.databases() {
		comment, err := s.one("SELECT coalesce(shobj_description(oid, 'pg_database'), '') FROM pg_database WHERE datname = " + quote.Literal(database))
		if err == nil && comment == j.unjoined() {
			err = s.run("COMMENT ON DATABASE " + quote.Ident(database) + " IS NULL")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// MatchReferences makes the copies of reference tables on a server that is to join equal to those
// of the home shard, and keeps them from changing until release is called. The caller holds writes
// over several shards. What is left of them on the home shard, such as prepared transactions, is
// waited for.
func (m *Mover) MatchReferences(ctx context.Context, snap *directory.Snapshot, shard string) (release func(), err error) {
	j := &join{Mover: m, ctx: ctx, snap: snap, shard: shard}
	var held []*session
	release = func() {
		for _, s := range held {
			s.close()
		}
	}
	for _, database := range j.databases() {
		home, err := j.open(snap.Home, database)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, home)
		if err := j.match(home, database); err != nil {
			release()
			return nil, m.ended(ctx, fmt.Errorf("database %s: %w", database, err))
		}
	}
	return release, nil
}

// match makes the copies of one database equal, in a transaction on home that stays open.
func (j *join) match(home *session, database string) error {
	if err := home.run("BEGIN"); err != nil {
		return err
	}
	var tables []catalog.Name
	for _, t := range j.snap.Declared(database) {
		if t.Kind == directory.Reference {
			tables = append(tables, catalog.Name{Schema: t.Schema, Name: t.Name})
		}
	}
	if len(tables) == 0 {
		return nil
	}
	var names []string
	for _, t := range tables {
		names = append(names, t.SQL())
	}
	if err := home.run("LOCK TABLE " + strings.Join(names, ", ") + " IN SHARE ROW EXCLUSIVE MODE"); err != nil {
		return err
	}
	s, err := j.open(j.shard, database)
	if err != nil {
		return err
	}
	defer s.close()
	for _, t := range tables {
		same, err := sameRows(home, s, t)
		if err != nil {
			return err
		}
		if same {
			continue
		}
		def, err := readDefinition(home, t)
		if err != nil {
			return err
		}
		if _, err := j.fill(home, database, def); err != nil {
			return err
		}
		if same, err = sameRows(home, s, t); err != nil || !same {
			return errors.Join(err, fmt.Errorf("the copy of %s differs from the home shard's after it was made anew", t.SQL()))
		}
	}
	return nil
}

// sameRows reports whether two shards have the same rows of a table.
func sameRows(a, b *session, table catalog.Name) (bool, error) {
	columns, err := a.one("SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) FROM pg_attribute WHERE attrelid = " + quote.Literal(table.SQL()) + "::regclass AND attnum > 0 AND NOT attisdropped")
	if err != nil {
		return false, err
	}
	// The sum of two halves of each row's hash is the same for the same rows in any order.
	query := "SELECT count(*) || ' ' || coalesce(sum(('x' || left(h, 15))::bit(60)::bigint), 0)::text || ' ' || coalesce(sum(('x' || right(h, 15))::bit(60)::bigint), 0)::text FROM (SELECT md5(ROW(" +
		columns + ")::text) h FROM " + table.SQL() + ") q"
	x, err := a.one(query)
	if err != nil {
		return false, err
	}
	y, err := b.one(query)
	return x == y, err
}

// fill copies the rows of a reference table to the new server. It runs as the table's owner there
// if storing the rows runs code that nobody else should run.
func (j *join) fill(home *session, database string, def *Definition) (int64, error) {
	user := j.cfg.Service
	if def.steward != "" {
		user = def.steward
	}
	s, err := open(j.ctx, j.cfg.Shards, j.shard, database, user, "weft join "+j.shard)
	if err != nil {
		return 0, err
	}
	defer s.close()
	name := def.Name.SQL()
	if err := s.run("BEGIN"); err != nil {
		return 0, err
	}
	forced, err := exempt(s, def.Name)
	if err != nil {
		return 0, err
	}
	on, err := quietTriggers(s, def.Name)
	if err != nil {
		return 0, err
	}
	if err := s.run("DELETE FROM " + name); err != nil {
		return 0, err
	}
	split := &splitter{all: true, progress: func(int64) {}}
	taken, err := copyRows(home, "SELECT "+strings.Join(def.Columns, ", ")+" FROM "+name, []*session{s}, name+columnList(def.Columns), split)
	if err != nil {
		return 0, err
	}
	if err := s.run(append(append(on, forced...), "COMMIT")...); err != nil {
		return 0, err
	}
	return taken[j.shard], s.run("ANALYZE " + name)
}
