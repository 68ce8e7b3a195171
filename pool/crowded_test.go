package pool_test

import (
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/pool"
	"weft/wire"
)

// A server without a free connection makes sessions wait, and after the queue timeout they are
// told which one it is. What idles for others is given up.
func TestServerFull(t *testing.T) {
	srv := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"max_connections": "8", "superuser_reserved_connections": "2", "max_wal_senders": "0"}})
	admin, err := pgx.Connect(t.Context(), srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	if _, err := admin.Exec(t.Context(), "create role app login"); err != nil {
		t.Fatal(err)
	}
	_, sh := home(t, pool.Config{MaxPerShard: 20, QueueTimeout: 2 * time.Second}, srv.Addr())
	open := func(application string) *pool.Lane {
		l := sh.OpenLane(pool.NewKey("postgres", "app", []wire.Option{{Name: "search_path", Value: application}}))
		t.Cleanup(l.CloseLane)
		return l
	}
	busy, other := open("a"), open("b")
	var held []*pool.Conn
	for range 5 { // one is the administrator's
		held = append(held, acquire(t, busy, pool.Want{}))
	}
	// Somebody gives one back while another waits.
	time.AfterFunc(300*time.Millisecond, held[0].Release)
	c := acquire(t, other, pool.Want{})
	c.Release()
	// What idles in the other lane makes room.
	held[0] = acquire(t, busy, pool.Want{})
	_, err = other.Acquire(t.Context(), pool.Want{})
	if code(err) != "53300" || !strings.Contains(err.Error(), "shard") || !strings.Contains(err.Error(), "had no connection left for 2s") {
		t.Errorf("nobody gives one back: %v", err)
	}
	for _, c := range held {
		c.Release()
	}
}

// The limit of a role or of a database is said at once, as PostgreSQL says it, unless the pool
// itself holds what counts: it gives up what idles, and a session that is let in already waits for
// what others of its kind use.
func TestLimitOfOne(t *testing.T) {
	admin, err := pgx.Connect(t.Context(), postgres.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(t.Context())
	for _, sql := range []string{"create role few login connection limit 1", "create database narrow connection limit 1", "create role narrow login"} {
		if _, err := admin.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	for _, tc := range []struct{ database, user, message string }{
		{"postgres", "few", `too many connections for role "few"`},
		{"narrow", "narrow", `too many connections for database "narrow"`},
	} {
		_, sh := home(t, pool.Config{MaxPerShard: 20, QueueTimeout: 20 * time.Second})
		open := func(path string) *pool.Lane {
			l := sh.OpenLane(pool.NewKey(tc.database, tc.user, []wire.Option{{Name: "search_path", Value: path}}))
			t.Cleanup(l.CloseLane)
			return l
		}
		refused := func(what string, err error, began time.Time) {
			t.Helper()
			if code(err) != "53300" || !strings.Contains(err.Error(), tc.message) || pgtest.Late(t, time.Since(began), 10*time.Second) {
				t.Errorf("%s: %v after %v", what, err, time.Since(began))
			}
		}
		one, other := open("a"), open("b")
		// Somebody else has the only connection.
		outside, err := pgx.Connect(t.Context(), postgres.ConnString(tc.database)+" user="+tc.user)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		_, err = one.Welcome(t.Context(), false)
		refused("login beside somebody else", err, began)
		_, err = one.Acquire(t.Context(), pool.Want{})
		refused("statement beside somebody else", err, began)
		if err := outside.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		eventually(t, func() string {
			c, err := one.Acquire(t.Context(), pool.Want{})
			if err != nil {
				return err.Error()
			}
			c.Release()
			return ""
		})
		// What idles is given up.
		c := acquire(t, other, pool.Want{})
		// What is in use is not waited for by a login, but by a statement.
		began = time.Now()
		_, err = one.Welcome(t.Context(), false)
		refused("login beside the pool's own", err, began)
		time.AfterFunc(300*time.Millisecond, c.Release)
		acquire(t, one, pool.Want{}).Release()
	}
}

// A share bounds what the configuration allows, at once: what idles above it goes, what is lent
// goes when it is given back, and users keep room for each other.
func TestShare(t *testing.T) {
	p, sh := home(t, pool.Config{MaxPerShard: 8, MaxPerUser: 6, QueueTimeout: 300 * time.Millisecond})
	l := lane(t, sh)
	var held []*pool.Conn
	for range 6 {
		held = append(held, acquire(t, l, pool.Want{}))
	}
	for _, c := range held[:3] {
		c.Release()
	}
	p.SetShare(sh.Name, 4)
	if open, idle, _ := counts(p); open != 4 || idle != 1 || sh.Most() != 4 || sh.UserMost("postgres") != 3 {
		t.Errorf("%d open, %d idle with a share of 4; most %d, of a user %d", open, idle, sh.Most(), sh.UserMost("postgres"))
	}
	held[3].Release()
	if open, _, _ := counts(p); open != 3 {
		t.Errorf("%d open after one above a user's part came back", open)
	}
	again := acquire(t, l, pool.Want{}) // the one that was idle
	if _, err := l.Acquire(t.Context(), pool.Want{}); code(err) != "53300" {
		t.Errorf("a fourth of three: %v", err)
	}
	p.SetShare(sh.Name, 100)
	held[3] = acquire(t, l, pool.Want{})
	for _, c := range append(held[3:], again) {
		c.Release()
	}
}
