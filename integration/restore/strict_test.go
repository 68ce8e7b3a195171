package restore

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/config"
	"weft/integration/harness"
	"weft/pgserver"
)

// TestStrict: clients write on one shard, hear of the commit, and then write on the home shard, whose points are made last. At a strict point no
// second write is there without the first. The log of each shard says what a restore to a point has: each commit before the point.
func TestStrict(t *testing.T) {
	p := harness.StartProgram(t, func(*config.Config) {})
	p.CreateDatabase(t, db)
	c := p.Connect(t, "postgres", "dbname="+db)
	must(t, c, "create table step (key int, client int, n int, primary key (key, client, n))")
	must(t, c, "select weft.shard_table('step', 'key')")
	must(t, c, "insert into step select k, 0, 0 from generate_series(1, 100) k")
	first, second := keyOn(t, p.Shards()[1]), keyOn(t, p.Shards()[0])

	// The whole log is read at the end: a checkpoint must not remove the beginning.
	for _, s := range p.Shards()[:2] {
		one(t, s.ConnString(db), "select count(*) from pg_create_physical_replication_slot('journal', true)", new(int))
		defer one(t, s.ConnString(db), "select count(*) from (select pg_drop_replication_slot('journal')) s", new(int))
	}
	var end atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex
	var took []time.Duration
	for client := 1; client <= 6; client++ {
		c := p.Connect(t, "postgres", "dbname="+db)
		wg.Go(func() {
			for n := 1; !end.Load(); n++ {
				for _, key := range []int{first, second} {
					began := time.Now()
					if _, err := c.Exec(context.Background(), "insert into step values ($1, $2, $3)", key, client, n); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					took = append(took, time.Since(began))
					mu.Unlock()
				}
			}
		})
	}
	stop := func() { end.Store(true); wg.Wait() }
	defer stop()
	for i := range 5 {
		must(t, c, fmt.Sprintf("select weft.restore_point('loose%d')", i))
		must(t, c, fmt.Sprintf("select weft.restore_point('strict%d', true)", i))
	}
	stop()
	slices.Sort(took)
	t.Logf("%d writes: median %s, longest %s", len(took), took[len(took)/2], took[len(took)-1])
	for _, r := range list(t, c, "select name, strict, took_ms, waited_ms, usable, lsn from weft.backups order by at") {
		t.Log(r)
	}

	one, other := journal(t, p.Shards()[1], first), journal(t, p.Shards()[0], second)
	for i := range 5 {
		for _, kind := range []string{"loose", "strict"} {
			name := fmt.Sprint(kind, i)
			had, lacked := 0, 0
			for row, at := range other.rows {
				if at > other.point(t, name) {
					continue
				}
				had++
				if one.rows[row] > one.point(t, name) {
					lacked++
				}
			}
			t.Logf("%s: %d second writes, %d of them without the first", name, had, lacked)
			if kind == "strict" && lacked > 0 {
				t.Errorf("%s: %d writes are there without the write before", name, lacked)
			}
		}
	}
	surface(t, p, c)
}

