package integration

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	otlp "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"

	"weft/config"
	"weft/console"
	"weft/integration/harness"
	"weft/pgserver/pgtest"
	"weft/wire"
)

// The console answers drivers in the extended protocol, text and binary, with
// columns of real types.
func TestConsole(t *testing.T) {
	target := harness.Routed(t)
	ctx := within(t, time.Minute)
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeDescribeExec, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		c := target.Connect(t, "postgres", "dbname=weft", "default_query_exec_mode="+modeName(mode))
		for _, w := range console.Views {
			rows, err := c.Query(ctx, "SHOW "+w.Show)
			if err != nil {
				t.Fatalf("%v: SHOW %s: %v", mode, w.Show, err)
			}
			got, err := pgx.CollectRows(rows, pgx.RowToMap)
			if err != nil {
				t.Fatalf("%v: SHOW %s: %v", mode, w.Show, err)
			}
			if w.Show == "CLIENTS" && !slices.ContainsFunc(got, func(m map[string]any) bool {
				since, ok := m["connected"].(time.Time)
				_, isID := m["id"].(int64)
				return ok && isID && time.Since(since) < time.Hour && m["database"] == "weft"
			}) {
				t.Errorf("%v: %v", mode, got)
			}
			if w.Show == "SHARDS" && (len(got) != harness.ShardCount || got[0]["home"] != true) {
				t.Errorf("%v: %v", mode, got)
			}
		}
		tx, err := c.Begin(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tx.Exec(ctx, "SHOW NOTHING"); code(err) != "42601" {
			t.Errorf("%v: SHOW NOTHING: %v", mode, err)
		}
		if err := tx.Rollback(ctx); err != nil {
			t.Error(err)
		}
		var version string
		if err := c.QueryRow(ctx, "SHOW VERSION").Scan(&version); err != nil || version == "" {
			t.Errorf("%v: %q %v", mode, version, err)
		}
	}
}

func modeName(m pgx.QueryExecMode) string {
	return map[pgx.QueryExecMode]string{
		pgx.QueryExecModeCacheStatement: "cache_statement", pgx.QueryExecModeDescribeExec: "describe_exec",
		pgx.QueryExecModeExec: "exec", pgx.QueryExecModeSimpleProtocol: "simple_protocol",
	}[m]
}

