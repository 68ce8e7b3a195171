package restore

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/backup"
	"weft/config"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/twopc"
)

const (
	shards   = 3
	db       = "bank"
	accounts = 60
	each     = 1000
)

func TestMain(m *testing.M) {
	harness.ShardCount = shards
	os.Exit(harness.Main(m))
}

// TestTake: weft backup take, while clients transfer money between shards, draw ids from a sequence and write
// reference rows, and weft restore make a second cluster in which the sum is right, no reference row differs, ids go on after the
// largest, and nothing is in doubt.
func TestTake(t *testing.T) {
	p := harness.StartProgram(t, func(*config.Config) {})
	p.CreateDatabase(t, db)
	c := p.Connect(t, "postgres", "dbname="+db)
	must(t, c, `create table account (id int primary key, balance bigint not null);
		create table entry (id bigserial, account int, amount bigint, primary key (account, id));
		create table rate (id int primary key, v bigint not null)`)
	must(t, c, "select weft.shard_table('account', 'id')")
	must(t, c, "select weft.shard_table('entry', 'account')")
	must(t, c, "select weft.reference_table('rate')")
	must(t, c, fmt.Sprintf("insert into account select i, %d from generate_series(1, %d) i", each, accounts))
	must(t, c, "insert into rate values (1, 0)")
	load := start(t, p, 6)
	dir := filepath.Join(temp(t), "taken")
	out, err := p.Run("backup", "take", dir, "--strict")
	if err != nil || !strings.Contains(out, "can be restored") {
		t.Fatalf("take: %v\n%s", err, out)
	}
	load.stop()
	t.Logf("%d transfers beside the backup\n%s", load.done.Load(), out)
	if load.done.Load() == 0 {
		t.Error("nobody worked meanwhile")
	}
	for _, s := range p.Shards() {
		var slots int
		one(t, s.ConnString("postgres"), "select count(*) from pg_replication_slots", &slots)
		if slots != 0 {
			t.Errorf("%d replication slots are left on %s", slots, s.Addr())
		}
	}

	q, _ := revive(t, p, dir, "restored")
	d := q.Connect(t, "postgres", "dbname="+db)
	var n, sum int64
	query(t, d, "select count(*), sum(balance) from account", &n, &sum)
	if n != accounts || sum != accounts*each {
		t.Errorf("%d accounts with %d, want %d with %d", n, sum, accounts, accounts*each)
	}
	// Both entries of a transfer are there, or none.
	query(t, d, "select count(*), coalesce(sum(amount), 0) from entry", &n, &sum)
	if n == 0 || n%2 != 0 || sum != 0 {
		t.Errorf("%d entries with the sum %d", n, sum)
	}
	var before, next int64
	query(t, d, "select max(id) from entry", &before)
	query(t, d, "insert into entry (account, amount) values (1, 0) returning id", &next)
	if next <= before {
		t.Errorf("id %d was given away a second time: there is %d", next, before)
	}
	if rows := list(t, d, "select * from weft.schema_diff()"); len(rows) > 0 {
		t.Errorf("schemas differ: %v", rows)
	}
	if got := fmt.Sprint(list(t, d, "select * from weft.verify_reference()")); !strings.Contains(got, "3 copies of 1 rows are the same") {
		t.Errorf("reference rows: %s", got)
	}
	for _, r := range list(t, d, "select * from weft.verify_placement()") {
		if fmt.Sprint(r["misplaced"]) != "0" {
			t.Errorf("%v", r)
		}
	}
	if rows := list(t, d, "select * from weft.transactions"); len(rows) > 0 {
		t.Errorf("in doubt: %v", rows)
	}
	// It works: over several shards, with a new table, and buckets move.
	must(t, d, "update account set balance = balance + 1")
	must(t, d, "create table fresh (id int primary key)")
	must(t, d, "select weft.shard_table('fresh', 'id')")
	must(t, d, "insert into fresh select generate_series(1, 100)")
	var job string
	query(t, d, "select weft.move_buckets('0-7', 'shard-2')", &job)
	must(t, d, "select weft.wait_move($1)", job)
	query(t, d, "select count(*), sum(balance) from account", &n, &sum)
	if n != accounts || sum != accounts*(each+1) {
		t.Errorf("after a move %d accounts with %d, want %d with %d", n, sum, accounts, accounts*(each+1))
	}
}