// surface looks at what users see of points.
func surface(t *testing.T, p *harness.Program, c *pgx.Conn) {
	for sql, want := range map[string]string{
		"select weft.restore_point('strict1')":      "already",
		"select weft.restore_point('a b')":          "letters, digits",
		"select weft.restore_point('x', 'perhaps')": "true or false",
	} {
		if _, err := c.Exec(t.Context(), sql); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", sql, err)
		}
	}
	must(t, c, "create role clerk login")
	d := p.Connect(t, "clerk", "dbname="+db)
	if _, err := d.Exec(t.Context(), "select weft.restore_point('clerks')"); err == nil || !strings.Contains(err.Error(), "permission denied") {
		t.Errorf("a role without rights: %v", err)
	}
	if out, err := p.Run("backup", "list"); err != nil || strings.Count(out, "\nstrict") != 5 || strings.Count(out, "\nloose") != 5 {
		t.Errorf("list: %v\n%s", err, out)
	}
	// While commits are held no other point is made, a write over several shards waits, and a release lets it go on.
	file := filepath.Join(t.TempDir(), "disks.json")
	held := make(chan string, 1)
	go func() {
		out, err := p.Run("backup", "hold", "--for", "3m", "--manifest", file)
		held <- fmt.Sprintf("%s%v", out, err)
	}()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var locks int
		one(t, p.Shards()[0].ConnString(db), "select count(*) from pg_locks where relation = 'weft.decision'::regclass and mode = 'ShareLock' and granted", &locks)
		if locks > 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("nothing is held")
		}
	}
	if _, err := c.Exec(t.Context(), "select weft.restore_point('meanwhile')"); err == nil || !strings.Contains(err.Error(), "weft backup hold") {
		t.Errorf("a point while commits are held: %v", err)
	}
	wrote := make(chan error, 1)
	go func() {
		_, err := d.Exec(context.Background(), "select 1")
		if err == nil {
			_, err = c.Exec(context.Background(), "insert into step select k, 7, 7 from generate_series(1, 100) k")
		}
		wrote <- err
	}()
	select {
	case err := <-wrote:
		t.Errorf("a write over several shards did not wait: %v", err)
	case <-time.After(500 * time.Millisecond):
	}
	if out, err := p.Run("backup", "release"); err != nil || !strings.Contains(out, "released: weft backup hold") {
		t.Errorf("release: %v\n%s", err, out)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
	if out := <-held; !strings.Contains(out, "fit together") {
		t.Errorf("hold: %s", out)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// keyOn returns a key whose rows a server has.
func keyOn(t *testing.T, s *pgserver.Temp) (key int) {
	t.Helper()
	one(t, s.ConnString(db), "select min(key) from step", &key)
	return key
}

// history is where commits and points are in the log of a shard.
type history struct {
	rows   map[string]int // of the commit of a row
	points map[string]int
}

func (h *history) point(t *testing.T, name string) int {
	t.Helper()
	at, ok := h.points[name]
	if !ok {
		t.Fatalf("the log has no point %s", name)
	}
	return at
}

var (
	committed = regexp.MustCompile(`tx: +(\d+), lsn: .* desc: COMMIT `)
	pointed   = regexp.MustCompile(`desc: RESTORE_POINT weft:([a-z0-9]+):`)
)

// journal reads the log of a server.
func journal(t *testing.T, s *pgserver.Temp, key int) *history {
	t.Helper()
	c, err := pgx.Connect(t.Context(), s.ConnString(db))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	must(t, c, "select pg_switch_wal()")
	install, err := pgserver.Find("")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(s.Dir(), "pg_wal", "0000000100000000000000*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	slices.Sort(files)
	// The last files may have nothing yet, and then the program says so with its exit status.
	out, _ := exec.Command(install.Program("pg_waldump"), "--rmgr=Transaction", "--rmgr=XLOG", "--path="+filepath.Join(s.Dir(), "pg_wal"), filepath.Base(files[0]), filepath.Base(files[len(files)-1])).Output()
	h, at := &history{map[string]int{}, map[string]int{}}, map[string]int{}
	for i, line := range strings.Split(string(out), "\n") {
		if m := committed.FindStringSubmatch(line); m != nil {
			at[m[1]] = i
		} else if m := pointed.FindStringSubmatch(line); m != nil {
			h.points[m[1]] = i
		}
	}
	for _, r := range list(t, c, fmt.Sprintf("select client || ' ' || n as row, xmin::text as xid from step where key = %d and client between 1 and 6", key)) {
		n, ok := at[r["xid"].(string)]
		if !ok {
			t.Fatalf("the log has no commit of %v", r)
		}
		h.rows[r["row"].(string)] = n
	}
	return h
}
