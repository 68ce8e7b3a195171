package schema

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// How a lookup comes to be while its table is written to, and what is where when
// something dies:
//
//	step                                       dies after it
//	1 each shard: its table, home last         only home knows it: made again, or dropped
//	2 directory: a new version of the schema,  proxies fetch notes after each statement,
//	  and every proxy has acknowledged it      and there are none
//	3 each shard: triggers, under a lock that  kept up by all proxies; not asked
//	  waits for writers
//	4 shard by shard: entries of rows that     the same; filling again adds what is missing
//	  have none
//	5 home: public; directory: a new version   it is done
//
// The home shard's row of weft.lookup says how far the lookup is. Any proxy can go on from
// any of these points, by doing all steps again: each finds its work done.

// lookupBatch is how many rows are brought over at once. Their locks keep other sessions from
// changing them for that long.
const lookupBatch = 5000

// CreateLookup makes a lookup table and fills it.
func (m *Mover) CreateLookup(ctx context.Context, req LookupRequest, notice Notice) error {
	snap, spec, err := m.lookAtLookup(ctx, &req, true)
	if err != nil {
		return m.ended(ctx, err)
	}
	if err := notWhileCarried(snap, req.Database); err != nil {
		return err
	}
	if t := snap.Table(req.Database, req.Table.Schema, req.Table.Name); t.State != directory.Active {
		return pgerr.New(pgerr.ObjectInUse, "%q is being %s", req.name(), progress(t.State)).WithHint("Wait for it to end.")
	}
	if spec.known != nil && (spec.known.Public || m.Running("lookup "+spec.name)) {
		return pgerr.New(pgerr.DuplicateObject, "%q has a lookup on (%s) already: %s", req.name(), strings.Join(spec.known.Columns, ", "), spec.known.Name)
	}
	return m.ended(ctx, m.buildLookup(ctx, "", snap, spec, &req.Request, notice))
}

// lookAtLookup reads the schema that a request is about, and judges the request.
func (m *Mover) lookAtLookup(ctx context.Context, req *LookupRequest, owned bool) (*directory.Snapshot, *lookupSpec, error) {
	snap, err := m.load(ctx, req.Database)
	if err != nil {
		return nil, nil, err
	}
	user := req.User
	if !owned {
		user = m.cfg.Service
	}
	home, err := open(ctx, m.cfg.Shards, snap.Home, req.Database, user, "weft")
	if err != nil {
		return nil, nil, err
	}
	defer home.close()
	if owned {
		if err := owner(home, &req.Request); err != nil {
			return nil, nil, err
		}
	}
	schema, err := catalog.Load(0, home.Exec)
	if err != nil {
		return nil, nil, err
	}
	spec, err := judgeLookup(schema, snap, req)
	return snap, spec, err
}

// lookupJob is a lookup that is being made or compared.
type lookupJob struct {
	*Mover
	ctx    context.Context
	snap   *directory.Snapshot
	spec   *lookupSpec
	req    *Request
	notice Notice
	quiet  bool // no session writes the table meanwhile, and no proxy need be told
	// within is the job that makes the lookup before it carries rows, "" if none does.
	within string

	shards  []*session // READ COMMITTED, one for each shard, in the snapshot's order
	reading []*session // for long reads
	report  LookupReport
}

// LookupReport is what a comparison has found and repaired.
type LookupReport struct {
	Name                 string
	Key                  string // the columns of the lookup, or the items of its index
	Rows, Missing, Stale int64
	// Duplicates counts values of a unique lookup that rows on two shards have.
	Duplicates int64
}

func (j *lookupJob) dial(reading bool) error {
	for i := range j.snap.Shards {
		s, err := open(j.ctx, j.cfg.Shards, j.snap.Shards[i].Name, j.spec.database, j.cfg.Service, "weft lookup "+j.spec.name)
		if err != nil {
			return err
		}
		j.shards = append(j.shards, s)
		if !reading {
			continue
		}
		if s, err = open(j.ctx, j.cfg.Shards, j.snap.Shards[i].Name, j.spec.database, j.cfg.Service, "weft lookup "+j.spec.name); err != nil {
			return err
		}
		j.reading = append(j.reading, s)
	}
	return nil
}

func (j *lookupJob) close() {
	for _, s := range append(j.shards, j.reading...) {
		s.close()
	}
	j.shards, j.reading = nil, nil
}

func (j *lookupJob) home() *session {
	for i := range j.snap.Shards {
		if j.snap.Shards[i].Name == j.snap.Home {
			return j.shards[i]
		}
	}
	return nil
}

