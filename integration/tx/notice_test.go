package tx

import (
	"context"
	"testing"

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
