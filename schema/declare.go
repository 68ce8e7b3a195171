package schema

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
	"weft/vindex"
)

// declare declares a table. job.go lists its steps.
func (m *Mover) declare(ctx context.Context, req *Request, kind directory.TableKind, notice Notice) error {
	snap, err := m.load(ctx, req.Database)
	if err != nil {
		return err
	}
	// The first look takes no lock: most refusals come here.
	facts, err := open(ctx, m.cfg.Shards, snap.Home, req.Database, req.User, "weft")
	if err != nil {
		return err
	}
	defer func() { facts.close() }()
	seen, err := m.look(facts, facts, snap, req, kind)
	if err == nil {
		req, err = m.entrust(ctx, facts, snap, req, seen, notice)
	}
	if err != nil {
		return m.ended(ctx, err)
	}
	facts.close()
	facts = nil
	t := seen.verdict.table
	t.State, t.Job = directory.Declaring, m.newJob(req)
	defer m.run(t.Job.ID, false)
	if err := m.announce(ctx, t); err != nil {
		return m.ended(ctx, m.withdraw(ctx, t, err))
	}
	err = m.cfg.step("announced")
	if err == nil {
		d := &declaration{Mover: m, ctx: ctx, req: req, kind: kind, table: t, notice: notice}
		err = d.move()
	}
	if err != nil {
		return m.ended(ctx, m.conclude(ctx, t, err))
	}
	return nil
}

// ended words the end of the caller's context as PostgreSQL does, and names proxies that are too old for a declaration.
func (m *Mover) ended(ctx context.Context, err error) error {
	var e *pgerr.Error
	switch {
	case errors.Is(err, directory.ErrOldProxy):
		return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "%s", err.Error()).WithHint("Stop the proxies of the older version, and call the function again.").WithCause(err)
	case err != nil && ctx.Err() != nil && !errors.As(err, &e):
		return pgerr.New(pgerr.QueryCanceled, "canceling statement due to user request").WithCause(err)
	}
	return err
}

// declaration is a declaration under way.
type declaration struct {
	*Mover
	ctx    context.Context
	req    *Request
	kind   directory.TableKind
	table  directory.Table // as it was announced
	notice Notice

	snap   *directory.Snapshot
	home   *session
	facts  *session
	shards []*session
	seen   *sight
	views  []Object

	bucket  string // SQL for the bucket
	moving  int64  // rows that will leave home, or be copied
	dropped []directory.ForeignKey
	forced  []string // statements that bind the owner to policies again
	routing []string // statements that hold routed ids to their buckets
}

// move does everything from dialling to the last entry in the directory.
func (d *declaration) move() error {
	defer d.close()
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"dialled", d.dial},
		{"locked", d.lock},
		{"counted", d.count},
		{"defined", d.define},
		{"copied", d.copy},
		{"indexed", d.index},
		{"brought", d.bring},
		{"emptied", d.empty},
		{"filled", d.fill},
		{"shards committed", d.commitShards},
		{"home committed", func() error { return d.home.run("COMMIT") }},
	} {
		if err := s.run(); err != nil {
			return err
		}
		if err := d.cfg.step(s.name); err != nil {
			return err
		}
	}
	if err := d.home.run("BEGIN"); err != nil {
		return err
	}
	return d.finish(d.ctx, d.home, d.snap, &d.table)
}

func (d *declaration) close() {
	d.home.close()
	d.facts.close()
	for _, s := range d.shards {
		s.close()
	}
}

// dial opens all connections. That comes before the check that the job is still this proxy's: a
// recovery must find the connections.
func (d *declaration) dial() error {
	snap, err := d.load(d.ctx, d.req.Database)
	if err != nil {
		return err
	}
	d.snap = snap
	dial := func(shard string) (*session, error) {
		return open(d.ctx, d.cfg.Shards, shard, d.req.Database, d.req.User, application(d.table.Job.ID))
	}
	if d.home, err = dial(snap.Home); err != nil {
		return err
	}
	if d.facts, err = dial(snap.Home); err != nil {
		return err
	}
	for _, name := range others(snap) {
		s, err := dial(name)
		if stranger(err) {
			if err = d.admit(name); err != nil {
				return unadmitted(name, d.req.User, err)
			}
			if s, err = dial(name); err != nil {
				return unadmitted(name, d.req.User, err)
			}
		}
		if err != nil {
			return err
		}
		d.shards = append(d.shards, s)
	}
	return d.alike()
}

