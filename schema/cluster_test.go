package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/pgserver/pgtest"
	"weft/vindex"
)

// store is a directory in memory, with the checks every store makes.
type store struct {
	mu   sync.Mutex
	snap *directory.Snapshot
}

func (s *store) Load(context.Context) (*directory.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.snap, nil
}

func (s *store) Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := fn(s.snap)
	if err != nil || next == s.snap {
		return s.snap, err
	}
	if err := directory.Successor(s.snap, next); err != nil {
		return nil, err
	}
	next.Version = s.snap.Version + 1
	s.snap = next
	return next, nil
}

func (s *store) Acknowledged(ctx context.Context, _ int64) error { return ctx.Err() }

// entries are lookups in memory.
type entries struct {
	*store
	places map[string]int
}

func (e *entries) Ensure(_ context.Context, n directory.Numbering, lookup string, keys [][]byte, defaults []vindex.ID) ([]int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []int
	for i, k := range keys {
		name := lookup + "/" + string(k)
		if _, ok := e.places[name]; !ok {
			e.places[name] = n.Bucket(n.Default(defaults[i]), defaults[i])
		}
		out = append(out, e.places[name])
	}
	return out, nil
}

func (e *entries) Pin(ctx context.Context, lookup string, key []byte, shard string) (bool, error) {
	name := lookup + "/" + string(key)
	e.mu.Lock()
	_, ok := e.places[name]
	e.mu.Unlock()
	if ok {
		return false, nil
	}
	snap, err := e.Update(ctx, func(s *directory.Snapshot) (*directory.Snapshot, error) {
		next := s.Clone()
		next.Placement = append(next.Placement, uint16(slices.IndexFunc(next.Shards, func(sh directory.Shard) bool { return sh.Name == shard })))
		return next, nil
	})
	if err != nil {
		return false, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.places[name] = len(snap.Placement) - 1
	return true, nil
}

func (e *entries) Pinned(_ context.Context, lookup string, _ *directory.Snapshot) (map[string]int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	out := map[string]int{}
	for name, b := range e.places {
		if key, ok := strings.CutPrefix(name, lookup+"/"); ok && b >= e.snap.BucketCount {
			out[key] = b
		}
	}
	return out, nil
}

func (e *entries) Repin(context.Context, string, []byte, func(*directory.Snapshot, int) (*directory.Snapshot, int, error)) error {
	return errors.New("not here")
}

// cluster is three servers with a database of their own and a directory.
type cluster struct {
	*testing.T
	db      string
	store   *store
	mover   *Mover
	notices []*pgerr.Error
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	snap := directory.New(directory.DefaultBucketCount, "home", nil)
	var shards []directory.Shard
	for _, n := range names {
		shards = append(shards, *spec(n))
	}
	snap.SetShards(shards, nil)
	if err := snap.Validate(); err != nil {
		t.Fatal(err)
	}
	c := &cluster{T: t, db: database(t), store: &store{snap: snap}}
	c.mover = c.proxy("p1")
	return c
}

// proxy returns the Mover of another process.
func (c *cluster) proxy(id string) *Mover {
	return New(Config{Shards: dialer{}, Directory: c.store, Entries: &entries{store: c.store, places: map[string]int{}}, Proxy: id})
}

func (c *cluster) home(sql string) {
	c.Helper()
	on(c.T, "home", c.db).run(c.T, sql)
}

func (c *cluster) notice(e *pgerr.Error) { c.notices = append(c.notices, e) }

// told returns all notices since the last call.
func (c *cluster) told() string {
	var b strings.Builder
	for _, n := range c.notices {
		fmt.Fprintf(&b, "%s: %s\n", n.Severity, n.Message)
		if n.Hint != "" {
			fmt.Fprintf(&b, "HINT: %s\n", n.Hint)
		}
	}
	c.notices = nil
	return b.String()
}

func (c *cluster) request(table, columns string) Request {
	r := Request{Database: c.db, User: "postgres", Table: catalog.Name{Schema: "public", Name: table}, LockTimeout: 2 * time.Second}
	if columns != "" {
		r.Columns = strings.Split(columns, ",")
	}
	return r
}

func (c *cluster) context() context.Context {
	ctx, stop := context.WithTimeout(context.Background(), pgtest.Patience)
	c.Cleanup(stop)
	return ctx
}

// shard and its siblings do what clients ask for, and must not fail.
func (c *cluster) shard(table, columns string) {
	c.Helper()
	c.must(c.mover.Shard(c.context(), c.request(table, columns), c.notice))
}

func (c *cluster) reference(table string) {
	c.Helper()
	c.must(c.mover.Reference(c.context(), c.request(table, ""), c.notice))
}

func (c *cluster) unshard(table string) {
	c.Helper()
	c.must(c.mover.Unshard(c.context(), c.request(table, ""), c.notice))
}

func (c *cluster) must(err error) {
	c.Helper()
	if err != nil {
		var e *pgerr.Error
		if errors.As(err, &e) {
			c.Fatalf("%v\ndetail: %s\nhint: %s\ncause: %v", err, e.Detail, e.Hint, errors.Unwrap(e))
		}
		c.Fatal(err)
	}
}

// table returns a declaration, nil for none.
func (c *cluster) table(name string) *directory.Table {
	return c.store.snap.Table(c.db, "public", name)
}

// each returns what a query gives on each server, "-" if the table is missing.
func (c *cluster) each(sql string) map[string]string {
	c.Helper()
	out := map[string]string{}
	for _, n := range names {
		rows, err := on(c.T, n, c.db).exec(c.T, sql)
		var e *pgerr.Error
		switch {
		case errors.As(err, &e) && e.Code == pgerr.UndefinedTable:
			out[n] = "-"
		case err != nil:
			c.Fatalf("%s: %s: %v", n, sql, err)
		case len(rows) > 0:
			out[n] = rows[0][0]
		}
	}
	return out
}

// check fails unless the table is wholly declared or wholly at home, and all
// rows from 1 to n, by id, exist once, each where the directory says.
func (c *cluster) check(table, key string, n int) (declared bool) {
	c.Helper()
	t := c.table(table)
	if t != nil && (t.State != directory.Active || t.Job.ID != "") {
		c.Fatalf("%s is left in state %q with job %+v", table, t.State, t.Job)
	}
	marks := c.each("SELECT count(*) FROM pg_constraint WHERE conname LIKE 'weft job%'")
	for shard, m := range marks {
		if m != "0" {
			c.Errorf("%s marks are left on %s", m, shard)
		}
	}
	ids := c.each("SELECT coalesce(string_agg(id::text, ',' ORDER BY id), '') FROM " + table)
	whole := func(list string) bool { return list == series(n) }
	switch {
	case t == nil:
		if !whole(ids["home"]) || ids["east"] != "-" || ids["west"] != "-" {
			c.Errorf("not declared, and the rows are %.300v", ids)
		}
		return false
	case t.Kind == directory.Reference:
		for shard, list := range ids {
			if !whole(list) {
				c.Errorf("%s has %.100s", shard, list)
			}
		}
		return true
	}
	var all []string
	for _, list := range ids {
		if list != "" {
			all = append(all, strings.Split(list, ",")...)
		}
	}
	slices.SortFunc(all, func(a, b string) int { return int(number(a) - number(b)) })
	if strings.Join(all, ",") != series(n) {
		c.Errorf("rows are missing or twice: %.300v", ids)
	}
	for i, name := range names {
		buckets := on(c.T, name, c.db).get(c.T, "SELECT DISTINCT (hashint8extended("+key+"::int8, 0) >> 52) & 4095 FROM "+table)
		for _, b := range strings.Fields(buckets) {
			if int(c.store.snap.PlacementOf(c.db, "")[number(b)]) != i {
				c.Errorf("bucket %s is on %s", b, name)
				break
			}
		}
	}
	return true
}

func series(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		if i > 1 {
			b.WriteByte(',')
		}
		fmt.Fprint(&b, i)
	}
	return b.String()
}
