package importer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/quote"
)

// application is the name that the importer's sessions have on both sides. The cut-over leaves them alone.
const application = "weft import"

// settings make both sides write every value in the same way, and end nothing by a timeout.
var settings = map[string]string{
	"application_name": application, "search_path": "", "client_encoding": "UTF8", "timezone": "UTC", "datestyle": "ISO", "intervalstyle": "postgres",
	"extra_float_digits": "3", "bytea_output": "hex", "lc_monetary": "C", "xmloption": "content", "statement_timeout": "0", "lock_timeout": "0",
	"idle_in_transaction_session_timeout": "0", "default_transaction_read_only": "off", "row_security": "off",
}

// dial connects to a server as the importer does.
func dial(ctx context.Context, cfg *pgx.ConnConfig, more ...string) (*pgx.Conn, error) {
	cfg = cfg.Copy()
	if cfg.RuntimeParams == nil {
		cfg.RuntimeParams = map[string]string{}
	}
	for k, v := range settings {
		cfg.RuntimeParams[k] = v
	}
	for i := 0; i+1 < len(more); i += 2 {
		cfg.RuntimeParams[more[i]] = more[i+1]
	}
	// What a plan depends on may change while it is kept.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeDescribeExec
	return pgx.ConnectConfig(ctx, cfg)
}

// surveyTables are the tables of a database that a user has made, with all there is to know of them.
const surveyTables = `
SELECT n.nspname::text, c.relname::text, c.relkind = 'p', c.relpersistence = 'u', c.relreplident::text,
	EXISTS (SELECT FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid WHERE p.isleaf AND c.relkind = 'p' AND l.relreplident <> c.relreplident),
	coalesce(k.primary_key, '{}'), coalesce(k.identity, '{}'),
	EXISTS (SELECT FROM pg_trigger g WHERE g.tgrelid = c.oid AND NOT g.tgisinternal),
	CASE WHEN c.relkind = 'p' THEN (SELECT sum(greatest(l.reltuples, 0))::bigint FROM pg_partition_tree(c.oid) p JOIN pg_class l ON l.oid = p.relid WHERE p.isleaf) ELSE greatest(c.reltuples, 0)::bigint END,
	CASE WHEN c.relkind = 'p' THEN (SELECT sum(pg_table_size(p.relid))::bigint FROM pg_partition_tree(c.oid) p WHERE p.isleaf) ELSE pg_table_size(c.oid) END,
	a.names, a.types, a.identities
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace,
LATERAL (SELECT coalesce(array_agg(a.attname::text ORDER BY a.attnum), '{}') AS names, coalesce(array_agg(format_type(a.atttypid, a.atttypmod) ORDER BY a.attnum), '{}') AS types,
	coalesce(array_agg(a.attidentity::text ORDER BY a.attnum), '{}') AS identities
	FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '') a,
LATERAL (SELECT array_agg(a.attname::text) FILTER (WHERE i.indisprimary) AS primary_key, array_agg(a.attname::text) FILTER (WHERE i.indisreplident) AS identity
	FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey[0:i.indnkeyatts - 1]) WHERE i.indrelid = c.oid) k
WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence <> 't'
AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'weft', 'weft_gate', 'weft_import')
AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e')
ORDER BY 1, 2`

// readTables returns the tables of a database.
func readTables(ctx context.Context, c *pgx.Conn) ([]Table, error) {
	rows, err := c.Query(ctx, surveyTables)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (t Table, err error) {
		var identity string
		var primary, index, names, types, identities []string
		var count, size *int64
		if err := row.Scan(&t.Schema, &t.Name, &t.Partitioned, &t.Unlogged, &identity, &t.Mixed, &primary, &index, &t.Triggers, &count, &size, &names, &types, &identities); err != nil {
			return t, err
		}
		if count != nil && size != nil { // a partitioned table may have no partitions
			t.Rows, t.Bytes = *count, *size
		}
		for i := range names {
			t.Columns = append(t.Columns, Column{Name: names[i], Type: types[i], Identity: identities[i] != "", Always: identities[i] == "a"})
		}
		t.Identity, t.Key = Identity(identity[0]), primary
		switch t.Identity {
		case KeyIdentity:
			if len(primary) == 0 {
				t.Identity = NoIdentity
			}
		case IndexIdentity:
			t.Key = index
			if len(index) == 0 { // it was dropped
				t.Identity = NoIdentity
			}
		}
		return t, nil
	})
}

