package move

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
)

// tenantsOn counts the rows of a tenant on each shard, past weft.
func (w *world) tenantsOn(tenant string) map[string]int {
	w.Helper()
	out := map[string]int{}
	for i, s := range w.proxies[0].Shards() {
		d, err := pgx.Connect(context.Background(), s.ConnString(w.db))
		if err != nil {
			w.Fatal(err)
		}
		if n := value[int](w, d, "select count(*) from tenant where name = $1", tenant); n > 0 {
			out[names(w.T)[i]] = n
		}
		_ = d.Close(context.Background())
	}
	return out
}

// TestPinRows: a value of a lookup that has rows gets a bucket of its own, and its rows are carried
// while clients read and write them.
func TestPinRows(t *testing.T) {
	w := newWorld(t, "move_pin", 2)
	a, b := w.conn(0), w.conn(1)
	w.must(a, "create table tenant (name text, n bigint, v int not null default 0, primary key (name, n)); create table born (on_day date primary key)")
	w.must(a, "select weft.shard_table('tenant', 'name', vindex => 'lookup_unique', name => 'move_pin')")
	w.must(a, "select weft.shard_table('born', 'on_day', vindex => 'lookup_unique', name => 'move_born')")
	w.must(a, "insert into tenant select 't ''' || i % 300, i from generate_series(1, 3000) i")
	w.must(a, "insert into born select date '2026-01-01' + i from generate_series(1, 300) i")
	const tenant = "t '7"
	at := func() string {
		t.Helper()
		on := w.tenantsOn(tenant)
		if len(on) != 1 {
			t.Fatalf("the rows of the tenant are on %v", on)
		}
		for shard := range on {
			return shard
		}
		return ""
	}
	from := at()
	to := other(names(t), from)

	// Clients go on meanwhile, and lose nothing.
	var wg sync.WaitGroup
	var over atomic.Bool
	var updates, inserts atomic.Int64
	for i, c := range []*pgx.Conn{w.conn(0), w.conn(1)} {
		wg.Go(func() {
			for !over.Load() {
				ctx, stop := context.WithTimeout(context.Background(), patience)
				tag, err := c.Exec(ctx, "update tenant set v = v + 1 where name = $1 and n = 7", tenant)
				if err != nil || tag.RowsAffected() != 1 {
					t.Errorf("an update: %s %v", tag, err)
				}
				updates.Add(1)
				if _, err = c.Exec(ctx, "insert into tenant values ($1, $2)", tenant, 10000+inserts.Add(1)); err != nil {
					t.Error(err)
				}
				var n int
				if err = c.QueryRow(ctx, "select count(*) from tenant where name like 't ''%' and n <= 3000").Scan(&n); err != nil || n != 3000 {
					t.Errorf("proxy %d counts %d, %v", i, n, err)
				}
				stop()
			}
		})
	}
	job := value[string](w, a, "select weft.pin('move_pin', $1, $2)", tenant, to)
	w.must(a, "select weft.wait_move($1)", job)
	if got := at(); got != to {
		t.Errorf("the tenant is on %s, not on %s", got, to)
	}
	for _, shard := range names(t) { // one of them needs no job
		for _, day := range w.lines(a, "select weft.pin('move_born', '2026-01-08', '"+shard+"')") {
			w.must(a, "select weft.wait_move($1)", strings.Trim(day, "[]"))
		}
	}
	over.Store(true)
	wg.Wait()
	if v := value[int64](w, b, "select v from tenant where name = $1 and n = 7", tenant); v != updates.Load() {
		t.Errorf("%d of %d updates", v, updates.Load())
	}
	if n := value[int64](w, b, "select count(*) from tenant where name = $1 and n > 3000", tenant); n != inserts.Load() {
		t.Errorf("%d of %d inserts", n, inserts.Load())
	}
	w.settled(a)
	w.refused(a, "select weft.pin('move_pin', 't ''7', '"+to+"')", "55006", "is pinned to "+to+" already")
	w.refused(a, "select weft.pin('move_pin', 't ''7', 'shard-99')", "42704", "does not exist")

	// A value without rows needs no job, and its first row goes to its shard.
	if rows := w.lines(a, "select weft.pin('move_pin', 'new', '"+to+"')"); len(rows) != 0 {
		t.Errorf("a job for no rows: %v", rows)
	}
	w.must(b, "insert into tenant values ('new', 1)")
	if on := w.tenantsOn("new"); on[to] != 1 {
		t.Errorf("the first row is on %v", on)
	}

	// All other buckets go, from several shards at once; pinned values stay.
	var all []int
	for i := range 64 {
		all = append(all, i)
	}
	for _, shard := range []string{to, from} {
		w.move(b, all, shard)
		if got := at(); got != to {
			t.Errorf("the tenant went with others to %s", got)
		}
		w.settled(a)
	}

	// Its bucket goes on and back like any other.
	third := other(names(t), from, to)
	again := value[string](w, b, "select weft.pin('move_pin', $1, $2)", tenant, third)
	w.must(b, "select weft.wait_move($1)", again)
	if got := at(); got != third {
		t.Errorf("the tenant is on %s, not on %s", got, third)
	}
	back := value[string](w, a, "select weft.undo_move($1)", again)
	w.must(a, "select weft.wait_move($1)", back)
	if got := at(); got != to {
		t.Errorf("the tenant is on %s, not on %s again", got, to)
	}
	w.settled(a)

	// One job at a time, and no pin beside it.
	block, err := a.Begin(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := block.Exec(context.Background(), "update tenant set v = 0 where name = $1", tenant); err != nil {
		t.Fatal(err)
	}
	waits := value[string](w, b, "select weft.pin('move_pin', $1, $2)", tenant, third)
	w.refused(b, "select weft.pin('move_pin', 'another', '"+to+"')", "55000", "job "+waits+" moves rows")
	if err := block.Commit(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.must(b, "select weft.wait_move($1)", waits)
	if n := value[int](w, b, "select sum(v) from tenant where name = $1", tenant); n != 0 {
		t.Errorf("the sum is %d", n)
	}
	w.settled(a)
	if found := strings.Join(w.lines(a, "select count(*) from tenant"), ""); found != fmt.Sprintf("[%d]", 3001+inserts.Load()) {
		t.Errorf("%s rows", found)
	}
}