// weft's own tables are tables: with the columns the console has, and all of SQL.
func TestOwnTables(t *testing.T) {
	target := harness.Routed(t)
	target.CreateDatabase(t, "operate")
	ctx := within(t, time.Minute)
	c := target.Connect(t, "postgres", "dbname=operate")
	types := map[console.Type]string{
		console.Text: "text", console.Bool: "boolean", console.Int: "bigint", console.Float: "double precision",
		console.Time: "timestamp with time zone", console.Texts: "text[]",
	}
	for _, w := range console.Views {
		if _, err := c.Exec(ctx, "SELECT * FROM weft."+w.Name); err != nil {
			t.Fatalf("weft.%s: %v", w.Name, err)
		}
		var want []string
		for _, col := range w.Columns {
			name, typ := col.Name, types[col.Type]
			if w.Name == "transactions" && name == "age_seconds" {
				name, typ = "age", "interval"
			}
			want = append(want, name+" "+typ)
		}
		var got []string
		if err := c.QueryRow(ctx, `SELECT array_agg(attname || ' ' || format_type(atttypid, atttypmod) ORDER BY attnum) FROM pg_attribute
			WHERE attrelid = ('weft.' || $1::text)::regclass AND attnum > 0`, w.Name).Scan(&got); err != nil || !slices.Equal(got, want) {
			t.Errorf("weft.%s has %v, want %v: %v", w.Name, got, want, err)
		}
	}
	for sql, want := range map[string]int64{
		"SELECT count(*) FROM weft.shards":                int64(harness.ShardCount),
		"SELECT sum(buckets)::bigint FROM weft.shards":    64,
		"SELECT sum(buckets)::bigint FROM weft.placement": 64,
		"SELECT count(*) FROM weft.shards s JOIN weft.placement p ON p.shard = s.name WHERE s.home AND p.first_bucket >= 0 LIMIT 1": -1,
		"WITH s AS (SELECT * FROM weft.sessions WHERE state = 'active') SELECT count(*) FROM s WHERE statement ~ 'weft.sessions'":   1,
	} {
		var n int64
		if err := c.QueryRow(ctx, sql).Scan(&n); err != nil || want >= 0 && n != want {
			t.Errorf("%s: %d, %v", sql, n, err)
		}
	}
	for _, sql := range []string{"CREATE TABLE own_join (k int PRIMARY KEY)", "SELECT weft.shard_table('own_join', 'k')", "INSERT INTO own_join SELECT generate_series(1, 10)"} {
		if _, err := c.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	defer func() { _, _ = c.Exec(context.Background(), "DROP TABLE own_join") }() // its declaration too
	for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec, pgx.QueryExecModeSimpleProtocol} {
		for _, begin := range []string{"", "BEGIN", "BEGIN ISOLATION LEVEL REPEATABLE READ"} {
			if begin != "" {
				_, _ = c.Exec(ctx, begin)
			}
			for range 2 {
				var n, shards int
				if err := c.QueryRow(ctx, "SELECT count(*), count(DISTINCT s.name) FROM own_join JOIN weft.shards s ON s.weight >= $1", mode, 0).Scan(&n, &shards); err != nil ||
					n != 10*harness.ShardCount || shards != harness.ShardCount {
					t.Errorf("%v, %q: %d rows of %d shards, %v", mode, begin, n, shards, err)
				}
			}
			if begin != "" {
				if _, err := c.Exec(ctx, "COMMIT"); err != nil {
					t.Error(err)
				}
			}
		}
	}
	// Nothing of it stays with the backend, whoever has it next.
	var left string
	for range 5 {
		if err := c.QueryRow(ctx, "SELECT coalesce(current_setting('weft.rows', true), '')").Scan(&left); err != nil || left != "" {
			t.Errorf("left behind: %q, %v", left, err)
		}
	}
}