// survey reads what there is to know of the source.
func survey(ctx context.Context, c *pgx.Conn) (*Survey, error) {
	s := &Survey{}
	err := c.QueryRow(ctx, `SELECT current_database()::text, current_setting('server_version_num')::int, pg_encoding_to_char(d.encoding)::text, d.datcollate::text,
		current_setting('wal_level'), (SELECT count(*) FROM pg_replication_slots), current_setting('max_replication_slots')::int,
		(SELECT count(*) FROM pg_stat_replication), current_setting('max_wal_senders')::int, current_setting('max_slot_wal_keep_size'),
		(SELECT rolsuper OR rolreplication OR EXISTS (SELECT FROM pg_roles m WHERE m.rolname IN ('rds_replication', 'cloudsqlsuperuser') AND pg_has_role(m.oid, 'MEMBER')) FROM pg_roles WHERE rolname = current_user),
		(SELECT count(*) FROM pg_largeobject_metadata), (SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database())
		FROM pg_database d WHERE d.datname = current_database()`).Scan(&s.Database, &s.Version, &s.Encoding, &s.Collate, &s.WALLevel, &s.Slots, &s.MaxSlots, &s.Senders, &s.MaxSenders, &s.KeepSize, &s.Replicates, &s.LargeObjects, &s.Prepared)
	if err != nil {
		return nil, err
	}
	if s.Tables, err = readTables(ctx, c); err != nil {
		return nil, err
	}
	err = c.QueryRow(ctx, `SELECT has_database_privilege(current_database(), 'CREATE') AND NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind IN ('r', 'p') AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname <> 'information_schema' AND NOT pg_has_role(c.relowner, 'USAGE'))`).Scan(&s.Owns)
	if err != nil {
		return nil, err
	}
	for _, list := range []struct {
		into *[]string
		sql  string
	}{
		{&s.Extensions, "SELECT extname::text FROM pg_extension WHERE extname <> 'plpgsql' ORDER BY 1"},
		{&s.Roles, `SELECT DISTINCT r.rolname::text FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid WHERE d.refclassid = 'pg_authid'::regclass
			AND d.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) AND d.deptype IN ('o', 'a', 'r') ORDER BY 1`},
		{&s.Collations, `SELECT DISTINCT l.collname::text FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_collation l ON l.oid = a.attcollation
			WHERE c.relkind IN ('r', 'p') AND l.collnamespace = 'pg_catalog'::regnamespace AND l.collname NOT IN ('default', 'C', 'POSIX') AND c.relnamespace <> 'pg_catalog'::regnamespace
			AND c.relnamespace <> 'information_schema'::regnamespace ORDER BY 1`},
		{&s.Foreign, `SELECT c.relnamespace::regnamespace || '.' || c.relname FROM pg_class c WHERE c.relkind = 'f' ORDER BY 1`},
	} {
		if *list.into, err = readList(ctx, c, list.sql); err != nil {
			return nil, err
		}
	}
	if s.Materialized, err = materialized(ctx, c); err != nil {
		return nil, err
	}
	s.Links, err = readLinks(ctx, c)
	return s, err
}

func readList(ctx context.Context, c *pgx.Conn, sql string) ([]string, error) {
	rows, err := c.Query(ctx, sql)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[string])
}

// materialized returns the materialized views, each after those that it reads.
func materialized(ctx context.Context, c *pgx.Conn) ([]string, error) {
	return readList(ctx, c, `WITH RECURSIVE v AS (
		SELECT c.oid, 0 AS depth FROM pg_class c WHERE c.relkind = 'm'
		UNION
		SELECT r.ev_class, v.depth + 1 FROM v JOIN pg_depend d ON d.refobjid = v.oid AND d.refclassid = 'pg_class'::regclass AND d.classid = 'pg_rewrite'::regclass
			JOIN pg_rewrite r ON r.oid = d.objid WHERE r.ev_class <> v.oid AND v.depth < 50)
		SELECT quote_ident(n.nspname) || '.' || quote_ident(c.relname) FROM v JOIN pg_class c ON c.oid = v.oid JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'm' GROUP BY n.nspname, c.relname ORDER BY max(v.depth), 1`)
}

// readLinks returns the foreign keys.
func readLinks(ctx context.Context, c *pgx.Conn) ([]Link, error) {
	rows, err := c.Query(ctx, `SELECT fn.nspname::text, f.relname::text, tn.nspname::text, t.relname::text FROM pg_constraint k JOIN pg_class f ON f.oid = k.conrelid JOIN pg_namespace fn ON fn.oid = f.relnamespace
		JOIN pg_class t ON t.oid = k.confrelid JOIN pg_namespace tn ON tn.oid = t.relnamespace WHERE k.contype = 'f' AND k.conparentid = 0 ORDER BY k.oid`)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (l Link, err error) {
		var from, to Table
		err = row.Scan(&from.Schema, &from.Name, &to.Schema, &to.Name)
		return Link{from.name(), to.name()}, err
	})
}

