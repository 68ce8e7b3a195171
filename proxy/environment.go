package proxy

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/planner"
	"weft/pool"
	"weft/wire"
)

// A plan depends on more than its text: on the schema, the declarations and search_path.
// Together these are a planner.Env. Sessions with the same environment share it, and with it
// their plans.

// environments holds the environments and their parts, which sessions share.
type environments struct {
	mu      sync.Mutex
	tables  map[string]*declared
	paths   map[pathKey][]string
	roles   map[pathKey]*knownRole
	envs    map[envKey]*planner.Env
	loaded  map[string]*schemaSlot
	options map[optionKey]options
}

// declared are the declarations of one database.
type declared struct {
	list      []directory.Table
	functions []directory.Function
	tables    *planner.Tables
}

// pathKey is what the effective search path depends on.
type pathKey struct {
	lane    pool.Key
	path    string
	set     bool // path has been set, perhaps to nothing
	role    string
	version int64
}

// envKey is what sessions must have in common to share an environment.
type envKey struct {
	tables  *planner.Tables
	schema  *catalog.Schema
	path    string
	options parser.Options
	roles   bool
	role    *planner.Role
}

// schemaSlot holds a database's schema as last read. turn is held to look at the schema or to
// read it again.
type schemaSlot struct {
	turn   chan struct{}
	schema *catalog.Schema // guarded by turn
	read   time.Time
}

// rereadAfter is how long an incomplete schema is used before it is read again.
const rereadAfter = time.Second

// maxEnvironments bounds how many entries are remembered of each kind; lost entries are made
// again.
const maxEnvironments = 10000

func newEnvironments() *environments {
	return &environments{
		tables: map[string]*declared{}, paths: map[pathKey][]string{}, roles: map[pathKey]*knownRole{}, envs: map[envKey]*planner.Env{}, loaded: map[string]*schemaSlot{},
		options: map[optionKey]options{},
	}
}

// declaredIn returns the declarations of a database: the same value as long as they do not
// change.
func (e *environments) declaredIn(snap *directory.Snapshot, database string) *planner.Tables {
	list := snap.Declared(database)
	e.mu.Lock()
	defer e.mu.Unlock()
	d := e.tables[database]
	functions := snap.Placed(database)
	if d == nil || !sameTables(d.list, list) || !sameFunctions(d.functions, functions) {
		d = &declared{list: list, functions: functions, tables: planner.NewTables(snap, database)}
		e.tables[database] = d
	}
	return d.tables
}

// sameTables reports whether two lists of declarations are equal.
func sameTables(a, b []directory.Table) bool {
	return slices.EqualFunc(a, b, func(x, y directory.Table) bool { return x.Equal(&y) })
}

func sameFunctions(a, b []directory.Function) bool {
	return slices.EqualFunc(a, b, func(x, y directory.Function) bool { return x.Equal(&y) })
}

// slot returns the slot of a database's schema.
func (e *environments) slot(database string) *schemaSlot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.loaded[database]
	if s == nil {
		s = &schemaSlot{turn: make(chan struct{}, 1)}
		e.loaded[database] = s
	}
	return s
}

// at returns the schema of the given version or a newer one. It calls load if the slot has none.
func (sl *schemaSlot) at(ctx context.Context, version int64, load func() (*catalog.Schema, error)) (*catalog.Schema, error) {
	select {
	case sl.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-sl.turn }()
	// A schema that could not be read completely, because it was being changed, is read again.
	if sl.schema != nil && sl.schema.Version >= version && (!sl.schema.Incomplete || time.Since(sl.read) < rereadAfter) {
		return sl.schema, nil
	}
	schema, err := load()
	if err != nil {
		return nil, err
	}
	sl.schema, sl.read = schema, time.Now()
	return schema, nil
}