// buildLookup does all steps. within is the job that makes the lookup before it carries rows, "" if none does.
func (m *Mover) buildLookup(ctx context.Context, within string, snap *directory.Snapshot, spec *lookupSpec, req *Request, notice Notice) error {
	m.run("lookup "+spec.name, true)
	defer m.run("lookup "+spec.name, false)
	j := &lookupJob{Mover: m, ctx: ctx, snap: snap.For(req.Database), spec: spec, req: req, notice: notice, within: within}
	defer j.close()
	err := j.build()
	var e *pgerr.Error
	if errors.As(err, &e) && (e.Code == pgerr.UniqueViolation || e.Code == pgerr.ObjectNotInPrerequisiteState) {
		// The lookup cannot be made, and half a lookup is of no use. This job's own reading would
		// be in the way of dropping it.
		j.close()
		if undo := m.removeLookup(context.WithoutCancel(ctx), snap, spec.database, spec.name); undo != nil {
			m.cfg.Log.Warn("a lookup that cannot be is left halfway", "lookup", spec.name, "err", undo)
		}
	}
	return err
}

func (j *lookupJob) build() error {
	if err := j.dial(true); err != nil {
		return err
	}
	// The lock is held until the connection is closed, even if this proxy dies.
	free, err := j.home().one("SELECT pg_try_advisory_lock(hashtextextended(" + quote.Literal("weft lookup "+j.spec.name) + ", 0))")
	if err != nil {
		return err
	}
	if free != "t" {
		return pgerr.New(pgerr.ObjectInUse, "lookup %q is being made", j.spec.name)
	}
	for _, s := range []struct {
		name string
		run  func() error
	}{
		{"lookup declared", j.declare},
		{"lookup announced", j.announceLookup},
		{"lookup noted", j.watch},
		{"lookup filled", j.fill},
		{"lookup public", j.publish},
	} {
		if err := s.run(); err != nil {
			return err
		}
		if err := j.cfg.step(s.name); err != nil {
			return err
		}
	}
	return nil
}

// declare makes the lookup's tables, home last: proxies learn of the lookup from home.
func (j *lookupJob) declare() error {
	do := func(s *session) error {
		if err := installLookups(s); err != nil {
			return err
		}
		l := j.spec
		index := "0"
		if l.index != "" {
			index = "coalesce(to_regclass(" + quote.Literal(catalog.Name{Schema: l.table.Schema, Name: l.index}.SQL()) + ")::oid, 0)"
		}
		if err := s.run("BEGIN"); err != nil {
			return err
		}
		there, err := s.one("SELECT name FROM weft.lookup WHERE name = " + quote.Literal(l.name))
		if err != nil {
			return err
		}
		if there == "" {
			err = s.run(fmt.Sprintf("SELECT weft.lookup_add(%s, %s::regclass, %s, %s, %s, %t, %s, 'declared', %s, %s, %s)",
				quote.Literal(l.name), quote.Literal(l.table.SQL()), quote.Array(l.columns), quote.Array(l.keys), quote.Array(l.types), l.unique, index, quote.Literal(l.idSQL), quote.Literal(l.bucket), quote.Literal(j.cfg.Proxy)),
				"SELECT weft.lookup_make("+quote.Literal(l.name)+")")
		}
		if err != nil {
			return err
		}
		return s.run("UPDATE weft.lookup SET job = "+quote.Literal(j.cfg.Proxy)+" WHERE name = "+quote.Literal(l.name), "COMMIT")
	}
	home := j.home()
	for _, s := range j.shards {
		if s != home {
			if err := do(s); err != nil {
				return err
			}
		}
	}
	if err := do(home); err != nil || j.spec.derived == nil {
		return err
	}
	return j.spec.derived.read(home, j.spec.name)
}

// announceLookup makes all proxies read the schema again. No bucket moves from here on until the
// lookup is public: rounds of moves look for lookups that are not.
func (j *lookupJob) announceLookup() error {
	snap, err := j.load(j.ctx, j.spec.database)
	if err != nil {
		return err
	}
	if m := snap.Carrying(j.spec.database); m == nil || m.ID != j.within {
		if err := notWhileCarried(snap, j.spec.database); err != nil {
			return err
		}
	}
	j.snap = snap
	if j.quiet {
		return nil
	}
	return j.renew(j.ctx, j.spec.database)
}

// renew gives a database's schema a new version and waits until all proxies know.
func (m *Mover) renew(ctx context.Context, database string) error {
	snap, err := m.cfg.Directory.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		if s == nil {
			return nil, directory.ErrNoCluster
		}
		next := s.Clone()
		if next.Schemas == nil {
			next.Schemas = map[string]int64{}
		}
		next.Schemas[database]++
		return next, nil
	})
	if err != nil {
		return err
	}
	return m.cfg.Directory.Acknowledged(ctx, snap.Version)
}