// readSequences returns what the sequences have come to.
func readSequences(ctx context.Context, c *pgx.Conn) ([]Sequence, error) {
	rows, err := c.Query(ctx, `SELECT n.nspname::text, c.relname::text FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relkind = 'S' AND c.relpersistence <> 't' AND n.nspname !~ '^pg_' AND n.nspname NOT IN ('information_schema', 'weft', 'weft_gate', 'weft_import')
		AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype = 'e') ORDER BY 1, 2`)
	if err != nil {
		return nil, err
	}
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s Sequence, err error) {
		return s, row.Scan(&s.Schema, &s.Name)
	})
	if err != nil {
		return nil, err
	}
	for i := range list {
		if err := c.QueryRow(ctx, "SELECT last_value, is_called FROM "+quote.Name(list[i].Schema, list[i].Name)).Scan(&list[i].Last, &list[i].Called); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// source is the database that is imported, with what was made there for it.
type source struct {
	cfg  *pgx.ConnConfig
	conn *pgx.Conn
	slot string // the slot, and the publication
}

func openSource(ctx context.Context, cfg *pgx.ConnConfig) (*source, error) {
	conn, err := dial(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to the source: %w", err)
	}
	return &source{cfg: cfg, conn: conn, slot: slotName(conn.Config().Database)}, nil
}

// slotName is that of the slot and of the publication for a database of the source.
func slotName(database string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '_'
	}, strings.ToLower(database))
	return "weft_import_" + name[:min(len(name), 63-len("weft_import_")-momentary)]
}

// momentary is how long the ending is that the name of a slot has which only gives a snapshot.
const momentary = len("_1a2b3c")

// lockWait is how long a reader waits for its locks: less than a deadlock of others would last.
const lockWait = "500ms"

func (s *source) close() { closeConn(s.conn) }

func closeConn(c *pgx.Conn) {
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Second)
	defer stop()
	_ = c.Close(ctx) // whatever was under way is over
}

// lock makes this process the one that imports. It is given back when the connection ends.
func (s *source) lock(ctx context.Context, patience time.Duration) (bool, error) {
	deadline := time.Now().Add(patience)
	for {
		var ok bool
		err := s.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock(hashtextextended($1, 0))", s.slot).Scan(&ok)
		if ok || err != nil || time.Now().After(deadline) {
			return ok, err
		}
		if err := sleep(ctx, pollEvery); err != nil {
			return false, err
		}
	}
}

func (s *source) unlock(ctx context.Context) error {
	_, err := s.conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtextextended($1, 0))", s.slot)
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// publish makes the publication, of all tables without row filters: with one the source would refuse changes of
// its own clients.
func (s *source) publish(ctx context.Context, tables []Copied) error {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = quote.Name(tables[i].Schema, tables[i].Name)
	}
	sql := "DROP PUBLICATION IF EXISTS " + quote.Ident(s.slot) + "; CREATE PUBLICATION " + quote.Ident(s.slot)
	if len(names) > 0 {
		sql += " FOR TABLE " + strings.Join(names, ", ")
	}
	_, err := s.conn.PgConn().Exec(ctx, sql+" WITH (publish_via_partition_root = true)").ReadAll()
	return err
}

// replicate opens a connection for the commands of replication.
func (s *source) replicate(ctx context.Context) (*pgx.Conn, error) {
	c, err := dial(ctx, s.cfg, "replication", "database")
	if err != nil {
		return nil, fmt.Errorf("connect to the source for replication: %w", err)
	}
	return c, nil
}

// snapshot is a moment of the source that copies are as of.
type snapshot struct {
	name string
	at   LSN
	conn *pgx.Conn // that keeps it
}

func (s *snapshot) close() { closeConn(s.conn) }

// makeSlot makes the slot that will be followed, with the snapshot that it begins after.
func (s *source) makeSlot(ctx context.Context) (*snapshot, error) {
	if err := s.dropSlot(ctx); err != nil {
		return nil, err
	}
	return s.snapshot(ctx, s.slot, false)
}

// moment makes a snapshot of now, with its place in the WAL. The slot it takes ends with it.
func (s *source) moment(ctx context.Context) (*snapshot, error) {
	for tries := 0; ; tries++ {
		snap, err := s.snapshot(ctx, s.slot+"_"+random(3), true)
		if code(err) != "53400" || tries == 100 { // there are too many
			return snap, err
		}
		if err := sleep(ctx, pollEvery/4); err != nil {
			return nil, err
		}
	}
}

