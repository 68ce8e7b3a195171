package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"weft/backup"
	"weft/checkup"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/primary"
	"weft/schema"
)

// examineSQL asks a server for what weft doctor looks at: role, versions, limits, its clock.
const examineSQL = `SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('server_version_num'), pg_catalog.current_setting('server_version'),
  pg_catalog.current_setting('max_connections')::pg_catalog.int4 - pg_catalog.current_setting('superuser_reserved_connections')::pg_catalog.int4
    - coalesce(pg_catalog.current_setting('reserved_connections', true)::pg_catalog.int4, 0),
  pg_catalog.current_setting('max_prepared_transactions'), pg_catalog.round(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::pg_catalog.int8,
  (SELECT r.rolsuper FROM pg_catalog.pg_roles r WHERE r.rolname = current_user)`

// loginsSQL lists the roles that may log in. Passwords do not leave the server as they are stored.
const loginsSQL = `SELECT rolname, pg_catalog.concat_ws(' ', CASE WHEN rolsuper THEN 'SUPERUSER' ELSE 'NOSUPERUSER' END, CASE WHEN rolcreaterole THEN 'CREATEROLE' END,
  CASE WHEN rolcreatedb THEN 'CREATEDB' END, CASE WHEN rolbypassrls THEN 'BYPASSRLS' END, CASE WHEN NOT rolinherit THEN 'NOINHERIT' END),
  pg_catalog.encode(pg_catalog.sha256(pg_catalog.convert_to(coalesce(rolpassword, ''), 'UTF8')), 'hex')
FROM pg_catalog.pg_authid WHERE rolcanlogin AND rolname !~ '^pg_'`

// archiveSQL says what a primary does for backups.
const archiveSQL = `SELECT pg_catalog.current_setting('archive_mode'), pg_catalog.current_setting('wal_level'), coalesce(last_archived_wal, ''),
  coalesce(last_failed_time > coalesce(last_archived_time, '-infinity'), false), coalesce(last_failed_wal, ''),
  pg_catalog.has_function_privilege('pg_catalog.pg_create_restore_point(text)', 'EXECUTE') FROM pg_catalog.pg_stat_archiver`

// localeSQL describes the current database; columns that a version lacks are empty.
const localeSQL = `SELECT pg_catalog.pg_encoding_to_char(d.encoding), pg_catalog.concat_ws(' ', CASE j.of->>'datlocprovider' WHEN 'i' THEN 'icu' WHEN 'b' THEN 'builtin' ELSE 'libc' END,
    coalesce(j.of->>'datlocale', j.of->>'daticulocale'), d.datcollate, CASE WHEN d.datctype <> d.datcollate THEN d.datctype END),
  coalesce(j.of->>'datcollversion', '')
FROM pg_catalog.pg_database d CROSS JOIN LATERAL (SELECT pg_catalog.to_jsonb(d) AS of) j WHERE d.datname = pg_catalog.current_database()`

const (
	actualSQL     = "SELECT coalesce(pg_catalog.pg_database_collation_actual_version(oid), '') FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()"
	extensionsSQL = "SELECT extname, extversion FROM pg_catalog.pg_extension"
)

// Examine asks all servers of the shards for what weft doctor looks at, databases with declared
// tables included.
func (s *Servers) Examine(ctx context.Context, snap *directory.Snapshot, timeout time.Duration) []checkup.Server {
	var databases []string
	seen := map[string]bool{}
	for i := range snap.Tables {
		if name := snap.Tables[i].Database; !seen[name] {
			seen[name] = true
			databases = append(databases, name)
		}
	}
	var index []*checkup.Server
	at := map[string]*checkup.Server{}
	for i := range snap.Shards {
		for _, h := range snap.Shards[i].Hosts {
			one := &checkup.Server{Shard: snap.Shards[i].Name, Address: h}
			index = append(index, one)
			at[one.Shard+" "+h] = one
		}
	}
	for _, h := range s.each(ctx, snap.Shards, timeout, func(ctx context.Context, shard *directory.Shard, h *Host) error {
		x := examination{s: s, ctx: ctx, shard: shard, host: h, out: at[h.Shard+" "+h.Address]}
		return x.run(primary.Durability(snap.Durability), databases)
	}) {
		if h.Err != nil {
			at[h.Shard+" "+h.Address].Err = pgerr.From(h.Err).Message
		}
	}
	var out []checkup.Server
	for _, one := range index {
		out = append(out, *one)
	}
	return out
}