// alike refuses shards whose databases would not treat a row alike.
func (d *declaration) alike() error {
	const query = "SELECT pg_encoding_to_char(encoding), current_setting('server_version_num')::int / 10000, datcollate || ', ' || datctype FROM pg_database WHERE datname = current_database()"
	want, err := d.home.Exec(query)
	if err != nil {
		return err
	}
	for _, s := range d.shards {
		got, err := s.Exec(query)
		if err != nil {
			return err
		}
		for i, what := range []string{"encoding", "major version"} {
			if got[0][i] != want[0][i] {
				return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "database %q has %s %s on shard %q and %s on the home shard", d.req.Database, what, got[0][i], s.shard, want[0][i]).
					WithHint("All shards of a database must be of one version and encoding.")
			}
		}
		if got[0][2] != want[0][2] {
			d.warn(fmt.Sprintf("database %q sorts text by %s on shard %q and by %s on the home shard", d.req.Database, got[0][2], s.shard, want[0][2]),
				"The same statement may give another order there: create the database with the same locale on all shards.")
		}
	}
	return nil
}

// lock takes the table's lock at home and judges again, now that the table cannot change.
func (d *declaration) lock() error {
	err := lockTable(d.home, d.req)
	if err != nil {
		return err
	}
	if d.snap, err = d.load(d.ctx, d.req.Database); err != nil {
		return err
	}
	own := d.snap.Table(d.table.Database, d.table.Schema, d.table.Name)
	if own == nil || own.Job.ID != d.table.Job.ID || own.Job.Proxy != d.table.Job.Proxy {
		return errSuperseded
	}
	if d.seen, err = d.look(d.facts, d.home, d.snap, d.req, d.kind); err != nil {
		return err
	}
	if err := stillTrusted(d.req, d.seen.def); err != nil {
		return err
	}
	if err := d.routeIDs(); err != nil {
		return err
	}
	for _, n := range d.seen.verdict.notices {
		d.notice(n)
	}
	d.forced, err = exempt(d.home, d.req.Table)
	return err
}

// lockTable begins a transaction that has the table to itself.
func lockTable(s *session, req *Request) error {
	err := s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, req.lockTimeout().Milliseconds())))
	if err == nil {
		err = s.run("LOCK TABLE " + req.Table.SQL() + " IN ACCESS EXCLUSIVE MODE")
	}
	var e *pgerr.Error
	if errors.As(err, &e) && e.Code == pgerr.LockNotAvailable && e.Hint == "" {
		return e.WithHint("A transaction that uses %s is still open after %s. End it, or SET lock_timeout to wait longer; new statements that name the table wait meanwhile.",
			req.name(), req.lockTimeout().Round(time.Millisecond))
	}
	return err
}

// count finds out how many rows will move, and whether the key spreads them.
func (d *declaration) count() error {
	name := d.req.Table.SQL()
	if d.kind == directory.Reference {
		n, err := d.home.one("SELECT count(*) FROM " + name)
		if err != nil {
			return err
		}
		d.moving = number(n)
		d.notice.tell("%s: %d rows will be copied to %d other shards", d.req.name(), d.moving, len(d.shards))
		return nil
	}
	if err := d.bucketSQL(); err != nil {
		return err
	}
	rows, err := d.home.Exec("SELECT " + d.bucket + ", count(*) FROM " + name + " GROUP BY 1")
	if err != nil {
		return err
	}
	var total int64
	for _, r := range rows {
		if r[0] == "" {
			return pgerr.New(pgerr.InvalidParameterValue, "%s rows of %q have a key that the vindex has no place for", r[1], d.req.name()).
				WithHint("Give the vindex a zone for all other values, or change the rows.")
		}
		b, n := number(r[0]), number(r[1])
		total += n
		if d.leaves(b) {
			d.moving += n
		}
	}
	d.notice.tell("%s: %d of %d rows will move from the home shard to %d others", d.req.name(), d.moving, total, len(d.shards))
	if err := d.skew(rows, total); err != nil {
		return err
	}
	return foresee(d.home, d.req, &d.seen.verdict.table, len(d.snap.Shards), true, d.notice)
}