// forget makes the next session that needs the schema read it again.
func (sl *schemaSlot) forget(ctx context.Context) error {
	select {
	case sl.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	sl.schema = nil
	<-sl.turn
	return nil
}

// env returns the shared environment for key. If there is none, it keeps the one that make
// returns.
func (e *environments) env(key envKey, make func() *planner.Env) *planner.Env {
	e.mu.Lock()
	defer e.mu.Unlock()
	env := e.envs[key]
	if env == nil {
		env = make()
		// A schema is large: environments of an outdated schema or declarations are dropped.
		maps.DeleteFunc(e.envs, func(k envKey, v *planner.Env) bool {
			return v.Database == env.Database && (k.schema != key.schema || k.tables != key.tables)
		})
		if len(e.envs) >= maxEnvironments {
			clear(e.envs)
		}
		e.envs[key] = env
	}
	return env
}

// refresh adopts the current snapshot of the cluster. It reports whether the session's database
// has declared tables; without them nothing is routed.
func (rt *routing) refresh() bool {
	rt.relies.unsent = true // checked again before the statement is sent: see overtaken.go
	if snap := rt.s.srv.cfg.Snapshot(); snap != rt.base || rt.touch.freed {
		rt.base, rt.touch.freed = snap, false
		snap = rt.touch.seen(snap)
		rt.outdated = rt.s.pipe.unsent.Len() > 0 && (rt.outdated || rt.s.pipe.boundUnsent() && rt.relies.concerned(snap, rt.snap, rt.s.db.Name))
		rt.snap, rt.env = snap, nil
		rt.hasTables = len(snap.Declared(rt.s.db.Name)) > 0
		rt.standbys = slices.ContainsFunc(snap.Shards, func(s directory.Shard) bool { return len(s.Hosts) > 1 })
		rt.touch.readOnly = slices.ContainsFunc(snap.Shards, func(s directory.Shard) bool { return s.State == directory.ShardReadOnly })
	}
	return rt.hasTables || rt.standbys && rt.s.held.away.routes()
}

// environment returns the environment under which the session's texts are planned now.
func (rt *routing) environment() (*planner.Env, error) {
	private := rt.s.record.inFlux()
	if private && rt.s.held.conn != nil && rt.s.implicit.pipedHere() && rt.s.tx.isolation() == "" {
		// Objects made by the messages since the last Sync are seen in their transaction only.
		if err := rt.s.implicit.widen(); err != nil {
			return nil, err
		}
	}
	changing := rt.snap.Changing(rt.s.db.Name)
	if !private && !changing && rt.env != nil && rt.envFor == rt.s.record.settings && rt.env.Options == rt.s.record.scanOptions() && !rt.env.Schema.Incomplete && !rt.roleAged() {
		return rt.env, nil
	}
	if err := rt.snap.Foreign; err != nil {
		return nil, foreignDirectory(err)
	}
	version := rt.snap.Schemas[rt.s.db.Name]
	tables := rt.s.srv.memory.envs.declaredIn(rt.snap, rt.s.db.Name)
	load := func() (*catalog.Schema, error) { return rt.loadSchema(version) }
	var schema *catalog.Schema
	var err error
	own := private && rt.s.record.done.bits&(parser.DDL|parser.Opaque) != 0 && rt.holdsHome()
	if own {
		schema, err = load() // the schema as this transaction sees it
	} else if changing {
		schema, err = load() // the schema may change at any moment
	} else {
		schema, err = rt.s.srv.memory.envs.slot(rt.s.db.Name).at(rt.s.srv.ctx, version, func() (*catalog.Schema, error) {
			rt.s.db.Generation.Add(1) // another proxy may have changed the schema
			return load()
		})
	}
	if err != nil {
		return nil, err
	}
	path, err := rt.path(schema.Version, private)
	if err != nil {
		return nil, err
	}
	var role *planner.Role
	if planner.Guarded(schema) {
		if role, err = rt.role(schema.Version, private); err != nil {
			return nil, err
		}
	}
	renamed := private && len(rt.s.record.done.changes) > 0
	if renamed {
		tables = rt.s.commit.tablesInBlock()
	}
	build := func() *planner.Env {
		return &planner.Env{
			ID: planner.NewID(), Database: rt.s.db.Name, Path: path, Schema: schema, Tables: tables, Home: rt.snap.Home, Options: rt.s.record.scanOptions(),
			SharedRoles: rt.sharedRoles(), Role: role,
		}
	}
	if rt.s.record.pins&pinTemp != 0 || rt.s.record.done.bits&parser.Temp != 0 {
		env := build()
		if env.Temporary, err = rt.temporary(); err != nil {
			return nil, err
		}
		if !private {
			rt.env, rt.envFor = env, rt.s.record.settings
		}
		return env, nil
	}
	if renamed {
		env := build()
		env.ID = 0 // only for this transaction: plans are not kept
		return env, nil
	}
	if changing {
		env := build()
		env.ID = 0 // plans made during a change are not kept
		return env, nil
	}
	if own {
		env := build()
		env.ID = 0 // the schema is read again for each statement
		return env, nil
	}
	env := rt.s.srv.memory.envs.env(envKey{tables, schema, strings.Join(path, "\x00"), rt.s.record.scanOptions(), rt.sharedRoles(), role}, build)
	if !private {
		rt.env, rt.envFor = env, rt.s.record.settings
	}
	return env, nil
}

// loadTries is how often a schema is read while other sessions are changing it.
const loadTries = 10

// loadSchema reads the schema. PostgreSQL's functions that write out definitions look at the
// current catalog, but queries look at the catalog of their snapshot. If a table is dropped in
// between, the query fails and is tried again, except inside a block, which the error has
// aborted.
func (rt *routing) loadSchema(version int64) (*catalog.Schema, error) {
	rt.s.client.Task().Leave()
	for try := 1; ; try++ {
		schema, err := catalog.Load(version, rt.askHome)
		var e *pgerr.Error
		if err == nil || try == loadTries || rt.s.tx.isOpen() || !errors.As(err, &e) || e.Code != pgerr.InternalError || errors.Is(err, pool.ErrLost) {
			return schema, err
		}
		select {
		case <-rt.s.srv.ctx.Done():
			return nil, err
		case <-time.After(time.Duration(try) * 5 * time.Millisecond):
		}
	}
}

// envID identifies the environment under which the session's texts were last planned.
func (rt *routing) envID() planner.ID {
	if rt.env == nil {
		return 0
	}
	return rt.env.ID
}

// holdsHome reports whether a backend of the home shard takes part in the block.
func (rt *routing) holdsHome() bool {
	in := func(c *pool.Conn) bool { return c.Lane() == rt.s.lane && c.Status() == wire.TxActive }
	return rt.s.tx.isOpen() && (rt.s.held.conn != nil && in(rt.s.held.conn) || slices.ContainsFunc(rt.s.held.parked, in))
}

// inFlux reports whether the open transaction has changed what texts mean, in a way that only
// its own backend knows.
func (rc *record) inFlux() bool {
	switch d := &rc.done; {
	case d.bits&(parser.Temp|parser.DDL|parser.Opaque|parser.ChangesAllSettings|parser.DiscardAll|parser.DiscardTemp) != 0:
		return true
	case d.bits&parser.ChangesSettings != 0:
		return slices.ContainsFunc(d.sets, func(set parser.Setting) bool {
			return set.Name == "search_path" || set.Name == "role" || set.Name == "session_authorization"
		})
	}
	return false
}

// path returns the schemas in which unqualified names are looked up.
func (rt *routing) path(version int64, private bool) ([]string, error) {
	key := rt.roleKey(version)
	key.path, key.set = rt.s.record.settings.Get("search_path") // set_config can make the path empty
	e := rt.s.srv.memory.envs
	if !private {
		e.mu.Lock()
		path, ok := e.paths[key]
		e.mu.Unlock()
		if ok {
			return path, nil
		}
	}
	lane := rt.s.lane
	if private {
		lane = rt.s.held.party()
	}
	rows, err := rt.ask(lane, "SELECT n FROM pg_catalog.unnest(pg_catalog.current_schemas(true)) WITH ORDINALITY u(n, i) WHERE n !~ '^pg_temp_' ORDER BY i")
	if err != nil {
		return nil, err
	}
	path := make([]string, len(rows))
	for i, r := range rows {
		path[i] = r[0]
	}
	if !private {
		e.mu.Lock()
		if len(e.paths) >= maxEnvironments {
			clear(e.paths)
		}
		e.paths[key] = path
		e.mu.Unlock()
	}
	return path, nil
}

// roleKey returns the session's login and role, in a schema of the given version.
func (rt *routing) roleKey(version int64) pathKey {
	key := pathKey{lane: rt.s.lane.Key(), version: version}
	for _, name := range []string{"role", "session_authorization"} {
		if v, set := rt.s.record.settings.Get(name); set {
			key.role += name + "\x00" + v + "\x00"
		}
	}
	return key
}

// temporary returns the names of the session's temporary relations.
func (rt *routing) temporary() (map[string]bool, error) {
	rows, err := rt.askHome("SELECT relname FROM pg_catalog.pg_class WHERE relnamespace = pg_catalog.pg_my_temp_schema()")
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(rows))
	for _, r := range rows {
		names[r[0]] = true
	}
	return names, nil
}

