package parser

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestIdentity shows rewritten texts: self is session 7, session 7 holds backend 1007 and session 8 backend 1008.
func TestIdentity(t *testing.T) {
	datadriven.RunTest(t, "testdata/identity", func(t *testing.T, d *datadriven.TestData) string {
		m := Identity{Self: 7, Pairs: []Pair{{7, 1007}, {8, 1008}}, Options: Options{NonStandardStrings: d.HasArg("nonstandard")}}
		if d.HasArg("alone") {
			m.Pairs = nil
		}
		var out strings.Builder
		for _, text := range strings.Split(d.Input, "\n") {
			edits, err := IdentityEdits(text, m)
			result := edits.Apply(text)
			switch {
			case err != nil:
				result = "error: " + err.Error()
			case len(edits) == 0:
				result = "unchanged"
			default:
				if facts := parseFacts(result, m.Options); facts.Err != nil {
					t.Errorf("%s: the rewritten text does not parse: %v", text, facts.Err)
				}
			}
			fmt.Fprintf(&out, "%s\n  %s\n", text, result)
		}
		return out.String()
	})
}

// TestIdentityOnServer asks a real server with the text as written and as rewritten: names and types of the columns must
// be the same, and the values as well once backends are read as sessions.
func TestIdentityOnServer(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	srv := pgtest.Start(t, pgserver.Config{})
	connect := func() *pgx.Conn {
		conn, err := pgx.Connect(ctx, srv.ConnString("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close(context.Background()) })
		return conn
	}
	self, holder, waiter := connect(), connect(), connect()
	pid := func(c *pgx.Conn) int32 { return int32(c.PgConn().PID()) }
	m := Identity{Self: 5000001, Pairs: []Pair{{5000001, pid(self)}, {5000002, pid(holder)}, {5000003, pid(waiter)}}}

	// The waiter waits for the holder throughout.
	mustExec(t, ctx, holder, "CREATE TABLE t (a int)")
	mustExec(t, ctx, holder, "BEGIN; LOCK TABLE t")
	waited := make(chan error, 1)
	go func() {
		_, err := waiter.Exec(ctx, "SELECT * FROM t")
		waited <- err
	}()
	for blocked := false; !blocked; { // ctx ends it
		err := self.QueryRow(ctx, "SELECT cardinality(pg_blocking_pids($1)) > 0", pid(waiter)).Scan(&blocked)
		if err != nil {
			t.Fatal(err)
		}
	}

	run := func(text string) (columns string, rows []string, err error) {
		results, err := self.PgConn().Exec(ctx, text).ReadAll()
		if err != nil {
			return "", nil, err
		}
		res := results[len(results)-1]
		for _, f := range res.FieldDescriptions {
			columns += fmt.Sprintf("%s:%d ", f.Name, f.DataTypeOID)
		}
		for _, row := range res.Rows {
			rows = append(rows, fmt.Sprintf("%q", row))
		}
		return columns, rows, nil
	}
	toSession := func(s string) string {
		for _, p := range m.Pairs {
			s = strings.ReplaceAll(s, fmt.Sprint(p.Backend), fmt.Sprint(p.Session))
		}
		return s
	}
	toBackend := func(s string) string {
		for _, p := range m.Pairs {
			s = strings.ReplaceAll(s, fmt.Sprint(p.Session), fmt.Sprint(p.Backend))
		}
		return s
	}
	mustExec(t, ctx, self, "CREATE TABLE calls (a int)")
	mustExec(t, ctx, self, "CREATE FUNCTION once() RETURNS int LANGUAGE sql AS 'INSERT INTO calls VALUES (1) RETURNING 5000003'")
	mustExec(t, ctx, self, "PREPARE show AS SELECT $1 AS x")

	const columnsOnly = "-"
	for _, test := range []struct {
		text string // as a client writes it, who knows sessions
		want string // where it is not what the server says, with sessions for backends
	}{
		{"SELECT pg_backend_pid()", ""},
		{"SELECT pg_backend_pid(), pg_catalog.pg_backend_pid() AS x, pg_backend_pid()::text, -pg_backend_pid()", ""},
		{"SELECT pg_backend_pid() + 1", `["5000002"]`},
		{"SELECT * FROM pg_backend_pid()", ""},
		{"SELECT pg_backend_pid, pg_backend_pid.pg_backend_pid FROM pg_backend_pid()", ""},
		{"SELECT p, p.p FROM pg_backend_pid() AS p", ""},
		{"SELECT p.x FROM pg_backend_pid() p(x)", ""},
		{"SELECT * FROM pg_backend_pid() WITH ORDINALITY", ""},
		{"SELECT * FROM pg_backend_pid() WITH ORDINALITY AS p(a, b), LATERAL pg_backend_pid() AS q", ""},
		{"SELECT pg_backend_pid(), count(*) FROM generate_series(1, 3) GROUP BY pg_backend_pid() ORDER BY pg_backend_pid()", ""},
		{"SELECT DISTINCT pg_backend_pid() AS a ORDER BY a", ""},
		{"VALUES (pg_backend_pid())", ""},
		{"SELECT CASE WHEN pg_backend_pid() > 0 THEN 1 END, coalesce(pg_backend_pid(), 1)", ""},
		{"SELECT (SELECT pg_backend_pid())", ""},
		{"EXECUTE show(pg_backend_pid())", ""},
		{"SELECT pg_blocking_pids(5000003)", `["{5000002}"]`},
		{"SELECT pg_blocking_pids(5000001), pg_blocking_pids(NULL), pg_blocking_pids('5000003')", ""},
		{"SELECT * FROM pg_blocking_pids(5000003)", `["{5000002}"]`},
		{"SELECT unnest(pg_blocking_pids(5000003)) AS x", `["5000002"]`},
		{"SELECT x FROM unnest(pg_blocking_pids(5000003)) AS x", ""},
		{"SELECT pg_blocking_pids(once())", `["{5000002}"]`},
		{"SELECT (pg_blocking_pids(5000003))[1] = 5000002", `["t"]`},
		{"SELECT pid, pg_blocking_pids(pid) FROM pg_stat_activity WHERE cardinality(pg_blocking_pids(pid)) > 0", `["5000003" "{5000002}"]`},
		{"SELECT max(pid), pg_blocking_pids(max(pid)) FROM pg_stat_activity WHERE pid = 5000003", `["5000003" "{5000002}"]`},
		{"SELECT pid FROM pg_stat_activity WHERE pid = pg_backend_pid()", ""},
		{"SELECT count(*) FROM pg_stat_activity WHERE pid IN (5000001, 5000002, 5000003)", `["3"]`},
		{"SELECT * FROM pg_stat_activity WHERE false", ""},
		{
			"SELECT datid, datname, pid, leader_pid, usesysid, usename, application_name, client_addr, client_hostname, " +
				"client_port, backend_start, wait_event_type, backend_type FROM pg_stat_activity ORDER BY backend_start", "",
		},
		{"TABLE pg_locks LIMIT 0", ""},
		{"SELECT l.pid, l.mode, l.granted FROM pg_locks l WHERE relation = 't'::regclass ORDER BY mode", ""},
		{
			"SELECT pg_stat_activity.pid, pg_catalog.pg_stat_activity.usename FROM pg_catalog.pg_stat_activity " +
				"WHERE pg_catalog.pg_stat_activity.pid = 5000002", "",
		},
		{"SELECT a.* FROM ONLY pg_stat_activity AS a WHERE a.pid = 5000002", ""},
		{"SELECT l.mode, l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) WHERE l.relation = 't'::regclass ORDER BY 1", ""},
		{"WITH pg_locks AS (SELECT 1 AS pid) SELECT * FROM pg_locks", `["1"]`},
		{"WITH x AS (SELECT pid FROM pg_locks WHERE relation = 't'::regclass) SELECT count(DISTINCT pid) FROM x", `["2"]`},
		{"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE false", ""},
		{"EXPLAIN (COSTS off) SELECT pg_backend_pid()", columnsOnly},
	} {
		edited := applied(t, test.text, m)
		columns, rows, err := run(edited)
		if err != nil {
			t.Errorf("%s\n%s\n%v", test.text, edited, err)
			continue
		}
		wantColumns, wantRows, err := run(toBackend(test.text))
		if err != nil {
			t.Fatal(err)
		}
		if columns != wantColumns {
			t.Errorf("%s\ncolumns %s\nwant    %s", test.text, columns, wantColumns)
		}
		want := test.want
		if want == "" {
			want = toSession(strings.Join(wantRows, "\n"))
		}
		if got := strings.Join(rows, "\n"); got != want && want != columnsOnly {
			t.Errorf("%s\ngot  %s\nwant %s", test.text, got, want)
		}
	}
	if _, rows, err := run("SELECT count(*) FROM calls"); err != nil || rows[0] != `["2"]` { // once each, as written and as edited
		t.Errorf("an argument was evaluated %v times: %v", rows, err)
	}

	// An error's position points into the client's text.
	text := "SELECT pg_backend_pid(), 'é', pg_cancel_backend((SELECT 1)), nothing FROM pg_stat_activity"
	edits, err := IdentityEdits(text, m)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = run(edits.Apply(text))
	pgErr, ok := err.(*pgconn.PgError)
	if !ok {
		t.Fatalf("got %v", err)
	}
	pos := edits.ClientPosition(text, int(pgErr.Position))
	if runes := []rune(text); !strings.HasPrefix(string(runes[pos-1:]), "nothing") {
		t.Errorf("position %d is %q", pos, string(runes[pos-1:]))
	}

	// Cancelling and terminating reach the session that is meant.
	if _, rows, err := run(applied(t, "SELECT pg_cancel_backend(x) FROM (VALUES (5000003)) v(x)", m)); err != nil || rows[0] != `["t"]` {
		t.Fatalf("cancel: %v %v", rows, err)
	}
	if err := <-waited; err == nil || !strings.Contains(err.Error(), "57014") {
		t.Errorf("the waiting session got %v", err)
	}
	if _, rows, err := run(applied(t, "SELECT pg_terminate_backend(timeout => 5000, pid => 5000002)", m)); err != nil || rows[0] != `["t"]` {
		t.Fatalf("terminate: %v %v", rows, err)
	}
	if err := holder.Ping(ctx); err == nil {
		t.Error("the terminated session lives on")
	}
	var ok2 bool
	args := applied(t, "SELECT pg_cancel_backend($1)", m)
	if err := self.QueryRow(ctx, args, int32(1)).Scan(&ok2); err != nil || ok2 {
		t.Errorf("a parameter: %v, %v", ok2, err)
	}
}

func applied(t *testing.T, text string, m Identity) string {
	t.Helper()
	edits, err := IdentityEdits(text, m)
	if err != nil {
		t.Fatal(err)
	}
	return edits.Apply(text)
}

func mustExec(t *testing.T, ctx context.Context, conn *pgx.Conn, sql string) {
	t.Helper()
	if _, err := conn.PgConn().Exec(ctx, sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// FuzzIdentity: whatever parses is edited in order and still parses.
func FuzzIdentity(f *testing.F) {
	for _, text := range append(statements(f), inputs(f, "testdata/identity")...) {
		f.Add(text)
	}
	m := Identity{Self: 7, Pairs: []Pair{{7, 1007}, {8, 1008}}}
	f.Fuzz(func(t *testing.T, text string) {
		edits, err := IdentityEdits(text, m)
		if err != nil {
			return
		}
		at := 0
		for _, e := range edits {
			if e.Start < at || e.End < e.Start || e.End > len(text) {
				t.Fatalf("%q: %+v", text, edits)
			}
			at = e.End
		}
		if facts := ParseFacts(edits.Apply(text)); len(edits) > 0 && facts.Err != nil {
			t.Fatalf("%q became %q: %v", text, edits.Apply(text), facts.Err)
		}
	})
}
