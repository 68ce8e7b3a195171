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
