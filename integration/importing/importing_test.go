package importing

import (
	"context"
	"flag"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"
	"time"
)

var (
	kills   = flag.Int("kills", 2, "how many times TestKilled kills the importer at a random moment")
	seedVar = flag.Uint64("seed", 1, "of TestKilled's moments")
)

// TestKilled: the importer is killed at every step while the source is written to, and every row arrives once.
func TestKilled(t *testing.T) {
	w := newWorld(t, "import_killed", nil)
	w.fill(200)
	stop := w.load(2, 20*time.Millisecond)
	began := time.Now()
	for _, point := range []string{
		"import-dumped", "import-schema", "import-declared", "import-published", "import-slot", "import-copying", "import-rows-copied", "import-copied-table", "import-copied",
		"import-following", "import-batch", "import-committed", "import-batch",
	} {
		w.killed(point, start("--jobs", "3")...)
	}
	t.Logf("killed at every step of start: %s", time.Since(began).Round(time.Millisecond))
	r := rand.New(rand.NewPCG(*seedVar, 0))
	for range *kills {
		p := w.run("", start()...)
		time.Sleep(time.Duration(100+r.IntN(600)) * time.Millisecond)
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		if !w.wait(p) {
			t.Fatalf("it ended by itself:\n%s", p.out.String())
		}
	}
	t.Logf("killed %d times at random: %s", *kills, time.Since(began).Round(time.Millisecond))
	// Compared by a process that follows itself, and by one that asks another to stop.
	if out := w.importing(0, "verify"); strings.Count(out, "same") != len(w.tables) {
		t.Errorf("verify:\n%s", out)
	}
	t.Logf("compared by a process that follows itself: %s", time.Since(began).Round(time.Millisecond))
	p := w.run("", start()...)
	w.follows(p)
	if out := w.importing(0, "verify"); strings.Count(out, "same") != len(w.tables) {
		t.Errorf("verify:\n%s", out)
	}
	if out := w.importing(0, "status"); !strings.Contains(out, "following; a process follows") || !strings.Contains(out, "behind by") {
		t.Errorf("status:\n%s", out)
	}
	if out := w.importing(1, start()...); !strings.Contains(out, "running already") {
		t.Errorf("a second one:\n%s", out)
	}
	t.Logf("compared under load: %s", time.Since(began).Round(time.Millisecond))
	for _, point := range []string{"import-read-only", "import-reached", "import-settled", "import-compared", "import-finishing", "import-cleaned"} {
		w.killed(point, "cutover", "--max-pause", "180s", "--max-lag", "60s", "--rows")
	}
	w.importing(0, "cutover", "--max-pause", "180s")
	if w.wait(p); p.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("start ended with %v:\n%s", p.err, p.out.String())
	}
	t.Logf("%d transactions while it was imported; %s", stop(), time.Since(began).Round(time.Millisecond))
	w.same()
	w.gone()
	from, into := w.dial(w.fromURL()), w.dial(w.intoURL())
	if err := from.QueryRow(context.Background(), "insert into wiped values (-1, '') returning 1").Scan(new(int)); err == nil {
		t.Error("the source is writable")
	}
	for _, name := range []string{"customers_id_seq", "orders_id_seq", "notes_id_seq", "loose"} {
		if last, next := value[int](w, from, "select last_value from "+name), value[int](w, into, "select nextval($1)", name); next <= last {
			t.Errorf("%s: %d after %d", name, next, last)
		}
	}
	if a, b := value[int](w, from, "select count(*) from orders"), value[int](w, into, "select n from grand"); a != b {
		t.Errorf("materialized views: %d, want %d", b, a)
	}
	if out := w.importing(0, "status"); !strings.Contains(out, ": done;") {
		t.Errorf("status:\n%s", out)
	}
	w.importing(1, "abort", "--drop")
	w.importing(0, "abort")
	w.importing(1, "status")
	w.same()
}

