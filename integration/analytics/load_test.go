package analytics

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/directory"
	"weft/integration/harness"
	"weft/pgserver"
)

// patience is how long anything may take before it counts as hanging.
const patience = 2 * time.Minute

// order of the rows in a table's file.
type order bool

const (
	forward  order = false
	backward order = true
)

func dial(t testing.TB, connString string) *pgconn.PgConn {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	conn, err := pgconn.Connect(ctx, connString)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
		defer stop()
		_ = conn.Close(ctx) // may be broken by a test that failed
	})
	return conn
}

func mustExec(t testing.TB, conn *pgconn.PgConn, sql string) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 5*patience)
	defer stop()
	if _, err := conn.Exec(ctx, sql).ReadAll(); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// onAll runs a statement on several servers at once, past weft.
func onAll(t testing.TB, servers []*pgserver.Temp, database, sql string) {
	t.Helper()
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() {
			ctx, stop := context.WithTimeout(context.Background(), 5*patience)
			defer stop()
			conn, err := pgconn.Connect(ctx, s.ConnString(database))
			if err != nil {
				errs[i] = err
				return
			}
			defer conn.Close(ctx)
			_, errs[i] = conn.Exec(ctx, sql).ReadAll()
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}

// load makes a database on every server of the target, fills it through the
// target, and declares the layout's tables if one is named. It returns the
// database's name.
func (s suite) load(t testing.TB, target *harness.Target, layout string, scale int, o order) string {
	t.Helper()
	began := time.Now()
	database := strings.TrimSuffix(s.name+"_"+layout, "_")
	if o == backward {
		database += "_backward"
	}
	onAll(t, target.Shards(), "postgres", "create database "+database)
	conn := dial(t, target.ConnString("postgres", "dbname="+database))
	mustExec(t, conn, s.read(t, "schema.sql"))
	for _, table := range s.tables(scale) {
		table.copyTo(t, conn, o)
	}
	loaded := time.Now()
	if layout != "" {
		for _, sql := range statements(s.read(t, layout+".sql")) {
			mustExec(t, conn, sql)
		}
		spread(t, target, database)
	}
	onAll(t, target.Shards(), database, "vacuum analyze")
	t.Logf("%s: loaded in %v, declared and analyzed in %v", database, loaded.Sub(began).Round(time.Millisecond), time.Since(loaded).Round(time.Millisecond))
	return database
}

func (t table) copyTo(tb testing.TB, conn *pgconn.PgConn, o order) {
	tb.Helper()
	r := t.copyText()
	defer r.Close()
	var rows io.Reader = r
	if o == backward {
		text, err := io.ReadAll(r)
		if err != nil {
			tb.Fatal(err)
		}
		lines := slices.Collect(bytes.Lines(text))
		slices.Reverse(lines)
		rows = bytes.NewReader(bytes.Join(lines, nil))
	}
	ctx, stop := context.WithTimeout(context.Background(), 5*patience)
	defer stop()
	if _, err := conn.CopyFrom(ctx, rows, "copy "+t.name+" from stdin"); err != nil {
		tb.Fatalf("fill %s: %v", t.name, err)
	}
}

// spread checks that every sharded table really is on several shards: what one
// shard has alone would be answered right by any proxy.
func spread(t testing.TB, target *harness.Target, database string) {
	t.Helper()
	sharded := 0
	for _, table := range harness.Snapshot(t).Tables {
		if table.Database != database || table.Kind != directory.Sharded {
			continue
		}
		sharded++
		shards := 0
		for _, s := range target.Shards() {
			conn := dial(t, s.ConnString(database))
			got, err := ask(conn, simple, "select exists (select from "+table.Name+")")
			if err != nil {
				t.Fatal(err)
			}
			if string(got.rows[0][0]) == "t" {
				shards++
			}
		}
		if shards < 3 {
			t.Errorf("%s: %s has rows on %d shards only", database, table.Name, shards)
		}
	}
	if sharded < 5 {
		t.Errorf("%s has %d sharded tables", database, sharded)
	}
}