// TestStatements: what was run is counted, however it was sent, without its
// literals.
func TestStatements(t *testing.T) {
	target := harness.StartWeft(t, noChange)
	target.CreateDatabase(t, "operate2") // schema weft would be seen in the other
	ctx := within(t, time.Minute)
	c := target.Connect(t, "postgres", "dbname=operate2")
	run := func(sql string, args ...any) {
		t.Helper()
		_, err := c.Exec(ctx, sql, args...)
		if err != nil && !strings.Contains(sql, "/") {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run("CREATE TABLE operate (a int, b text)")
	for i := range 3 {
		run("INSERT INTO operate SELECT g, 'a secret' FROM generate_series(1, 10) g", pgx.QueryExecModeSimpleProtocol)
		run("SELECT * FROM operate WHERE a <= $1", 2+i)
		run("SELECT 1 / (a - a) FROM operate WHERE b = 'another'||' secret' OR true")
	}
	type counted struct {
		Calls, Errors, Rows int64
		Total, Min, Max     float64
	}
	for statement, want := range map[string]counted{
		"INSERT INTO operate SELECT g, $1 FROM generate_series($2, $3) g": {Calls: 3, Rows: 30},
		"SELECT * FROM operate WHERE a <= $1":                             {Calls: 3, Rows: 2 + 6 + 12},
		"SELECT $1 / (a - a) FROM operate WHERE b = $2||$3 OR true":       {Calls: 3, Errors: 3},
	} {
		var got counted
		err := c.QueryRow(ctx, `SELECT calls, errors, rows, total_ms, min_ms, max_ms FROM weft.statements
			WHERE statement = $1 AND username = 'postgres'`, statement).Scan(&got.Calls, &got.Errors, &got.Rows, &got.Total, &got.Min, &got.Max)
		if err != nil || got.Calls != want.Calls || got.Errors != want.Errors || got.Rows != want.Rows {
			t.Errorf("%s: %+v, want %+v: %v", statement, got, want, err)
		}
		if want.Errors == 0 && (got.Min <= 0 || got.Min > got.Max || got.Total < got.Max) {
			t.Errorf("%s: %+v", statement, got)
		}
	}
	var secrets int
	if err := c.QueryRow(ctx, "SELECT count(*) FROM weft.statements WHERE statement LIKE '%a sec' || 'ret%'").Scan(&secrets); err != nil || secrets > 0 {
		t.Errorf("%d statements with literals, %v", secrets, err)
	}

	// Others see that there is something, and not what.
	other := target.Connect(t, "alice", "dbname=operate2")
	var theirs, hidden int
	if err := other.QueryRow(ctx, `SELECT count(*) FILTER (WHERE username = 'postgres'), count(*) FILTER (WHERE username = 'postgres' AND
		statement = '<insufficient privilege>') FROM weft.statements`).Scan(&theirs, &hidden); err != nil || theirs == 0 || theirs != hidden {
		t.Errorf("alice sees %d statements of postgres, %d of them without text: %v", theirs, hidden, err)
	}
	if err := other.QueryRow(ctx, "SELECT count(*) FROM weft.sessions WHERE username = 'postgres' AND (statement <> '<insufficient privilege>' OR address IS NOT NULL)").Scan(&theirs); err != nil || theirs != 0 {
		t.Errorf("alice sees %d sessions of others, %v", theirs, err)
	}
	run("SELECT weft.statements_reset()")
	var n int
	if err := c.QueryRow(ctx, "SELECT count(*) FROM weft.statements WHERE statement LIKE 'INSERT INTO operate%'").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d after the reset, %v", n, err)
	}
	run("DROP TABLE operate")
}

// TestTablesOfAllProxies: weft's own tables have the rows of all proxies, whichever
// answers, and do not wait for one that does not.
func TestTablesOfAllProxies(t *testing.T) {
	cert, key := certificate(t)
	secure := func(c *config.Config) {
		c.TLS = config.TLS{Cert: cert, Key: key, Mode: config.TLSRequire, MinVersion: "1.2", ClientCA: cert, ClientCert: config.ClientCertRequire}
	}
	plain := harness.StartWeft(t, noChange)
	encrypted := harness.StartWeft(t, secure) // even where clients need certificates
	p := harness.StartProgram(t, noChange)
	ctx := within(t, time.Minute)
	const db = "dbname=of_proxies" // weft's schema is made in it
	plain.CreateDatabase(t, "of_proxies")
	one, alice := p.Connect(t, "postgres", db, "application_name=there"), plain.Connect(t, "alice", db)
	var notices []string
	cfg, err := pgx.ParseConfig(plain.ConnString("postgres", db, "application_name=here"))
	if err != nil {
		t.Fatal(err)
	}
	cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) {
		// Those of other tests may have been killed a moment ago.
		if strings.Contains(n.Message, p.Addr) || strings.Contains(n.Message, encrypted.Addr) {
			notices = append(notices, n.Message)
		}
	}
	c, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.Background())
	if _, err := one.Exec(ctx, "SELECT 'only asked there'"); err != nil {
		t.Fatal(err)
	}
	ask := func(c *pgx.Conn, sql string) (got string) {
		t.Helper()
		if err := c.QueryRow(ctx, sql).Scan(&got); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
		return got
	}
	const apps = "SELECT coalesce(string_agg(application, ' ' ORDER BY application), '') FROM weft.sessions WHERE application IN ('here', 'there') AND proxy IN (SELECT proxy FROM weft.stats)"
	// Whoever asks without being a proxy, and stays, is in nobody's way.
	for range 3 * 16 {
		silent, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
		if _, err := silent.Write(wire.AppendAsk(nil)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(silent, make([]byte, 32)); err != nil {
			t.Fatalf("no challenge: %v", err)
		}
	}
	// One with TLS is not asked in clear.
	clear, err := net.Dial("tcp", encrypted.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer clear.Close()
	if _, err := clear.Write(wire.AppendAsk(nil)); err != nil {
		t.Fatal(err)
	}
	_ = clear.SetDeadline(time.Now().Add(pgtest.Patience))
	if n, err := clear.Read(make([]byte, 32)); err == nil {
		t.Errorf("%d bytes in clear", n)
	}
	if got := ask(c, apps); got != "here there" {
		t.Errorf("sessions of all: %s", got)
	}
	if got := ask(one, apps); got != "here there" {
		t.Errorf("sessions of all, asked of the other: %s", got)
	}
	if n := ask(c, "SELECT (count(DISTINCT proxy) >= 3)::text FROM weft.stats"); n != "true" {
		t.Errorf("the encrypted one does not answer: %s", encrypted.Addr)
	}
	const there = "SELECT count(*)::text FROM weft.statements WHERE statement = 'SELECT $1'"
	if got := ask(c, there); got == "0" {
		t.Error("statements of the other are not there")
	}
	if got := ask(alice, apps); got != "" {
		t.Errorf("alice sees %s", got)
	}
	if _, err := c.Exec(ctx, "SELECT weft.statements_reset()"); err != nil {
		t.Fatal(err)
	}
	if got := ask(c, there); got != "0" {
		t.Errorf("%s after the reset", got)
	}
	if len(notices) > 0 {
		t.Errorf("notices: %v", notices)
	}
	// Any proxy's console ends a session of any.
	victim := p.Connect(t, "postgres", "application_name=victim")
	id := ask(c, "SELECT id::text FROM weft.sessions WHERE application = 'victim'")
	if _, err := plain.Connect(t, "postgres", "dbname=weft").Exec(ctx, "KILL "+id); err != nil {
		t.Error(err)
	}
	if _, err := victim.Exec(ctx, "SELECT 1"); err == nil {
		t.Error("it lives on")
	}
	if _, err := plain.Connect(t, "postgres", "dbname=weft").Exec(ctx, "KILL 7"); code(err) != "42704" {
		t.Errorf("KILL of nobody: %v", err)
	}
	// One that is not dead and does not answer costs a moment, and is named.
	p.Signal(t, syscall.SIGSTOP)
	defer p.Signal(t, syscall.SIGCONT)
	waitFor(t, func() bool { // a process takes a moment to stop
		began := time.Now()
		got := ask(c, "SELECT string_agg(application, ' ') FROM weft.sessions WHERE application IN ('here', 'there')")
		if d := time.Since(began); pgtest.Late(t, d, 5*time.Second) {
			t.Errorf("it took %v", d)
		}
		return got == "here" && len(notices) > 0 && strings.Contains(notices[0], "did not answer")
	})
}

// TestNoProxyAsks: whoever does not know the secret of a proxy learns nothing.
func TestNoProxyAsks(t *testing.T) {
	target := harness.StartWeft(t, noChange)
	conn, err := net.Dial("tcp", target.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(pgtest.Patience))
	challenge := make([]byte, 32)
	if _, err := conn.Write(wire.AppendAsk(nil)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(conn, challenge); err != nil {
		t.Fatal(err)
	}
	question := `{"view":"sessions","all":true,"user":"postgres"}`
	message := append(binary.BigEndian.AppendUint32(nil, uint32(32+len(question))), make([]byte, 32)...)
	if _, err := conn.Write(append(message, question...)); err != nil {
		t.Fatal(err)
	}
	if answer, _ := io.ReadAll(conn); len(answer) > 0 {
		t.Errorf("answered %q", answer)
	}
}

// TestPause: PAUSE waits for transactions, clients wait for RESUME.
func TestPause(t *testing.T) {
	target := harness.StartWeft(t, noChange)
	ctx := within(t, time.Minute)
	admin, c, other := target.Connect(t, "postgres", "dbname=weft"), target.Connect(t, "postgres"), target.Connect(t, "postgres")
	tx, err := c.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(ctx, "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	paused := make(chan error, 1)
	go func() {
		_, err := admin.Exec(context.WithoutCancel(ctx), "PAUSE")
		paused <- err
	}()
	waitFor(t, func() bool {
		watch := target.Connect(t, "postgres", "dbname=weft")
		defer watch.Close(ctx)
		rows, _ := watch.Query(ctx, "SHOW SHARDS")
		got, err := pgx.CollectRows(rows, pgx.RowToMap)
		return err == nil && got[0]["paused"] == true
	})
	if _, err := tx.Exec(ctx, "SELECT 2"); err != nil {
		t.Errorf("a transaction that has begun goes on: %v", err)
	}
	waited := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.WithoutCancel(ctx), "SELECT 3")
		waited <- err
	}()
	select {
	case err := <-paused:
		t.Fatalf("PAUSE has not waited: %v", err)
	case err := <-waited:
		t.Fatalf("a new transaction has not waited: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	if err := tx.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if err := <-paused; err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-waited:
		t.Fatalf("a new transaction has not waited for RESUME: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	if _, err := admin.Exec(ctx, "RESUME"); err != nil {
		t.Fatal(err)
	}
	if err := <-waited; err != nil {
		t.Error(err)
	}

	// KILL ends a session, whatever it does.
	slept := make(chan error, 1)
	go func() {
		_, err := other.Exec(context.WithoutCancel(ctx), "SELECT pg_sleep(60)")
		slept <- err
	}()
	var id int64
	waitFor(t, func() bool {
		rows, _ := admin.Query(ctx, "SHOW CLIENTS")
		got, err := pgx.CollectRows(rows, pgx.RowToMap)
		for _, m := range got {
			if m["statement"] == "SELECT pg_sleep($1)" && m["state"] == "active" {
				id = m["id"].(int64)
			}
		}
		return err == nil && id != 0
	})
	if _, err := admin.Exec(ctx, "KILL "+strconv.FormatInt(id, 10)); err != nil {
		t.Fatal(err)
	}
	if err := <-slept; code(err) != "57014" && code(err) != "57P01" {
		t.Errorf("killed: %v", err)
	}
	if _, err := other.Exec(ctx, "SELECT 1"); err == nil {
		t.Error("it lives on")
	}
	if _, err := admin.Exec(ctx, "DRAIN SHARD nowhere"); code(err) != "42704" {
		t.Errorf("DRAIN SHARD nowhere: %v", err)
	}
}

func noChange(*config.Config) {}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(pgtest.Patience); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("did not happen")
		}
	}
}