// random is a number of so many bytes.
func random(bytes int) string {
	b := make([]byte, bytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (s *source) snapshot(ctx context.Context, slot string, temporary bool) (*snapshot, error) {
	c, err := s.replicate(ctx)
	if err != nil {
		return nil, err
	}
	made, err := pglogrepl.CreateReplicationSlot(ctx, c.PgConn(), slot, "pgoutput", pglogrepl.CreateReplicationSlotOptions{
		Temporary: temporary, Mode: pglogrepl.LogicalReplication, SnapshotAction: "EXPORT_SNAPSHOT",
	})
	if err != nil {
		closeConn(c)
		return nil, fmt.Errorf("make slot %s: %w", slot, err)
	}
	at, err := pglogrepl.ParseLSN(made.ConsistentPoint)
	if err != nil {
		closeConn(c)
		return nil, err
	}
	return &snapshot{made.SnapshotName, at, c}, nil
}

// reader opens a transaction that sees a snapshot.
func (s *source) reader(ctx context.Context, snap *snapshot) (*pgx.Conn, error) {
	c, err := dial(ctx, s.cfg)
	if err != nil {
		return nil, err
	}
	_, err = c.PgConn().Exec(ctx, "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT "+quote.Literal(snap.name)).ReadAll()
	if err != nil {
		closeConn(c)
		return nil, err
	}
	return c, nil
}

// steady locks tables against TRUNCATE, and reports whether a reader sees them as they were: who reads a table that was truncated after
// the snapshot finds it empty. It reports false, too, if somebody holds a lock.
func steady(ctx context.Context, c *pgx.Conn, tables []Copied) (ok bool, err error) {
	names := make([]string, len(tables))
	for i := range tables {
		names[i] = quote.Name(tables[i].Schema, tables[i].Name)
	}
	_, err = c.PgConn().Exec(ctx, "SET LOCAL lock_timeout = '"+lockWait+"'; LOCK TABLE "+strings.Join(names, ", ")+" IN ACCESS SHARE MODE; SET LOCAL lock_timeout = 0").ReadAll()
	if code(err) == "55P03" { // lock_not_available
		return false, nil
	}
	if err != nil {
		return false, err
	}
	// The catalog is read as of the snapshot, the function tells of now.
	err = c.QueryRow(ctx, `SELECT count(*) = 0 FROM unnest($1::text[]) t(name), LATERAL (SELECT t.name::regclass AS oid UNION SELECT relid FROM pg_partition_tree(t.name::regclass)) p
		JOIN pg_class c ON c.oid = p.oid AND c.relkind = 'r' AND c.relfilenode <> pg_relation_filenode(c.oid)`, names).Scan(&ok)
	return ok, err
}

// whole opens a reader that sees tables as they were at its moment: that of a snapshot, or a later one. Without a snapshot it is
// now.
func (s *source) whole(ctx context.Context, snap *snapshot, tables []Copied) (*pgx.Conn, LSN, error) {
	for tries := 0; ; tries++ {
		if snap == nil {
			var err error
			if snap, err = s.moment(ctx); err != nil {
				return nil, 0, err
			}
			defer snap.close()
		}
		c, err := s.reader(ctx, snap)
		if err != nil {
			return nil, 0, err
		}
		ok, err := true, error(nil)
		if len(tables) > 0 {
			ok, err = steady(ctx, c, tables)
		}
		if ok && err == nil {
			return c, snap.at, nil
		}
		closeConn(c)
		if err != nil {
			return nil, 0, err
		}
		if tries == 20 {
			return nil, 0, errors.New("the source's tables are truncated or locked all the time: try again when they are not")
		}
		snap = nil
	}
}

// dropSlot drops the slot, whoever uses it.
func (s *source) dropSlot(ctx context.Context) error {
	for deadline := time.Now().Add(10 * time.Second); ; {
		_, err := s.conn.Exec(ctx, "SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = $1 AND active", s.slot)
		if err == nil {
			_, err = s.conn.Exec(ctx, "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = $1", s.slot)
		}
		if code(err) != "55006" || time.Now().After(deadline) { // object_in_use
			return err
		}
		if err := sleep(ctx, pollEvery/4); err != nil {
			return err
		}
	}
}

// clean drops what was made on the source.
func (s *source) clean(ctx context.Context) error {
	if err := s.dropSlot(ctx); err != nil {
		return fmt.Errorf("drop slot %s: %w", s.slot, err)
	}
	_, err := s.conn.Exec(ctx, "DROP PUBLICATION IF EXISTS "+quote.Ident(s.slot))
	return err
}

// hasSlot reports whether the slot exists and still has all the WAL it needs.
func (s *source) hasSlot(ctx context.Context) (ok bool, err error) {
	err = s.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = $1 AND wal_status <> 'lost')", s.slot).Scan(&ok)
	return ok, err
}

// code is the SQLSTATE of a server's error.
func code(err error) string {
	var e *pgconn.PgError
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// types names the types of a table's columns, as the source has them now.
func (s *source) types(ctx context.Context, r *Relation) ([]string, error) {
	var out []string
	err := s.conn.QueryRow(ctx, "SELECT coalesce(array_agg(format_type(t.o, t.m) ORDER BY t.n), '{}') FROM unnest($1::oid[], $2::int[]) WITH ORDINALITY t(o, m, n)", r.types, r.mods).Scan(&out)
	return out, err
}
