package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/directory"
)

// deaths are who dies during COMMIT, and when.
var deaths = []struct{ victim, moment string }{
	{"proxy", "decided"},
	{"shard 2", "decided"},
	{"home", "prepared"},
	{"proxy", "prepared"},
	{"nobody", "any"},
	{"proxy", "any"},
	{"shard 2", "prepared"},
	{"home", "decided"},
	{"shard 2", "any"},
	{"home", "any"},
}

// TestDDLAtomic changes tables on all shards, again and again, and something
// dies during COMMIT: the proxy that commits, the home shard or another. The
// change is on all shards or on none, as the client was told, no prepared
// transaction stays, and clients of the other proxy go on.
func TestDDLAtomic(t *testing.T) {
	w := newWorld(t, "c_atomic", nil)
	w.proxy(nil)
	w.shop()
	other := w.conn(1)
	r := newRand(11)
	count := len(deaths) * *rounds
	if *rounds == 1 {
		count = 5
	}
	for n := range count {
		victim, moment := deaths[n%len(deaths)].victim, deaths[n%len(deaths)].moment
		column := fmt.Sprintf("c%d", n)
		c := w.conn(0)
		must(t, c, "begin")
		must(t, c, "alter table s add column "+column+" int default 1")
		must(t, c, "alter table r add column "+column+" int")
		mode := pgx.QueryExecModeSimpleProtocol
		if n%2 == 0 {
			mode = pgx.QueryExecModeExec
		}
		await := w.moment(r, moment, column)
		done := later(t, c, "commit", mode)
		delay := await(done)
		w.killed(r, victim)
		var err error
		select {
		case err = <-done:
		case <-time.After(patience):
			t.Fatalf("round %d: COMMIT does not return after the death of %s", n, victim)
		}
		began := time.Now()
		within(t, patience, fmt.Sprintf("round %d: %s died (%s): nothing is left of it", n, victim, moment), func() bool {
			return len(w.snapshot().Pending) == 0 && w.prepared() == 0
		})
		has := w.having(column)
		what := fmt.Sprintf("round %d: %s died (%s, after %s), answer %s, settled after %s: columns on each shard: %v",
			n, victim, moment, delay.Round(time.Microsecond), brief(err), time.Since(began).Round(time.Millisecond), has)
		t.Log(what)
		switch lo, hi := slices.Min(has), slices.Max(has); {
		case lo != hi:
			t.Fatalf("%s: halves", what)
		case err == nil && lo != 2:
			t.Fatalf("%s: acknowledged, and not there", what)
		case err != nil && lo != 0 && victim != "proxy" && code(err) != "08007":
			t.Fatalf("%s: there, and the client was told otherwise", what)
		case err != nil && victim == "nobody":
			t.Fatal(what)
		}
		within(t, patience, what+": the other proxy goes on", func() bool {
			for _, k := range []int{0, 1, 2, 3} {
				if got, _ := exec(other, patience, "update s set v = v + 1 where id = $1", w.keyOn(k, 0)); got != "" {
					if other.IsClosed() {
						other = w.conn(1)
					}
					return false
				}
			}
			return true
		})
	}
	w.clean("s")
}

// TestDDLAlone: in a cluster of one shard a change of the schema is over when its client is told,
// and nothing of it is left for a resolver.
func TestDDLAlone(t *testing.T) {
	w := newWiredWorld(t, "c_alone", func(s *directory.Snapshot) { s.SetShards(s.Shards[:1], nil) }, nil)
	w.shop()
	c := w.conn(0)
	for _, text := range []string{
		"alter table s add column a int",
		"begin; alter table s add column b int; commit",
		"begin", "alter table s add column c int", "commit",
		"begin", "alter table s add column d int", "rollback",
		"update s set a = 1, b = 2, c = 3 where id = 1",
	} {
		must(t, c, text)
		if left := w.snapshot().Pending; len(left) > 0 {
			t.Errorf("%s leaves %+v", text, left)
		}
	}
}