// TestSlowStatements: the log has what took long, without its values.
func TestSlowStatements(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.Log.SlowStatement = 30 * time.Millisecond })
	ctx := within(t, time.Minute)
	c := target.Connect(t, "postgres")
	for _, run := range []func() error{
		func() error {
			_, err := c.Exec(ctx, "SELECT pg_sleep(0.05), 'a secret', 1 /* a secret */")
			return err
		},
		func() error { _, err := c.Exec(ctx, "SELECT pg_sleep(0.05), $1::text", "a secret"); return err },
		func() error { _, err := c.Exec(ctx, "SELECT 'quick'"); return err },
	} {
		if err := run(); err != nil {
			t.Fatal(err)
		}
	}
	var lines []string
	waitFor(t, func() bool {
		text, err := os.ReadFile(target.Log)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "secret") {
			t.Fatalf("a value is in the log:\n%s", text)
		}
		lines = nil
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, "slow statement") {
				lines = append(lines, line)
			}
		}
		return len(lines) >= 2
	})
	for i, want := range []string{`statement="SELECT pg_sleep($1), $2, $3"`, `statement="SELECT pg_sleep($2), $1::text"`} {
		for _, attr := range []string{want, "kind=shard", "rows=1", "user=postgres", "shards=", "duration="} {
			if !strings.Contains(lines[i], attr) {
				t.Errorf("no %s in %s", attr, lines[i])
			}
		}
	}
	if len(lines) != 2 {
		t.Errorf("%q", lines)
	}
}

