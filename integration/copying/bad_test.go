package copying

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
	"weft/integration/pair"
)

// endless yields rows until it is told to stop.
type endless struct {
	n    int
	stop func(n int) error
}

func (e *endless) Read(p []byte) (int, error) {
	if err := e.stop(e.n); err != nil {
		return 0, err
	}
	var b []byte
	for len(b) < 8<<10 {
		b = fmt.Appendf(b, "%d\tx\n", e.n)
		e.n++
	}
	return copy(p, b), nil
}

// paused yields two parts, and takes a while between them.
type paused struct {
	parts []string
}

func (p *paused) Read(b []byte) (int, error) {
	if len(p.parts) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.parts[0])
	if p.parts[0] = p.parts[0][n:]; p.parts[0] == "" {
		p.parts = p.parts[1:]
		time.Sleep(100 * time.Millisecond)
	}
	return n, nil
}

// testFirstError: of several wrong rows the first is told, also if it is on another
// shard than those whose errors come first.
func testFirstError(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for first := range 4 {
		data := lines(5000, func(i int) string {
			if i >= 8 { // more than weft keeps back, all to one shard
				return "1000\tbad\t" + strings.Repeat("x", 30) + "\n"
			}
			return fmt.Sprintf("%d\t%s\t\n", i, map[bool]string{true: "bad", false: "1"}[i == first])
		})
		told := func(c *pgconn.PgConn) string {
			return outcome(c.CopyFrom(ctx, &paused{[]string{data, "1\t1\tx\n"}}, "copy items (k, b, a) from stdin"))
		}
		if want, got := told(w.plain), told(w.weft); want != got {
			t.Errorf("PostgreSQL: %s\nweft: %s", want, got)
		}
	}
	// A key that is taken is found after a value that is none.
	w.both(t, "copy items (k, b) from stdin", lines(40, func(i int) string { return fmt.Sprintf("%d\t%d\n", i%30, max(0, i-35)*1000) }), 1000)
	w.same(t)
}

// testGivenUp lets the client end its data with CopyFail.
func testGivenUp(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	told := func(c *pgconn.PgConn) string {
		tag, err := c.CopyFrom(ctx, &endless{stop: func(n int) error {
			if n > 50_000 {
				return errors.New("enough")
			}
			return nil
		}}, "copy items (k, a) from stdin")
		return outcome(tag, err)
	}
	if want, got := told(w.plain), told(w.weft); want != got || !strings.Contains(want, "enough") {
		t.Errorf("PostgreSQL: %s\nweft: %s", want, got)
	}
	w.same(t)
	// What is wrong with rows that came before is told, also of one that is not whole.
	for _, data := range []string{"1\tx\n2\ty\nbad\tz\n4\tx\n", "1\tx\n2\ty\xff", "1\tx\r2\ty\r3\tz\r", "1\tx\n2\ty\n\\.\n", "1\tx\n2\t"} {
		j := &job{sql: "copy items (k, a) from stdin", pieces: [][]byte{[]byte(data)}, end: endFail}
		if want, got := j.run(w.plain), j.run(w.weft); want.told != got.told {
			t.Errorf("%s\nPostgreSQL: %s\nweft: %s", j, want.told, got.told)
		}
	}
	w.both(t, "copy items (k, a) from stdin", "1\tx\n", 10) // the session goes on
	w.same(t)
}

// testClientGone lets the client vanish in the middle.
func testClientGone(t *testing.T, w *world) {
	c := connect(t, harness.Weft(t), w.database)
	_, err := c.CopyFrom(context.Background(), &endless{stop: func(n int) error {
		if n > 50_000 {
			_ = c.Conn().Close()
		}
		return nil
	}}, "copy items (k, a) from stdin")
	if err == nil {
		t.Fatal("no error")
	}
	w.both(t, "copy items (k, a) from stdin", "1\tx\n", 10)
	w.same(t)
	w.quiet(t)
}

