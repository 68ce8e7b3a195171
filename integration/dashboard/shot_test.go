package dashboard

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/jackc/pgx/v5"
)

// TestShots writes the pictures of the documentation, if it is asked to: of a cluster in which one key is too much for its
// shard, and buckets move.
func TestShots(t *testing.T) {
	if *shots == "" {
		t.Skip("pictures are written with -args -shots DIR")
	}
	w := theWorld
	w.tables(t)
	c := w.conn(t)
	must(t, c, "select weft.throttle(table_name => 'acct', key => '47', rate => '20/s', duration => '1h', reason => 'import of old orders')")
	w.load(t, 6, 10*time.Millisecond, wandering(time.Now()))
	time.Sleep(*open)
	w.load(t, 110, time.Millisecond, func(ctx context.Context, c *pgx.Conn, n int) error {
		_, err := c.Exec(ctx, "select pg_sleep(0.04) from acct where id = 1042")
		return err
	})
	must(t, c, "select weft.move_buckets('0-15', 'shard-1')")
	time.Sleep(15 * time.Second)
	for _, p := range []struct {
		path, name, theme string
		height            int64
	}{
		{"", "overview", "light", 1060},
		{"heat?metric=reads", "heat", "dark", 860},
		{"keys", "keys", "light", 600},
		{"pools", "sessions", "dark", 600},
	} {
		b := w.tab(t, themed(p.theme), chromedp.EmulateViewport(1440, p.height))
		b.visit(p.path)
		b.await("events", live)
		time.Sleep(6 * time.Second)
		data, err := chromedp.Run(b.ctx, chromedp.CaptureScreenshot())
		if err != nil {
			t.Fatal(err)
		}
		if len(data) > 200_000 {
			t.Errorf("the picture of %s has %d bytes", p.name, len(data))
		}
		if err := os.WriteFile(filepath.Join(*shots, "dashboard-"+p.name+".png"), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// wandering is a load whose hot key changes every 40 seconds.
func wandering(began time.Time) func(ctx context.Context, c *pgx.Conn, n int) error {
	return func(ctx context.Context, c *pgx.Conn, n int) error {
		return mixed(40+7*int(time.Since(began)/(40*time.Second)))(ctx, c, n)
	}
}

// mixed is a load of which one key has about a fifth.
func mixed(hot int) func(ctx context.Context, c *pgx.Conn, n int) error {
	return func(ctx context.Context, c *pgx.Conn, n int) error {
		id := 1 + (n*7919)%2000
		if n%5 == 0 {
			id = hot
		}
		var err error
		switch {
		case n%97 == 0:
			_, err = c.Exec(ctx, "select count(*), sum(n) from acct")
		case n%3 == 0:
			_, err = c.Exec(ctx, "update acct set n = n + 1 where id = $1", id)
		default:
			_, err = c.Exec(ctx, "select n, note from acct where id = $1", id)
		}
		return err
	}
}