// collects is a collector of traces.
type collects struct {
	collector.UnimplementedTraceServiceServer
	mu    sync.Mutex
	spans []*otlp.Span
}

// Export implements the collector's service.
func (c *collects) Export(_ context.Context, r *collector.ExportTraceServiceRequest) (*collector.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, rs := range r.ResourceSpans {
		for _, ss := range rs.ScopeSpans {
			c.spans = append(c.spans, ss.Spans...)
		}
	}
	return &collector.ExportTraceServiceResponse{}, nil
}

// TestTraces: session, statement and shard are a tree, and a statement that brings
// its caller's trace is part of that.
func TestTraces(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	got := &collects{}
	srv := grpc.NewServer()
	collector.RegisterTraceServiceServer(srv, got)
	go func() { _ = srv.Serve(l) }()
	defer srv.Stop()
	t.Run("run", func(t *testing.T) { // ends, and with it weft, before the spans are looked at
		target := harness.StartWeft(t, func(c *config.Config) {
			c.Tracing = config.Tracing{Endpoint: "http://" + l.Addr().String(), Ratio: 1}
		})
		ctx := within(t, time.Minute)
		c := target.Connect(t, "postgres")
		for _, sql := range []string{"SELECT 'a secret'", "SELECT 2 /*traceparent='00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'*/"} {
			if _, err := c.Exec(ctx, sql); err != nil {
				t.Fatal(err)
			}
		}
	})
	got.mu.Lock()
	defer got.mu.Unlock()
	parents := map[string]*otlp.Span{}
	for _, s := range got.spans {
		parents[string(s.SpanId)] = s
	}
	tree, adopted := false, false
	for _, s := range got.spans {
		if strings.Contains(s.String(), "secret") {
			t.Errorf("a value is in a trace: %s", s)
		}
		st := parents[string(s.ParentSpanId)]
		if strings.HasPrefix(s.Name, "shard ") && st != nil && st.Name == "statement" {
			if sess := parents[string(st.ParentSpanId)]; sess != nil && sess.Name == "session" {
				tree = true
			}
		}
		adopted = adopted || s.Name == "statement" && hex.EncodeToString(s.TraceId) == "0af7651916cd43dd8448eb211c80319c"
	}
	if !tree || !adopted {
		t.Errorf("tree %v, adopted %v in %d spans", tree, adopted, len(got.spans))
	}
}