// testShardGone terminates a shard's backend in the middle.
func testShardGone(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for i, s := range harness.Weft(t).Shards() {
		direct := pair.Dial(t, ctx, s, w.database)
		killed := false
		_, err := w.weft.CopyFrom(ctx, &endless{stop: func(n int) error {
			if n > 5_000_000 {
				return io.EOF
			}
			if n > 50_000 && !killed {
				w.awaitCopy(t, i) // pgx begins to read before the COPY does
				if _, err := direct.Exec(ctx, "select count(pg_terminate_backend(pid)) from pg_locks where relation = 'items'::regclass and pid <> pg_backend_pid()"); err != nil {
					t.Error(err)
				}
				killed = true
			}
			return nil
		}}, "copy items (k, a) from stdin")
		e := (*pgconn.PgError)(nil)
		if !errors.As(err, &e) || e.Code != "08006" && e.Code != "57P01" {
			t.Fatalf("shard %d: %v", i, err)
		}
		_ = direct.Close(ctx)
		if w.weft.IsClosed() {
			t.Fatalf("shard %d: the session has ended: %v", i, err)
		}
	}
	w.same(t)
	w.quiet(t)
}

// testShardCrashed kills a shard's backend such that the whole server starts anew.
func testShardCrashed(t *testing.T, w *world) {
	const shard = 3
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	w.both(t, "copy items (k, a) from stdin", lines(100, func(i int) string { return fmt.Sprintf("%d\tx\n", -i-1) }), 100)
	killed := false
	_, err := w.weft.CopyFrom(ctx, &endless{stop: func(n int) error {
		if n > 5_000_000 {
			return io.EOF
		}
		if n > 50_000 && !killed {
			killed = true
			w.awaitCopy(t, shard)
			direct := pair.Dial(t, ctx, harness.Weft(t).Shards()[shard], w.database)
			defer direct.Close(ctx)
			pid := 0
			if err := direct.QueryRow(ctx, "select pid from pg_locks where relation = 'items'::regclass and mode = 'RowExclusiveLock' limit 1").Scan(&pid); err != nil {
				return err
			}
			return syscall.Kill(pid, syscall.SIGKILL)
		}
		return nil
	}}, "copy items (k, a) from stdin")
	if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != "08006" && e.Code != "57P02" {
		t.Fatal(err)
	}
	for { // recovering
		conn, err := pgx.Connect(ctx, harness.Weft(t).Shards()[shard].ConnString(w.database))
		if err == nil {
			_ = conn.Close(ctx)
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	pair.SameTables(t, w.database, nil)
	w.quiet(t)
	w.both(t, "copy items (k, a) from stdin", lines(100, func(i int) string { return fmt.Sprintf("%d\tx\n", i+1) }), 100)
	pair.SameTables(t, w.database, nil)
}

// testCancelled cancels a COPY while the client still sends.
func testCancelled(t *testing.T, w *world) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	sent := false
	_, err := w.weft.CopyFrom(ctx, &endless{stop: func(n int) error {
		if n > 50_000 && !sent {
			sent = true
			w.awaitCopy(t, 3) // pgx begins to read before the COPY does
			return w.weft.CancelRequest(ctx)
		}
		if n > 5_000_000 {
			return io.EOF
		}
		return nil
	}}, "copy items (k, a) from stdin")
	if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != "57014" {
		t.Errorf("%v", err)
	}
	w.same(t)
	w.quiet(t)
}

// testBlock copies inside the client's own transaction.
func testBlock(t *testing.T, w *world) {
	both := func(sql string) {
		t.Helper()
		must(t, w.plain, sql)
		must(t, w.weft, sql)
	}
	both("begin")
	w.both(t, "copy items (k, a) from stdin", lines(100, func(i int) string { return fmt.Sprintf("%d\tx\n", i) }), 100)
	both("rollback")
	w.same(t)
	both("begin")
	both("insert into items (k, a) values (1000, 'y')")
	w.both(t, "copy items (k, a) from stdin", lines(100, func(i int) string { return fmt.Sprintf("%d\tx\n", i) }), 100)
	both("savepoint s")
	w.both(t, "copy items (k, a) from stdin", "200\tx\n201\ty\n7\tz\n202\tz\n", 100)
	both("rollback to s")
	w.both(t, "copy items (k, a) from stdin", "200\tx\n201\ty\n", 100)
	both("commit")
	w.same(t)
	// As psql -1 restores a dump: what the settings are cannot be asked meanwhile.
	both("begin")
	both("set statement_timeout = '1min'")
	w.both(t, "copy items (k, a) from stdin", lines(20, func(i int) string { return fmt.Sprintf("%d\tx\n", 400+i) }), 100)
	both("commit")
	w.same(t)
	both("begin")
	w.both(t, "copy items (k, a) from stdin", "300\tx\n301\ty\nbad\tz\n", 100)
	w.both(t, "copy items (k, a) from stdin", "300\tx\n", 100)
	both("commit")
	w.same(t)
}

// TestSupplied leaves columns out that weft must supply.
func TestSupplied(t *testing.T) {
	setup := []string{
		"create table logs (id bigserial, k int not null, t timestamptz default date_trunc('year', now()), d date default current_date, u text default upper('x'), g int generated always as (k * 2) stored, n int generated always as identity, primary key (k, id))",
		"create table tickets (u uuid default gen_random_uuid() primary key, a text)",
		"create table counted (id serial primary key, a text)",
		"create table marked (k int default 7, a text)",
		"create table countries (code serial primary key, name text, seen timestamptz default date_trunc('year', now()))",
		"create table parts (k int not null, day date not null, a text) partition by range (day)",
		"create table parts_1 partition of parts for values from ('2024-01-01') to ('2024-02-01')",
		"create table parts_2 partition of parts default",
	}
	w := newWorld(t, "supplied", setup, "select weft.shard_table('logs', 'k')", "select weft.shard_table('tickets', 'u')", "select weft.shard_table('counted', 'id')",
		"select weft.shard_table('marked', 'k')", "select weft.reference_table('countries')", "select weft.shard_table('parts', 'k')")
	ks := lines(200, func(i int) string { return fmt.Sprintf("%d\n", i*7) })
	w.both(t, "copy logs (k) from stdin", ks, 300)
	w.both(t, "copy logs (k) from stdin csv", ks, 300)
	w.both(t, "copy logs (k, u) from stdin (format csv, quote '1', null '5', delimiter '3')", "23x\n43y\n", 300)
	w.both(t, "copy logs (k, u) from stdin (null '7')", "1\tx\n2\t7\n", 300)
	w.both(t, "copy logs (k, u) from stdin", "1\tx\n2\n", 300)
	w.both(t, "copy logs (k, u) from stdin", "1\tx\n2\t3\t4\n", 300)
	w.both(t, "copy logs (k, u) from stdin", "1\tx\nbad\ty\n", 300)
	w.both(t, "copy logs (k, g) from stdin", "1\t1\n", 300)
	w.both(t, "copy counted (a) from stdin", "a\nb\nc\nd\ne\n", 3)
	w.both(t, "copy counted (a) from stdin (format csv, header match)", "a\nb\n\"c\nc\"\nd\ne\n", 3)
	// The line is the client's, without the id that weft has put before it.
	w.both(t, "copy counted (a) from stdin", lines(20, func(i int) string { return fmt.Sprintf("%d\t\n", i) })+"x\tx\n", 3)
	must(t, w.plain, "truncate counted restart identity")
	must(t, w.weft, "truncate counted restart identity")
	w.both(t, "copy counted (a) from stdin", lines(20, func(i int) string { return fmt.Sprintf("%d%s\n", i, map[bool]string{true: "\tx"}[i == 3]) }), 1000)
	must(t, w.plain, "truncate counted restart identity")
	must(t, w.weft, "truncate counted restart identity")
	w.both(t, "copy marked (a) from stdin", "a\nb\n", 3)
	w.both(t, "copy marked from stdin", "\\N\tb\n8\tc\n", 3)
	w.both(t, "copy countries (name) from stdin", "Chad\nPeru\n", 3)
	w.both(t, "copy countries from stdin", "77\tMali\t2024-01-01\n78\tOman\t2024-01-01\n", 3)
	head := "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	w.both(t, "copy countries (name, code) from stdin (format binary)", head+"\x00\x02\x00\x00\x00\x04Fiji\x00\x00\x00\x04\x00\x00\x00\x50\xff\xff", 3)
	w.both(t, "copy countries from stdin (format binary)", head+"\x00\x03\x00\x00\x00\x04\x00\x00\x00\x51\x00\x00\x00\x04Cuba\xff\xff\xff\xff\xff\xff", 3)
	w.both(t, "copy countries (code, name) from stdin", "90\tTogo\n77\tagain\n", 3)
	w.both(t, "copy parts from stdin", "1\t2024-01-03\tx\n2\t2024-05-03\ty\n3\t2024-01-04\tz\n", 3)
	w.both(t, "copy parts_1 from stdin", "4\t2024-01-03\tx\n5\t2024-01-05\ty\n", 3)
	w.both(t, "copy parts_1 from stdin", "4\t2024-01-03\tx\n5\t2024-03-05\ty\n", 3)
	w.same(t)
	tag := outcome(w.weft.CopyFrom(context.Background(), strings.NewReader("x\ny\nz\n"), "copy tickets (a) from stdin"))
	if tag != "COPY 3" {
		t.Error(tag)
	}
	// Nobody but the backend that reads the data could tell the next value.
	must(t, w.weft, "begin")
	must(t, w.weft, "truncate counted restart identity")
	if told := w.copyFrom(w.weft, "copy counted (a) from stdin", "a\nb\n", 3); !strings.Contains(told, "ERROR 0A000: COPY cannot draw values") {
		t.Error(told)
	}
	must(t, w.weft, "rollback")
	// One now() for all shards.
	must(t, w.weft, "create table timed (k int primary key, t timestamptz default now())")
	must(t, w.weft, "select weft.shard_table('timed', 'k')")
	if tag := outcome(w.weft.CopyFrom(context.Background(), strings.NewReader(ks), "copy timed (k) from stdin")); tag != "COPY 200" {
		t.Error(tag)
	}
	if got := string(must(t, w.weft, "select count(distinct t) from timed")[0].Rows[0][0]); got != "1" {
		t.Errorf("%s values of now()", got)
	}
}

// TestBinary sends rows as pgx does.
func TestBinary(t *testing.T) {
	w := newWorld(t, "binary", []string{"create table logs (id bigserial, k int not null, a text, u uuid default gen_random_uuid(), t timestamptz default date_trunc('year', now()), primary key (k, id))"},
		"select weft.shard_table('logs', 'k')")
	w.mask["u"] = true
	for _, target := range []*harness.Target{harness.Postgres(t), harness.Weft(t)} {
		conn := target.Connect(t, "postgres", "dbname="+w.database)
		n, err := conn.CopyFrom(context.Background(), pgx.Identifier{"logs"}, []string{"k", "a"}, pgx.CopyFromSlice(1000, func(i int) ([]any, error) {
			return []any{i * 3, strings.Repeat("x", i)}, nil
		}))
		if n != 1000 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		_, err = conn.CopyFrom(context.Background(), pgx.Identifier{"logs"}, []string{"k", "a"}, pgx.CopyFromRows([][]any{{1, "x"}, {nil, "y"}, {3, "z"}}))
		if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != "23502" || !strings.HasPrefix(e.Where, "COPY logs, line 2") {
			t.Errorf("%s", outcome(pgconn.CommandTag{}, err))
		}
	}
	w.same(t)
	head := "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	one := "\x00\x02\x00\x00\x00\x04\x00\x00\x00\x07\x00\x00\x00\x01x"
	for _, data := range []string{
		head, head + "\xff\xff", head + one + one, head + one + "\xff\xff", head + one + "\xff\xffx", head + one + "\x00\x01\x00\x00\x00\x04\x00\x00\x00\x07",
		head + one + "\x00\x02\x00\x00\x00\x03\x00\x00\x07\x00\x00\x00\x01x", head + one + "\x00\x02\x00", head + one + "\x00\x02\x00\x00\x00\x04\x00\x00\x00\x07\xff\xff\xff\xf0",
		head[:15], head[:12] + "\x00\x01\x00\x00\x00\x00\x00\x00", "nonsense, and long enough to be a header", head + one + one + "\xff\xfe",
		head[:15] + "\x00\x00\x00\x03abc" + one,
	} {
		w.both(t, "copy logs (k, a) from stdin (format binary)", data, 1)
		w.both(t, "copy logs (k, a, id, u, t) from stdin (format binary)", data, 1000)
	}
	w.mask["id"] = true
	w.same(t)
}

// testExtended copies in the extended protocol, with the Sync before the data as libpq
// sends it.
func testExtended(t *testing.T, w *world) {
	for _, data := range []string{lines(100, func(i int) string { return fmt.Sprintf("%d\tx\n", i) }), "200\tx\nbad\ty\n", "300\tx\n301\ty\n"} {
		for _, early := range []bool{true, false} {
			var told []string
			for _, c := range []*pgconn.PgConn{w.plain, w.weft} {
				f := c.Frontend()
				f.SendParse(&pgproto3.Parse{Query: "copy items (k, a) from stdin"})
				f.SendBind(&pgproto3.Bind{})
				f.SendDescribe(&pgproto3.Describe{ObjectType: 'P'})
				f.SendExecute(&pgproto3.Execute{})
				if early {
					f.SendSync(&pgproto3.Sync{})
				} else {
					f.Send(&pgproto3.Flush{})
				}
				f.Send(&pgproto3.CopyData{Data: []byte(data)})
				f.Send(&pgproto3.CopyDone{})
				f.SendSync(&pgproto3.Sync{})
				if err := f.Flush(); err != nil {
					t.Fatal(err)
				}
				var b strings.Builder
				for done := false; !done; {
					_ = c.Conn().SetReadDeadline(time.Now().Add(patience))
					m, err := f.Receive()
					if err != nil {
						t.Fatalf("%v after %s", err, b.String())
					}
					switch m := m.(type) {
					case *pgproto3.ErrorResponse:
						fmt.Fprintf(&b, "error %s %s %s; ", m.Code, m.Message, m.Where)
					case *pgproto3.CommandComplete:
						fmt.Fprintf(&b, "%s; ", m.CommandTag)
					case *pgproto3.ReadyForQuery:
						fmt.Fprintf(&b, "ready %c", m.TxStatus)
						done = true
					default:
						fmt.Fprintf(&b, "%T; ", m)
					}
				}
				told = append(told, b.String())
			}
			if told[0] != told[1] {
				t.Errorf("%q\nPostgreSQL: %s\nweft:       %s", clip(data), told[0], told[1])
			}
		}
		w.same(t)
	}
}

// testSyncs sends Sync among data of which a row is wrong: the answers to it, as many as
// there are, are not those to what comes next.
func testSyncs(t *testing.T, w *world) {
	for _, table := range []string{"items", "lone"} {
		for _, extended := range []bool{false, true} {
			j := &job{sql: "copy " + table + " (k, a) from stdin", pieces: [][]byte{[]byte("1\tx\nbad\ty\n")}, syncs: true, extended: extended}
			for i := range 300 {
				j.pieces = append(j.pieces, fmt.Appendf(nil, "%d\tx\n", 10+i))
			}
			if want, got := j.run(w.plain), j.run(w.weft); want.told != got.told {
				t.Errorf("%s\nPostgreSQL: %s\nweft:       %s", j, want.told, got.told)
			}
			for i := range 3 {
				if got := string(must(t, w.weft, fmt.Sprintf("select %d", i))[0].Rows[0][0]); got != fmt.Sprint(i) {
					t.Fatalf("%s: select %d yields %s", table, i, got)
				}
			}
		}
	}
	w.same(t)
}

// TestShownLines: an error shows the first bytes of a long line, and no half of a character.
func TestShownLines(t *testing.T) {
	w := newWorld(t, "shown", []string{"create table notes (k int primary key, a text)"}, "select weft.shard_table('notes', 'k')")
	for n := range 4 {
		for _, char := range []string{"x", "é", "日", "🙂"} {
			long := strings.Repeat("x", n) + strings.Repeat(char, 60)
			w.both(t, "copy notes from stdin", "1\tfine\n2\t"+long+"\tmore\n", 50)
			w.both(t, "copy notes from stdin (header match)", "k\t"+long+"\n1\tfine\n", 50)
		}
	}
	w.same(t)
}