// examination asks one server.
type examination struct {
	s     *Servers
	ctx   context.Context
	shard *directory.Shard
	host  *Host
	out   *checkup.Server
}

func (x *examination) run(declared primary.Durability, databases []string) error {
	c, err := x.s.dialAny(x.ctx, x.shard, x.host)
	if err != nil {
		return err
	}
	defer c.Terminate()
	before := time.Now()
	rows, err := exec(x.ctx, c, examineSQL)
	if err != nil {
		return err
	}
	took := time.Since(before)
	if len(rows) != 1 || len(rows[0]) != 7 {
		return fmt.Errorf("%s does not say what it is", x.host.Address)
	}
	r := rows[0]
	number := func(text string) int {
		n, _ := strconv.Atoi(text) // the server writes numbers
		return n
	}
	o := x.out
	o.Standby, o.Version, o.VersionText = r[0] == "t", number(r[1]), r[2]
	o.Connections, o.Prepared = number(r[3]), number(r[4])
	o.Ahead, o.Unsure = time.UnixMicro(int64(number(r[5]))).Sub(before.Add(took/2)), took/2
	x.disk(c)
	if o.Standby {
		return nil
	}
	durability(x.ctx, c, x.host)
	o.Lacks = declared.Lacks(x.host.SyncNames, x.host.Hasty)
	if rows, err := exec(x.ctx, c, archiveSQL); err == nil && len(rows) == 1 {
		r := rows[0]
		o.Backup = backup.Verdict(backup.State{ArchiveMode: r[0], WALLevel: r[1], LastArchived: r[2], Failing: r[3] == "t", LastFailed: r[4], MayMark: r[5] == "t"})
	}
	if r[6] == "t" {
		if err := x.roles(c); err != nil {
			return err
		}
	}
	for _, name := range databases {
		if err := x.database(name); err != nil {
			return err
		}
	}
	return nil
}

func (x *examination) roles(c *pool.Conn) error {
	rows, err := exec(x.ctx, c, loginsSQL)
	if err != nil {
		return err
	}
	x.out.Roles = map[string]checkup.Role{}
	for _, r := range rows {
		x.out.Roles[r[0]] = checkup.Role{Attributes: r[1], Password: r[2]}
	}
	return nil
}

func (x *examination) database(name string) error {
	c, err := x.s.Dial(x.ctx, x.shard, x.host.Address, name)
	if err != nil {
		if pgerr.From(err).Code == pgerr.InvalidCatalogName {
			x.out.Databases = append(x.out.Databases, checkup.Database{Name: name, Missing: true})
			return nil
		}
		return fmt.Errorf("database %s: %w", name, err)
	}
	defer c.Terminate()
	rows, err := exec(x.ctx, c, localeSQL)
	if err != nil {
		return err
	}
	d := checkup.Database{Name: name, Encoding: rows[0][0], Locale: rows[0][1], Recorded: rows[0][2], Extensions: map[string]string{}}
	if rows, err := exec(x.ctx, c, actualSQL); err == nil && len(rows) == 1 { // since PostgreSQL 15
		d.Actual = rows[0][0]
	}
	if rows, err = exec(x.ctx, c, extensionsSQL); err != nil {
		return err
	}
	for _, r := range rows {
		d.Extensions[r[0]] = r[1]
	}
	x.out.Databases = append(x.out.Databases, d)
	return nil
}

// disk looks at the disk of a server that runs on this machine.
func (x *examination) disk(c *pool.Conn) {
	if !loopback(x.host.Address) {
		return
	}
	rows, err := exec(x.ctx, c, "SELECT pg_catalog.current_setting('data_directory')")
	if err == nil && len(rows) == 1 {
		x.out.Free, x.out.Size = diskOf(rows[0][0])
	}
}

// Shards returns the shards of a snapshot as package schema dials them. Every login is that of the
// service user.
func (s *Servers) Shards(snap *directory.Snapshot) schema.Shards { return servedShards{s, snap} }

type servedShards struct {
	*Servers
	snap *directory.Snapshot
}

// Dial implements schema.Shards.
func (s servedShards) Dial(ctx context.Context, shard, database, _ string) (schema.Conn, error) {
	spec, ok := s.snap.Shard(shard)
	if !ok {
		return nil, pgerr.New(pgerr.UndefinedObject, "there is no shard %q", shard)
	}
	lane := s.pool.Shard(spec).OpenLane(pool.ServiceKey(database, s.cfg.Service.User))
	defer lane.CloseLane()
	c, err := lane.Dedicated(ctx)
	if err != nil {
		return nil, err
	}
	return c, nil
}