// TestMetrics: what the dashboard, the alerts and the page about operations name
// is on /metrics, and the page names all that is.
func TestMetrics(t *testing.T) {
	target := harness.StartWeft(t, func(c *config.Config) { c.HTTP.Listen = "127.0.0.1:0" })
	ctx := within(t, time.Minute)
	c := target.Connect(t, "postgres")
	for _, sql := range []string{"SELECT 1", "SELECT 1/0"} { // a metric of errors needs one
		_, _ = c.Exec(ctx, sql)
	}
	// A metric of buckets needs a sharded table, one of skew work on it, and one of backup points a point.
	target.CreateDatabase(t, "metered")
	sharded := target.Connect(t, "postgres", "dbname=metered")
	for _, sql := range []string{"CREATE TABLE metered (id int PRIMARY KEY)", "SELECT weft.shard_table('metered', 'id')", "INSERT INTO metered VALUES (1)", "SELECT weft.restore_point('metered')"} {
		if _, err := sharded.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	var body []byte
	// Samples are added up now and then, and what is usual for a shard is known after some statements.
	for !(strings.Contains(string(body), "weft_backup_point_age_seconds") && strings.Contains(string(body), "weft_skew") && strings.Contains(string(body), "weft_shard_slowdown")) && ctx.Err() == nil {
		for range 10 {
			if _, err := sharded.Exec(ctx, "SELECT FROM metered WHERE id = 1"); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := http.Get("http://" + target.Server.HTTPAddr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		body, err = io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) (\w+)`).FindAllStringSubmatch(string(body), -1) {
		there[m[1]] = true
		if m[2] == "histogram" {
			there[m[1]+"_bucket"], there[m[1]+"_sum"], there[m[1]+"_count"] = true, true, true
		}
	}
	// A metric of lag needs a standby: package integration/primary has one.
	there["weft_replica_lag_seconds"], there["weft_replica_lag_bytes"] = true, true
	there["weft_shard_durable"] = true                 // needs a declaration: package integration/lossy has one
	there["weft_backup_point_interval_seconds"] = true // needs weft backup point --every
	named := regexp.MustCompile(`\b(?:weft|go|process)_[a-z_]+[a-z]\b`)
	for _, file := range []string{"../deploy/grafana.json", "../deploy/alerts.yml", "../docs/operations.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range named.FindAllString(string(text), -1) {
			if !there[name] {
				t.Errorf("%s names %s, which is not on /metrics", file, name)
			}
		}
		if strings.HasSuffix(file, "operations.md") {
			for name := range there {
				base := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_sum"), "_count")
				if strings.HasPrefix(name, "weft_") && !strings.Contains(string(text), "`"+base+"`") {
					t.Errorf("%s does not name %s", file, base)
				}
			}
		}
	}
}
