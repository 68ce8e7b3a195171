package tx

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestNotices: weft's own are for those who want to hear them, as PostgreSQL's are.
func TestNotices(t *testing.T) {
	w := newWorld(t, "notices", 1)
	for _, c := range []struct {
		options, set string
		heard        bool
	}{
		{"", "", true},
		{"client_min_messages=warning", "", false},
		{"options='-c client_min_messages=error'", "", false},
		{"options='-c client_min_messages=error'", "set client_min_messages = notice", true},
		{"", "set client_min_messages = 'WARNING'", false},
	} {
		cfg, err := pgx.ParseConfig(w.proxies[0].ConnString("postgres", "dbname="+w.db, c.options))
		if err != nil {
			t.Fatal(err)
		}
		heard := false
		cfg.OnNotice = func(_ *pgconn.PgConn, n *pgconn.Notice) { heard = true }
		conn, err := pgx.ConnectConfig(context.Background(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		if c.set != "" {
			must(t, conn, c.set)
		}
		must(t, conn, "reindex table concurrently acct")
		if heard != c.heard {
			t.Errorf("%q, %q: a notice of weft's was heard: %v", c.options, c.set, heard)
		}
		_ = conn.Close(context.Background())
	}
}

// TestProgress: a VACUUM says as little as PostgreSQL's, unless it takes long.
func TestProgress(t *testing.T) {
	w := newWorld(t, "progress", 1)
	cfg, err := pgx.ParseConfig(w.proxies[0].ConnString("postgres", "dbname="+w.db))
	if err != nil {
		t.Fatal(err)
	}
	heard := 0
	cfg.OnNotice = func(*pgconn.PgConn, *pgconn.Notice) { heard++ }
	conn, err := pgx.ConnectConfig(context.Background(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	must(t, conn, "vacuum acct")
	if heard > 0 {
		t.Errorf("a short VACUUM says %d things", heard)
	}
	blocker := w.direct(len(w.proxies[0].Shards()) - 1)
	must(t, blocker, "begin")
	must(t, blocker, "lock table acct in share mode")
	released := make(chan struct{})
	go func() {
		defer close(released)
		time.Sleep(1500 * time.Millisecond) // what is tested is that it takes longer than a second
		_, _ = blocker.Exec(context.Background(), "commit")
	}()
	must(t, conn, "vacuum acct")
	<-released
	if heard == 0 {
		t.Error("a long VACUUM says nothing")
	}
}