// watch makes the triggers, shard by shard.
func (j *lookupJob) watch() error {
	l := j.spec
	for _, s := range j.shards {
		err := s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, j.req.lockTimeout().Milliseconds())),
			"LOCK TABLE "+l.table.SQL()+" IN SHARE ROW EXCLUSIVE MODE",
			"UPDATE weft.lookup SET state = 'write' WHERE name = "+quote.Literal(l.name)+" AND state = 'declared'",
			"SELECT weft.lookup_make("+quote.Literal(l.name)+")", "COMMIT")
		if err != nil {
			return err
		}
		if err := j.cfg.step("lookup noted on " + s.shard); err != nil {
			return err
		}
	}
	return nil
}

// fill adds the entries of rows that have none.
func (j *lookupJob) fill() error {
	for i := range j.shards {
		if err := j.addMissing(i, false); err != nil {
			return err
		}
		if err := j.cfg.step("lookup filled from " + j.shards[i].shard); err != nil {
			return err
		}
	}
	return nil
}

// publish lets proxies route statements by the lookup.
func (j *lookupJob) publish() error {
	for _, s := range j.shards {
		if err := s.run("UPDATE weft.lookup SET state = 'public', job = '' WHERE name = " + quote.Literal(j.spec.name)); err != nil {
			return err
		}
	}
	if j.quiet {
		return nil
	}
	return j.renew(j.ctx, j.spec.database)
}

// DropLookup drops a lookup.
func (m *Mover) DropLookup(ctx context.Context, req LookupRequest) error {
	snap, spec, err := m.lookAtLookup(ctx, &req, true)
	if err != nil {
		return m.ended(ctx, err)
	}
	if spec.known == nil {
		return pgerr.New(pgerr.UndefinedObject, "%q has no lookup on (%s)", req.name(), strings.Join(req.Columns, ", "))
	}
	if err := notWhileCarried(snap, req.Database); err != nil {
		return err
	}
	if spec.known.Index != "" {
		return pgerr.New("2BP01", "lookup %q cannot be dropped because index %q of %q requires it", spec.known.Name, spec.known.Index, req.name()).
			WithHint("Drop the constraint or the index: the lookup goes with it.")
	}
	return m.ended(ctx, m.removeLookup(ctx, snap, req.Database, spec.known.Name))
}

// ResumeLookup goes on with a lookup that another process was making or dropping.
func (m *Mover) ResumeLookup(ctx context.Context, database string, table catalog.Name, l catalog.Lookup) error {
	if m.Running("lookup " + l.Name) {
		return nil
	}
	req := LookupRequest{Request: Request{Database: database, User: m.cfg.Service, Table: table, Columns: l.Columns}, Name: l.Name, Unique: l.Unique, From: derivedFrom(&l)}
	snap, spec, err := m.lookAtLookup(ctx, &req, false)
	switch {
	case err != nil:
		return err
	case spec.known == nil || spec.known.Public:
		return nil // the lookup is finished
	case spec.known.Dropping:
		return m.removeLookup(ctx, snap, database, l.Name)
	}
	return m.buildLookup(ctx, "", snap, spec, &req.Request, func(*pgerr.Error) {})
}

// removeLookup drops a lookup on all shards, in the opposite order of its making: when no proxy
// asks it any more the triggers go, then the tables.
func (m *Mover) removeLookup(ctx context.Context, snap *directory.Snapshot, database, name string) error {
	on := func(shard, what string) error {
		s, err := open(ctx, m.cfg.Shards, shard, database, m.cfg.Service, "weft lookup "+name)
		if err != nil {
			return err
		}
		defer s.close()
		there, err := s.one("SELECT to_regclass('weft.lookup')")
		if err != nil || there == "" {
			return err
		}
		return s.run("BEGIN", "SET LOCAL lock_timeout = '10s'", what+" WHERE name = "+quote.Literal(name), "COMMIT")
	}
	shards := append(others(snap), snap.Home)
	if err := on(snap.Home, "UPDATE weft.lookup SET state = 'dropping', job = "+quote.Literal(m.cfg.Proxy)); err != nil {
		return err
	}
	if err := m.renew(ctx, database); err != nil {
		return err
	}
	for _, shard := range shards {
		if err := on(shard, "UPDATE weft.lookup SET state = 'dropped'"); err != nil {
			return err
		}
		if err := on(shard, "SELECT weft.lookup_make(name) FROM weft.lookup"); err != nil {
			return err
		}
	}
	for _, shard := range shards {
		if err := on(shard, "SELECT weft.lookup_drop(name) FROM weft.lookup"); err != nil {
			return err
		}
		if err := m.cfg.step("lookup dropped on " + shard); err != nil {
			return err
		}
	}
	return m.renew(ctx, database)
}
