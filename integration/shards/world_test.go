package shards

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
)

const (
	accounts = 400
	patience = 5 * time.Minute // a machine that does much else is slow
)

func TestMain(m *testing.M) {
	harness.ShardCount = 2
	os.Exit(harness.Main(m))
}

// world is a database with colocated tables acct and line, a reference table rate with a foreign
// key to it, and proxies that serve it.
type world struct {
	*testing.T
	db      string
	proxies []*harness.Target
}

func newWorld(t *testing.T, db string, proxies int) *world {
	t.Helper()
	w := &world{T: t, db: db}
	for range proxies {
		w.proxies = append(w.proxies, harness.StartWeft(t, func(*config.Config) {}))
	}
	w.proxies[0].CreatePrepared(t, db)
	c := w.conn(0)
	w.must(c, `create type mood as enum ('good', 'bad');
		create function double(n bigint) returns bigint immutable language sql as 'select 2 * n';
		create table rate (code text primary key, value bigint not null);
		create table acct (id bigint primary key, balance bigint not null default 1000, touched int not null default 0, note text, mood mood, twice bigint generated always as (double(balance)) stored);
		create index on acct (touched);
		create table line (acct bigint not null references acct, n bigint not null, rate text references rate, body text, primary key (acct, n));
		create view busy as select id from acct where touched > 0;
		insert into rate select 'r' || i, i from generate_series(1, 50) i`)
	w.must(c, fmt.Sprintf("insert into acct (id) select i from generate_series(1, %d) i", accounts))
	w.must(c, "select weft.reference_table('rate')")
	w.must(c, "select weft.shard_table('acct', 'id')")
	w.must(c, "select weft.shard_table('line', 'acct')")
	return w
}

func (w *world) conn(proxy int) *pgx.Conn {
	w.Helper()
	return w.proxies[proxy].Connect(w.T, "postgres", "dbname="+w.db)
}

func (w *world) must(c *pgx.Conn, sql string, args ...any) pgconn.CommandTag {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	tag, err := c.Exec(ctx, sql, args...)
	if err != nil {
		w.Fatalf("%s: %v", sql, explained(err))
	}
	return tag
}

// refused fails unless a statement fails with a code and a message that has a word in it.
func (w *world) refused(c *pgx.Conn, code, word, sql string, args ...any) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	_, err := c.Exec(ctx, sql, args...)
	if e, ok := err.(*pgconn.PgError); !ok || e.Code != code || !strings.Contains(e.Message, word) {
		w.Errorf("%s: %v, want %s with %q", sql, explained(err), code, word)
	}
}

func explained(err error) error {
	if e, ok := err.(*pgconn.PgError); ok {
		return fmt.Errorf("%s: %s; detail %q, hint %q", e.Code, e.Message, e.Detail, e.Hint)
	}
	return err
}

func value[T any](w *world, c *pgx.Conn, sql string, args ...any) (v T) {
	w.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	if err := c.QueryRow(ctx, sql, args...).Scan(&v); err != nil {
		w.Errorf("%s: %v", sql, explained(err))
	}
	return v
}

func values(w *world, c *pgx.Conn, sql string, args ...any) []map[string]any {
	w.Helper()
	rows, _ := c.Query(context.Background(), sql, args...)
	out, err := pgx.CollectRows(rows, pgx.RowToMap)
	if err != nil {
		w.Fatalf("%s: %v", sql, explained(err))
	}
	return out
}

// settled fails unless every row is where the placement says, the copies of reference tables and
// the schemas of all shards are the same, and nothing is left behind.
func (w *world) settled(c *pgx.Conn) {
	w.Helper()
	for _, f := range values(w, c, "select * from weft.verify_placement()") {
		if f["misplaced"] != "0" {
			w.Errorf("%v", f)
		}
	}
	for _, f := range values(w, c, "select * from weft.verify_reference()") {
		if !strings.Contains(fmt.Sprint(f["finding"]), "are the same") {
			w.Errorf("%v", f)
		}
	}
	for _, f := range values(w, c, "select * from weft.schema_diff()") {
		w.Errorf("%v", f)
	}
	snap := harness.Snapshot(w.T)
	if len(snap.Moves) > 0 {
		w.Errorf("jobs are left: %+v", snap.Moves)
	}
	for i := range snap.Shards {
		d, err := pgx.Connect(context.Background(), fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", snap.Shards[i].Hosts[0], w.db))
		if err != nil {
			w.Fatal(err)
		}
		// A client may be told of its commit before all shards have followed.
		for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
			n := value[int](w, d, "select count(*) from pg_prepared_xacts where database = current_database()")
			if n == 0 {
				break
			}
			if time.Now().After(end) {
				w.Fatalf("%d transactions are prepared on %s", n, snap.Shards[i].Name)
			}
		}
		_ = d.Close(context.Background())
	}
}

// spread counts the buckets of the database on each shard.
func (w *world) spread() map[string]int {
	w.Helper()
	snap := harness.Snapshot(w.T)
	out := map[string]int{}
	for _, at := range snap.PlacementOf(w.db, "") {
		out[snap.Shards[at].Name]++
	}
	return out
}