// bucketSQL makes the expression for a row's bucket at home.
func (d *declaration) bucketSQL() error {
	// The columns are qualified, because the expression of a lookup has names of its own inside.
	var columns []string
	for _, c := range d.req.Columns {
		columns = append(columns, d.req.Table.SQL()+"."+quote.Ident(c))
	}
	var err error
	switch v := d.seen.verdict.vindex.(type) {
	case vindex.Computed:
		d.bucket, err = d.snap.BucketSQL(v, columns)
	case vindex.Lookup:
		d.bucket, err = d.lookupSQL(v, columns)
	default:
		err = fmt.Errorf("vindex %s can place no rows", v.Kind())
	}
	d.bucket = "(" + d.bucket + ")"
	return err
}

// leaves reports whether a bucket is on another shard than home.
func (d *declaration) leaves(bucket int64) bool {
	if bucket < 0 || bucket >= int64(len(d.snap.Placement)) {
		return true // copying will fail for this bucket
	}
	at := int(d.snap.Placement[bucket])
	return at >= len(d.snap.Shards) || d.snap.Shards[at].Name != d.snap.Home
}

// leaving returns the condition that holds for rows that leave home. A bit for each bucket is
// faster to look up than a list of buckets.
func (d *declaration) leaving() string {
	mask := make([]byte, (len(d.snap.Placement)+7)/8)
	for b := range d.snap.Placement {
		if d.leaves(int64(b)) {
			mask[b/8] |= 1 << (b % 8) // get_bit counts from the least significant bit
		}
	}
	return fmt.Sprintf(`get_bit('\x%x'::bytea, %s::int) = 1`, mask, d.bucket)
}

// define makes the table on the other shards, empty and without indexes.
func (d *declaration) define() error {
	var err error
	if d.views, err = d.copiedViews(); err != nil {
		return err
	}
	for _, s := range d.shards {
		if err := s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, d.req.lockTimeout().Milliseconds()))); err != nil {
			return err
		}
		if err := d.bringRoles(s); err != nil {
			return err
		}
		if err := d.seen.def.apply(s); err != nil {
			return err
		}
	}
	return nil
}

// copy fills the tables on the other shards.
func (d *declaration) copy() error {
	if len(d.shards) == 0 || d.moving == 0 {
		return nil
	}
	columns := d.seen.def.Columns
	s := &splitter{
		placement: d.snap.Placement, shards: d.snap.Shards, all: d.kind == directory.Reference,
		progress: func(n int64) {
			d.notice.tell("%s: %d of %d rows copied (%d %%)", d.req.name(), n, d.moving, int(math.Floor(float64(n)/float64(d.moving)*100)))
		},
	}
	from := " FROM " + d.req.Table.SQL()
	query := "SELECT " + strings.Join(columns, ", ") + from
	if !s.all {
		query = "SELECT " + strings.Join(append([]string{d.bucket}, columns...), ", ") + from + " WHERE " + d.leaving()
	}
	taken, err := copyRows(d.home, query, d.shards, d.req.Table.SQL()+columnList(columns), s)
	if err != nil {
		return err
	}
	var sum int64
	for shard, n := range taken {
		sum += n
		if s.all && n != d.moving {
			return fmt.Errorf("shard %s took %d rows of %d", shard, n, d.moving)
		}
	}
	if !s.all && sum != d.moving {
		return fmt.Errorf("the shards took %d rows of %d", sum, d.moving)
	}
	return nil
}

// index makes what comes after the rows on all shards at once.
func (d *declaration) index() error {
	if err := d.checkKeyed(); err != nil {
		return err
	}
	var g errgroup.Group
	for _, s := range d.shards {
		g.Go(func() (err error) {
			defer pgerr.Recovered(&err)
			if err := s.only(d.seen.def.After...); err != nil {
				return err
			}
			if err := s.run(d.routing...); err != nil {
				return err
			}
			if err := applyObjects(s, d.views); err != nil {
				return err
			}
			return s.run("ANALYZE " + d.req.Table.SQL())
		})
	}
	return g.Wait()
}

// fill notes in the directory, before any shard commits, that the shards may hold the table.
func (d *declaration) fill() error {
	return d.phase(d.ctx, &d.table, directory.Filled, func(_ *directory.Snapshot, own *directory.Table) {
		own.Columns, own.Vindex = d.seen.verdict.table.Columns, d.seen.verdict.table.Vindex
		own.IDs = d.seen.verdict.table.IDs
		own.ForeignKeys = d.dropped
	})
}

func (d *declaration) commitShards() error {
	for _, s := range d.shards {
		if err := s.run("COMMIT"); err != nil {
			return err
		}
		if err := d.cfg.step("committed on " + s.shard); err != nil {
			return err
		}
	}
	return nil
}