// TestDecided: a transaction whose deciding shard had committed at the point, and the other shards had not, is there
// after the restore.
func TestDecided(t *testing.T) {
	p := harness.StartProgram(t, func(*config.Config) {})
	p.CreateDatabase(t, db)
	c := p.Connect(t, "postgres", "dbname="+db)
	must(t, c, "create table account (id int primary key, balance bigint not null)")
	must(t, c, "select weft.shard_table('account', 'id')")
	must(t, c, fmt.Sprintf("insert into account select i, 0 from generate_series(1, %d) i", accounts))
	p.StopAt(t, string(twopc.AfterCommit), false)
	ended := make(chan error, 1)
	go func() {
		_, err := c.Exec(context.Background(), "update account set balance = 7")
		ended <- err
	}()
	for end := time.Now().Add(3 * time.Minute); !p.Stopped(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the commit did not come to its point")
		}
	}
	dir := filepath.Join(temp(t), "taken")
	if out, err := p.Run("backup", "take", dir); err != nil {
		t.Fatalf("take: %v\n%s", err, out)
	}
	p.GoOn()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	q, out := revive(t, p, dir, "decided")
	if !strings.Contains(out, fmt.Sprintf("%d transactions are to be ended", shards-1)) {
		t.Errorf("finish: %s", out)
	}
	d := q.Connect(t, "postgres", "dbname="+db)
	var n, sum int64
	query(t, d, "select count(*), sum(balance) from account", &n, &sum)
	if n != accounts || sum != 7*accounts {
		t.Errorf("%d accounts with %d, want %d with %d", n, sum, accounts, 7*accounts)
	}
}