// askHome asks the home shard something about the schema as the session sees it.
func (rt *routing) askHome(sql string) ([][]string, error) { return rt.ask(rt.s.lane, sql) }

// ask asks a shard something: on the session's backend there, or else on a borrowed one.
func (rt *routing) ask(l *pool.Lane, sql string) ([][]string, error) {
	return rt.askBy(l, func(c *pool.Conn) ([][]string, error) { return askHere(c, sql) })
}

// askHere asks a backend of the session, inside its transaction if there is one.
func askHere(c *pool.Conn, sql string) ([][]string, error) {
	c.UnnamedGone()
	if c.Status() == wire.TxActive {
		sql = catalog.Inside(sql)
	}
	return c.Exec(sql)
}

// askBy is ask for a function that asks the backend, inside its transaction if there is one.
func (rt *routing) askBy(l *pool.Lane, ask func(*pool.Conn) ([][]string, error)) ([][]string, error) {
	if c := rt.s.held.conn; c != nil && c.Lane() == l && (!rt.s.pipe.isUnsynced() || rt.s.tx.isOpen()) && c.Status() != wire.TxFailed {
		if !rt.s.pipe.ops.empty() {
			if err := rt.s.flush(); err != nil {
				return nil, err
			}
			if rt.s.held.conn == nil || rt.s.pipe.isSkipping() {
				return nil, errTold
			}
		}
		rt.touch.ask(c)
		return ask(c)
	}
	for _, c := range rt.s.held.parked {
		if c.Lane() == l && c.Status() != wire.TxFailed {
			rt.touch.ask(c)
			return ask(c)
		}
	}
	c, err := rt.s.held.borrow(l)
	if err != nil {
		return nil, err
	}
	rows, err := ask(c)
	c.UsedBy(rt.s.id)
	if err != nil {
		c.Discard()
		return nil, err
	}
	c.UnnamedGone()
	c.Release()
	return rows, nil
}