// TestGivesBack: a cut-over that fails leaves the source writable and the import going on; a definition that changes stops the import until the
// target has it, too; an abort leaves nothing on the source, whatever was killed before.
func TestGivesBack(t *testing.T) {
	w := newWorld(t, "import_back", nil)
	from, into := w.dial(w.fromURL()), w.dial(w.intoURL())
	w.tables = []string{"wiped", "notes"}
	w.must(from, `create table wiped (id int primary key, body text); create table notes (id int generated always as identity primary key, body text);
		insert into wiped select i, 'w' from generate_series(1, 50) i; insert into notes (body) select 'n' from generate_series(1, 20)`)
	args := []string{"start", "--shard", "wiped.id"}
	p := w.run("", args...)
	w.follows(p)
	// Somebody writes to weft before his time.
	w.must(into, "insert into wiped values (-5, 'too early')")
	if out := w.importing(1, "cutover", "--max-pause", "180s"); !strings.Contains(out, "public.wiped differs: 50 rows in the source, 51 in weft") {
		t.Errorf("cutover:\n%s", out)
	}
	from = w.dial(w.fromURL()) // the other one was ended
	w.must(from, "insert into wiped values (1000, 'later')")
	if out := w.importing(1, "verify"); !strings.Contains(out, "DIFFERENT") || !strings.Contains(out, "1 of 2 tables differ") {
		t.Errorf("verify:\n%s", out)
	}
	w.must(into, "delete from wiped where id = -5")
	// One transaction that is larger than a batch.
	w.must(from, "insert into notes (body) select 'many' from generate_series(1, 12000); update notes set body = 'all' where id % 2 = 0")
	w.importing(0, "verify")
	w.same()
	// A definition changes.
	w.must(from, "alter table wiped add extra int default 7; insert into wiped values (2000, 'x', 8)")
	if w.wait(p); p.cmd.ProcessState.ExitCode() != 1 || !strings.Contains(p.out.String(), "source: body text, extra integer, id integer") || !strings.Contains(p.out.String(), "target: body text, id integer") {
		t.Errorf("start:\n%s", p.out.String())
	}
	if out := w.importing(1, "cutover"); !strings.Contains(out, "wiped has changed on the source") {
		t.Errorf("cutover:\n%s", out)
	}
	w.must(into, "alter table wiped add extra int default 7")
	w.importing(0, "verify")
	// New tables are not part of it.
	w.must(from, "create table newer (id int primary key)")
	if out := w.importing(1, "cutover"); !strings.Contains(out, "public.newer was made on the source") {
		t.Errorf("cutover:\n%s", out)
	}
	w.must(from, "drop table newer")
	w.same()
	// A pause that is too short.
	if out := w.importing(1, "cutover", "--max-pause", "1ms"); !strings.Contains(out, "longer than 1ms") {
		t.Errorf("cutover:\n%s", out)
	}
	from = w.dial(w.fromURL())
	w.must(from, "insert into wiped values (3000, 'x', 8)")
	w.killed("import-read-only", "cutover")
	w.importing(0, "abort", "--drop")
	w.gone()
	from = w.dial(w.fromURL())
	w.must(from, "insert into wiped values (4000, 'x', 8)") // writable
	if n := value[int](w, into, "select count(*) from pg_class where relname in ('wiped', 'notes', 'job')"); n != 0 {
		t.Errorf("%d tables are left in weft", n)
	}
	w.importing(0, "abort")
}

// TestCheck: what stands in the way is said before anything is made.
func TestCheck(t *testing.T) {
	w := newWorld(t, "import_check", map[string]string{"wal_level": "replica", "max_replication_slots": "1"})
	from := w.dial(w.fromURL())
	w.must(from, `create role imported; create table nokey (a int); create unlogged table fast (id int primary key); create table fine (id int primary key, k int not null);
		create table full_ (a int); alter table full_ replica identity full; alter table fine owner to imported; select lo_create(0)`)
	args := []string{"--shard", "fine.k", "--shard", "absent.id"}
	for _, command := range []string{"check", "start"} {
		out := w.importing(1, append([]string{command}, args...)...)
		for _, word := range []string{
			"wal_level of the source is replica", "max_replication_slots = 1", "roles are missing in weft: imported", "1 large objects", "public.nokey has no key", "public.fast is unlogged",
			"public.full_ has no key: rows that change are found by comparing all columns", "the key of public.fine does not have its shard key", "public.absent is to be sharded by id", "the import cannot start",
		} {
			if !strings.Contains(out, word) {
				t.Errorf("%s: no %q in\n%s", command, word, out)
			}
		}
	}
	w.gone()
	into := w.dial(w.intoURL())
	if n := value[int](w, into, "select count(*) from pg_class where relname in ('fine', 'job')"); n != 0 {
		t.Errorf("%d tables were made", n)
	}
	for _, bad := range [][]string{{"check", "--shard", "nodot"}, {"check", "--exclude", "a.b.c"}, {"check", "-f", "/does/not/exist"}} {
		w.importing(1, bad...)
	}
}