// TestPoint: a point ends when all shards have archived it, and weft backup check says which shards archive nothing.
func TestPoint(t *testing.T) {
	p := harness.StartProgram(t, func(*config.Config) {})
	p.CreateDatabase(t, db)
	c := p.Connect(t, "postgres", "dbname="+db)
	file := filepath.Join(t.TempDir(), "point.json")
	if out, err := p.Run("backup", "point", "early", "--manifest", file); err == nil || !strings.Contains(out, "no table is declared") {
		t.Errorf("a point of nothing: %v\n%s", err, out)
	}
	must(t, c, "create table account (id int primary key)")
	must(t, c, "select weft.shard_table('account', 'id')")
	if out, err := p.Run("backup", "check"); err == nil || strings.Count(out, "archive_mode is off") != shards {
		t.Errorf("check without archives: %v\n%s", err, out)
	}
	archive := temp(t)
	give(t, p.Shards()[0].Dir(), archive)
	for i, s := range p.Shards() {
		dir := filepath.Join(archive, fmt.Sprint(i))
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		give(t, s.Dir(), dir)
		direct(t, s, "alter system set archive_mode = on", "alter system set archive_command = 'cp \"%p\" "+dir+"/%f'")
		if err := s.Restart(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			direct(t, s, "alter system reset all")
			if err := s.Restart(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
	if out, err := p.Run("backup", "point", "named", "--manifest", file); err != nil || !strings.Contains(out, "point named can be restored") {
		t.Fatalf("point: %v\n%s", err, out)
	}
	if out, err := p.Run("backup", "check"); err != nil || strings.Count(out, " ok\n") != shards {
		t.Errorf("check: %v\n%s", err, out)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := backup.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	for i, k := range m.Marks {
		if _, err := os.Stat(filepath.Join(archive, fmt.Sprint(i), k.File)); err != nil {
			t.Errorf("%s has not archived its point: %v", k.Shard, err)
		}
	}
	if out, err := harness.Command(t, "restore", "plan", "--manifest", file, "--for", "pgbackrest"); err != nil || strings.Count(out, "--target='"+m.Target+"'") != shards {
		t.Errorf("plan: %v\n%s", err, out)
	}
	// A server that was not restored is refused.
	cluster := filepath.Join(t.TempDir(), "cluster.yaml")
	var yaml strings.Builder
	yaml.WriteString("shards:\n")
	for i, s := range p.Shards() {
		fmt.Fprintf(&yaml, "  - {name: shard-%d, hosts: ['%s']}\n", i, s.Addr())
	}
	write(t, cluster, yaml.String())
	weft := filepath.Join(t.TempDir(), "weft.yaml")
	write(t, weft, fmt.Sprintf("cluster: never\netcd: {endpoints: ['%s']}\n", harness.Endpoint(t)))
	if out, err := harness.Command(t, "restore", "finish", "--manifest", file, "-c", weft, "-f", cluster, "--yes"); err == nil || strings.Count(out, "was not restored to the point named") != shards {
		t.Errorf("finish with servers that were not restored: %v\n%s", err, out)
	}
	// An archive that fails is waited for, and named.
	direct(t, p.Shards()[1], "alter system set archive_command = 'false'", "select pg_reload_conf()")
	if out, err := p.Run("backup", "point", "late", "--manifest", filepath.Join(t.TempDir(), "late.json"), "--archived", "2s"); err == nil || !strings.Contains(out, "shard-1 has not archived") {
		t.Errorf("a point that is not archived: %v\n%s", err, out)
	}
}

// direct runs statements on a server.
func direct(t *testing.T, s *pgserver.Temp, statements ...string) {
	t.Helper()
	c, err := pgx.Connect(context.Background(), s.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	for _, sql := range statements {
		if _, err := c.Exec(context.Background(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// temp makes a directory that servers, which do not run as root, may read.
func temp(t *testing.T) string {
	t.Helper()
	dir, err := pgserver.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// revive makes a second cluster of what weft backup take has copied: on other servers and ports, with another prefix in
// etcd. It returns a proxy, and what weft restore finish has printed.
func revive(t *testing.T, p *harness.Program, dir, name string) (*harness.Program, string) {
	t.Helper()
	into := filepath.Join(filepath.Dir(dir), "restored")
	if out, err := harness.Command(t, "restore", "files", dir, "--into", into); err != nil {
		t.Fatalf("files: %v\n%s", err, out)
	}
	give(t, p.Shards()[0].Dir(), dir, into)
	var yaml strings.Builder
	yaml.WriteString("shards:\n")
	for i, s := range p.Shards() {
		shard := fmt.Sprintf("shard-%d", i)
		again := resurrect(t, s, filepath.Join(into, shard))
		fmt.Fprintf(&yaml, "  - {name: %s, hosts: ['%s']}\n", shard, again.Addr())
	}
	cluster, weft := filepath.Join(t.TempDir(), "cluster.yaml"), filepath.Join(t.TempDir(), "weft.yaml")
	write(t, cluster, yaml.String())
	write(t, weft, fmt.Sprintf("cluster: unused\netcd: {endpoints: ['%s']}\n", harness.Endpoint(t)))
	manifest := filepath.Join(dir, "manifest.json")
	finish := func(more ...string) (string, error) {
		return harness.Command(t, append([]string{"restore", "finish", "--manifest", manifest, "-c", weft, "-f", cluster, "--as", name}, more...)...)
	}
	if out, err := finish(); err != nil || !strings.Contains(out, "nothing is changed") {
		t.Fatalf("finish without --yes: %v\n%s", err, out)
	}
	out, err := finish("--yes")
	if err != nil || !strings.Contains(out, "rebuilt") {
		t.Fatalf("finish: %v\n%s", err, out)
	}
	for _, want := range []string{"the schemas of all shards are the same", "rows are on the shards of their keys"} {
		if !strings.Contains(out, "database "+db+": ") || !strings.Contains(out, want) {
			t.Errorf("finish does not say %q:\n%s", want, out)
		}
	}
	// The copy is a cluster of its own, on every database.
	if strings.Count(out, "~ database "+db+" of shard-") != shards {
		t.Errorf("finish: %s", out)
	}
	if out, err := finish("--yes"); err == nil || !strings.Contains(out, "not empty") {
		t.Errorf("a second finish: %v\n%s", err, out)
	}

	return harness.StartProgram(t, func(cfg *config.Config) { cfg.Cluster = name }), out
}

// load is clients that transfer money.
type load struct {
	done atomic.Int64
	end  atomic.Bool
	wg   sync.WaitGroup
}

func start(t *testing.T, p *harness.Program, clients int) *load {
	l := &load{}
	for range clients {
		c := p.Connect(t, "postgres", "dbname="+db)
		l.wg.Go(func() {
			for !l.end.Load() {
				err := transfer(c)
				var e *pgconn.PgError
				if errors.As(err, &e) && (e.Code == "40P01" || e.Code == "40001") {
					continue
				}
				if err != nil {
					t.Errorf("transfer: %v", err)
					return
				}
				l.done.Add(1)
			}
		})
	}
	t.Cleanup(l.stop)
	return l
}

func (l *load) stop() {
	l.end.Store(true)
	l.wg.Wait()
}

// transfer moves one between two accounts.
func transfer(c *pgx.Conn) error {
	a, b := rand.IntN(accounts)+1, rand.IntN(accounts)+1
	ctx := context.Background()
	return pgx.BeginFunc(ctx, c, func(tx pgx.Tx) error {
		for _, s := range []struct {
			sql  string
			args []any
		}{
			{"update account set balance = balance - 1 where id = $1", []any{a}},
			{"update account set balance = balance + 1 where id = $1", []any{b}},
			{"insert into entry (account, amount) values ($1, -1)", []any{a}},
			{"insert into entry (account, amount) values ($1, 1)", []any{b}},
		} {
			if _, err := tx.Exec(ctx, s.sql, s.args...); err != nil {
				return err
			}
		}
		if rand.IntN(5) > 0 {
			return nil
		}
		_, err := tx.Exec(ctx, "update rate set v = v + 1")
		return err
	})
}

// resurrect starts a server on the restored copy of another, and waits until it has left recovery.
func resurrect(t *testing.T, was *pgserver.Temp, dir string) *pgserver.Server {
	t.Helper()
	port, err := pgserver.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	give(t, was.Dir(), dir)
	cfg := was.Config()
	cfg.Dir, cfg.Port = dir, port
	s, err := cfg.Start(t.Context())
	if err != nil {
		text, _ := os.ReadFile(filepath.Join(dir, "server.log"))
		t.Fatalf("%v\n%s", err, text)
	}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(s.LogFile())
			t.Logf("%s:\n%s", s.LogFile(), text)
		}
		_ = s.Stop(context.Background())
	})
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(50 * time.Millisecond) {
		var recovering bool
		one(t, s.ConnString("postgres"), "select pg_is_in_recovery()", &recovering)
		if !recovering {
			return s
		}
		if time.Now().After(end) {
			t.Fatal("still in recovery")
		}
	}
}

// give makes the owner of one directory that of others. Servers do not run as root, though the test may.
func give(t *testing.T, like string, dirs ...string) {
	t.Helper()
	info, err := os.Stat(like)
	if err != nil {
		t.Fatal(err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok || os.Getuid() != 0 {
		return
	}
	if out, err := exec.Command("chown", append([]string{"-R", fmt.Sprintf("%d:%d", st.Uid, st.Gid)}, dirs...)...).CombinedOutput(); err != nil {
		t.Fatalf("chown: %v %s", err, out)
	}
}

func one(t *testing.T, url, sql string, into ...any) {
	t.Helper()
	c, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close(context.Background()) }()
	query(t, c, sql, into...)
}

func query(t *testing.T, c *pgx.Conn, sql string, into ...any) {
	t.Helper()
	if err := c.QueryRow(t.Context(), sql).Scan(into...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func list(t *testing.T, c *pgx.Conn, sql string) []map[string]any {
	t.Helper()
	rows, _ := c.Query(t.Context(), sql)
	out, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
	return out
}

func must(t *testing.T, c *pgx.Conn, sql string, args ...any) {
	t.Helper()
	if _, err := c.Exec(t.Context(), sql, args...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