// TestDDLText: a text that begins and commits by itself, or only commits, does so on all shards
// together.
func TestDDLText(t *testing.T) {
	together(t)
	w := newWorld(t, "c_text", nil)
	w.shop()
	for _, step := range []struct {
		text, code string
		columns    int // on each shard, of s and r together
		status     byte
	}{
		{"begin; alter table s add column x int", "", 0, 'T'},
		{"alter table r add column x int; commit", "", 1, 'I'},
		{"alter table r drop column x; commit", "", 0, 'I'},
		{"begin; alter table s add column x int; alter table r add column x int; commit", "", 2, 'I'},
		{"begin; alter table s drop column x; alter table r drop column x; select 1/0; commit", "22012", 2, 'E'},
		{"alter table s drop column x; alter table r drop column x", "", 0, 'I'},
		{"alter table s add column x int; alter table r add column x int", "", 2, 'I'},
	} {
		c := w.conn(0)
		_, err := c.PgConn().Exec(context.Background(), step.text).ReadAll()
		status := c.PgConn().TxStatus()
		if status != 'I' {
			if _, err := c.Exec(context.Background(), "rollback"); err != nil {
				t.Error(err)
			}
		}
		if has := w.having("x"); code(err) != step.code || slices.Max(has) != step.columns || slices.Min(has) != step.columns || status != step.status {
			t.Errorf("%s: %v, columns on each shard: %v, status %c", step.text, err, has, status)
		}
	}
}

// moment returns a function that waits for a moment of COMMIT and tells how long
// that took: the first participant has prepared, the home shard has committed,
// or any. It does not wait longer than for COMMIT to be over.
func (w *world) moment(r *rand.Rand, name, column string) func(done <-chan error) time.Duration {
	shard, sql := 0, "select exists (select from pg_attribute where attrelid = 's'::regclass and attname = $1) and $2 <> ''"
	if name == "prepared" {
		shard, sql = 1, "select exists (select from pg_prepared_xacts where database = $2 and $1 <> '')"
	}
	c := w.direct(shard)
	_ = value[bool](w.t, c, sql, column, w.db) // has it prepared
	return func(done <-chan error) time.Duration {
		began := time.Now()
		if name == "any" {
			time.Sleep(time.Duration(r.IntN(60_000)) * time.Microsecond)
		}
		for name != "any" && len(done) == 0 && !value[bool](w.t, c, sql, column, w.db) {
			runtime.Gosched()
		}
		return time.Since(began)
	}
}

// killed ends a part of the cluster for good, and puts another in its place.
func (w *world) killed(r *rand.Rand, victim string) {
	w.t.Helper()
	switch victim {
	case "proxy":
		w.weft[0].Signal(w.t, syscall.SIGKILL)
		w.weft[0].WaitExit(w.t, 5*time.Second)
		p := w.proxy(nil)
		w.weft[0], w.wire[0] = p, w.wire[len(w.wire)-1]
		w.weft, w.wire = w.weft[:2], w.wire[:2]
	case "shard 2", "home":
		s := w.any.Shards()[map[string]int{"home": 0, "shard 2": 2}[victim]]
		s.Kill()
		time.Sleep(time.Duration(r.IntN(1500)) * time.Millisecond)
		if err := s.Restart(context.Background()); err != nil {
			w.t.Fatal(err)
		}
	}
}

// prepared counts the prepared transactions on all shards.
func (w *world) prepared() int { return w.preparedOn([]int{0, 1, 2, 3}) }

// having counts, on each shard, the tables s and r that have a column.
func (w *world) having(column string) (list []int) {
	for shard := range w.any.Shards() {
		list = append(list, value[int](w.t, w.eye(shard),
			"select count(*)::int from pg_attribute where attrelid in ('s'::regclass, 'r'::regclass) and attname = $1 and not attisdropped", column))
	}
	return list
}
