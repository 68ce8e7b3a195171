package lossy

import (
	"fmt"
	"testing"
	"time"
)

// inserts are statements that return the ids they were given, one per sequence and shard.
func (w *world) inserts() []string {
	c := w.connect(0)
	w.must(c, "create sequence down increment -1")
	w.must(c, "create table d (k int, id bigint default nextval('down'), primary key (k, id))")
	w.must(c, "create index on d (id)")
	w.must(c, "create sequence round maxvalue 2000000000 cycle")
	w.must(c, "create table r (k int, id int default nextval('round'), primary key (k, id))")
	w.must(c, "select weft.shard_table('d', 'k')")
	w.must(c, "select weft.shard_table('r', 'k')")
	var out []string
	for _, k := range w.keys {
		for _, table := range []string{"t", "d", "r"} {
			out = append(out, fmt.Sprintf("insert into %s (k) values (%d) returning id", table, k))
		}
	}
	return out
}

// unique fails if an id is on two rows of the shards, or was given to two clients.
func (w *world) unique(l *load) {
	w.Helper()
	if w.Failed() {
		return
	}
	for _, table := range []string{"t", "d", "r"} {
		seen := map[int64]bool{}
		total := 0
		for i := range w.shards {
			ids := value[[]int64](w, w.shards[i].b, "select array_agg(id::bigint) from "+table)
			total += len(ids)
			for _, id := range ids {
				if seen[id] {
					w.Errorf("id %d is twice in %s", id, table)
				}
				seen[id] = true
			}
		}
		given := map[int64]bool{}
		for sql, ids := range l.rows {
			if sql[:len("insert into t")] != "insert into "+table {
				continue
			}
			for _, id := range ids {
				if given[id] {
					w.Errorf("id %d of %s was given twice", id, table)
				}
				given[id] = true
			}
		}
		w.Logf("%s: %d rows, %d ids acknowledged", table, total, len(given))
	}
}

// TestIDsAfterLoss: the home shard loses draws of ids, which rows on other shards have. No id is given again.
func TestIDsAfterLoss(t *testing.T) {
	w := newWorld(t)
	l := w.start(w.inserts()...)
	l.progress(40)
	w.cut(0)
	l.progress(60)
	w.failOver(0)
	l.progress(60)
	l.stop()
	w.generation(0, 2)
	w.shards[1].b = w.shards[1].a.Server
	w.unique(l)
	t.Logf("clients have seen:\n%s", l.failures())
	if lost := value[int64](w, w.shards[0].b, "select last_value from t_id_seq"); lost < 1000 {
		t.Errorf("the sequence is at %d: it has not been raised", lost)
	}
}

// TestIDsWithoutLoss: the home shard has a synchronous standby, and its sequences go on where they were.
func TestIDsWithoutLoss(t *testing.T) {
	w := newWorld(t)
	w.synchronous(0)
	l := w.start(w.inserts()...)
	l.progress(60)
	w.shards[0].a.Kill()
	if err := w.shards[0].b.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.progress(60)
	l.stop()
	w.shards[1].b = w.shards[1].a.Server
	w.unique(l)
	t.Logf("clients have seen:\n%s", l.failures())
}

// TestDrawWaits: no id is used that the home shard's synchronous standby does not know of. What needs no id goes on.
func TestDrawWaits(t *testing.T) {
	w := newWorld(t)
	w.synchronous(0)
	c := w.connect(0)
	w.shards[0].b.Pause()
	t.Cleanup(w.shards[0].b.Resume)
	given := make(chan error, 1)
	insert := fmt.Sprintf("insert into t (k) values (%d)", w.keys[1])
	ctx := w.within()
	go func() {
		for range 200 { // more than one block
			if _, err := c.Exec(ctx, insert); err != nil {
				given <- err
				return
			}
		}
		given <- nil
	}()
	w.await("a draw that waits for the standby", func() bool {
		return value[int](w, w.shards[0].a.Server, "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and query like '%nextval%'") == 1
	})
	w.must(w.connect(1), fmt.Sprintf("update t set v = v + 1 where k = %d", w.keys[1]))
	time.Sleep(200 * time.Millisecond)
	before := value[int](w, w.shards[1].a.Server, "select count(*) from t")
	time.Sleep(300 * time.Millisecond)
	if n := value[int](w, w.shards[1].a.Server, "select count(*) from t"); n != before {
		t.Errorf("%d rows have got ids that the standby does not know of", n-before)
	}
	w.shards[0].b.Resume()
	if err := <-given; err != nil {
		t.Error(err)
	}
}
