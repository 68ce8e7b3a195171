package plpgsql

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

func TestMain(m *testing.M) {
	harness.ShardCount = 4
	os.Exit(harness.Main(m))
}

// peer is a client of one of the two servers.
type peer struct {
	conn    *pgconn.PgConn
	notices []string
}

// connect opens a connection that ends with the test.
func connect(t testing.TB, target *harness.Target, database string) *peer {
	t.Helper()
	p := &peer{}
	cfg, err := pgconn.ParseConfig(target.ConnString("postgres", "dbname="+database))
	if err != nil {
		t.Fatal(err)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		where, _, _ := strings.Cut(n.Where, "\n")
		p.notices = append(p.notices, strings.Join([]string{n.Severity, n.Code, n.Message, n.Detail, n.Hint, where}, "|"))
	}
	ctx, stop := patience()
	defer stop()
	if p.conn, err = pgconn.ConnectConfig(ctx, cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = p.conn.Close(ctx)
	})
	return p
}

func patience() (context.Context, func()) {
	return context.WithTimeout(context.Background(), 3*time.Minute)
}

// unnamed matches the names that PostgreSQL gives cursors.
var unnamed = regexp.MustCompile(`<unnamed portal \d+>`)

// simple sends a text and returns everything that the server says.
func (p *peer) simple(sql string) string {
	ctx, stop := patience()
	defer stop()
	return p.told(p.conn.Exec(ctx, sql))
}

// told collects the answers.
func (p *peer) told(r *pgconn.MultiResultReader) string {
	var b strings.Builder
	for r.NextResult() {
		rows := r.ResultReader()
		var cells strings.Builder
		for _, f := range rows.FieldDescriptions() {
			fmt.Fprintf(&cells, "%s ", f.Name)
		}
		for rows.NextRow() {
			cells.WriteString("(" + shown(rows.Values()) + ") ")
		}
		// PostgreSQL describes the rows of a function before it runs, weft afterwards.
		if tag, err := rows.Close(); err == nil {
			b.WriteString(cells.String() + tag.String() + "; ")
		}
	}
	b.WriteString(failure(r.Close()))
	fmt.Fprintf(&b, " [%c]", p.conn.TxStatus())
	for _, n := range p.notices {
		b.WriteString("\n  " + n)
	}
	p.notices = nil
	return unnamed.ReplaceAllString(b.String(), "<unnamed portal>")
}

func shown(row [][]byte) string {
	out := make([]string, len(row))
	for i, v := range row {
		if out[i] = "NULL"; v != nil {
			out[i] = fmt.Sprintf("%q", v)
		}
	}
	return strings.Join(out, ", ")
}

// failure is what is compared of an error.
func failure(err error) string {
	var e *pgconn.PgError
	if err == nil || !errors.As(err, &e) {
		return fmt.Sprint(err)
	}
	return strings.Join([]string{e.Severity, e.Code, e.Message, e.Detail, e.Hint, e.Where, e.ConstraintName}, "|")
}

// world is a database of both servers, with the same tables.
type world struct {
	plain, weft *peer
	database    string
}

// schema are the tables: two that are sharded by different keys, one on all shards, and one on the home shard.
const schema = `
CREATE TABLE t (a int PRIMARY KEY, b text, c numeric(6,2));
CREATE TABLE u (id int PRIMARY KEY, v varchar(5), n int CHECK (n < 100));
CREATE TABLE r (id int PRIMARY KEY, name text);
CREATE TABLE h (id int PRIMARY KEY, note text);
CREATE TYPE pair AS (x int, y text);
`

var declarations = []string{
	"SELECT weft.shard_table('t', 'a')", "SELECT weft.shard_table('u', 'id')", "SELECT weft.reference_table('r')",
}

const data = `
TRUNCATE t, u; TRUNCATE r; TRUNCATE h;
INSERT INTO t SELECT i, 'b' || i, i / 2.0 FROM generate_series(1, 12) i;
INSERT INTO u SELECT i, 'v' || i, i FROM generate_series(1, 12) i;
INSERT INTO r VALUES (1, 'one'), (2, 'two');
INSERT INTO h VALUES (1, 'home');
`

func newWorld(t *testing.T, database string) *world {
	harness.Weft(t).CreateDatabase(t, database)
	harness.Postgres(t).CreateDatabase(t, database)
	w := &world{connect(t, harness.Postgres(t), database), connect(t, harness.Weft(t), database), database}
	w.both(t, schema)
	for _, sql := range declarations {
		if got := w.weft.simple(sql); !strings.Contains(got, "<nil>") {
			t.Fatalf("%s: %s", sql, got)
		}
	}
	return w
}

// both runs a text that must succeed on both.
func (w *world) both(t *testing.T, sql string) {
	t.Helper()
	for _, p := range []*peer{w.plain, w.weft} {
		if got := p.simple(sql); !strings.Contains(got, "<nil>") {
			t.Fatalf("%s: %s", sql, got)
		}
	}
}

// fill gives both the same rows.
func (w *world) fill(t *testing.T) {
	t.Helper()
	for _, sql := range strings.Split(strings.TrimSpace(data), "\n") {
		for _, s := range strings.Split(sql, "; ") {
			w.both(t, s)
		}
	}
}

// same runs texts on both, one after the other, and compares all that the servers say, and then the tables.
func (w *world) same(t *testing.T, texts ...string) {
	t.Helper()
	w.answers(t, texts...)
	w.sameTables(t)
}

// answers is same without the tables.
func (w *world) answers(t *testing.T, texts ...string) {
	t.Helper()
	for _, sql := range texts {
		want, got := w.plain.simple(sql), w.weft.simple(sql)
		if want != got {
			t.Errorf("%s\nPostgreSQL: %s\nweft:       %s", sql, want, got)
		}
	}
}

func (w *world) sameTables(t *testing.T) {
	t.Helper()
	if w.plain.conn.TxStatus() != 'I' || w.weft.conn.TxStatus() != 'I' {
		w.plain.simple("ROLLBACK")
		w.weft.simple("ROLLBACK")
	}
	for _, table := range []string{"t", "u", "r", "h"} {
		sql := "SELECT * FROM " + table + " ORDER BY 1"
		if want, got := w.plain.simple(sql), w.weft.simple(sql); want != got {
			t.Errorf("table %s\nPostgreSQL: %s\nweft:       %s", table, want, got)
		}
	}
}
