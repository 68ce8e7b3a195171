package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// TestTerminate ends sessions at any moment of short statements: between two, when
// their backend is about to be somebody else's, as well. It is always that session
// that ends, told by 57P01, and never another.
func TestTerminate(t *testing.T) {
	target := harness.Weft(t)
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	killer := target.Connect(t, "postgres")
	bystanding, leave := context.WithCancel(ctx)
	var wg sync.WaitGroup
	for range 3 {
		conn := target.Connect(t, "postgres")
		wg.Go(func() {
			for bystanding.Err() == nil {
				if _, err := conn.Exec(ctx, "select pg_sleep(0.001)"); err != nil {
					t.Errorf("a bystander: %v", err)
					return
				}
			}
		})
	}
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 60 {
		if ctx.Err() != nil {
			break
		}
		victim, err := pgx.Connect(ctx, target.ConnString("postgres"))
		if err != nil {
			t.Fatal(err)
		}
		told := make(chan error)
		go func() {
			for {
				if _, err := victim.Exec(ctx, "select pg_sleep(0.001)"); err != nil {
					told <- err
					return
				}
			}
		}()
		time.Sleep(time.Duration(r.IntN(4000)) * time.Microsecond)
		var done bool
		if err := killer.QueryRow(ctx, "select pg_terminate_backend($1)", victim.PgConn().PID()).Scan(&done); err != nil || !done {
			t.Errorf("round %d: terminate: %v, %v", round, done, err)
		}
		err = <-told
		if e := (*pgconn.PgError)(nil); !errors.As(err, &e) || e.Code != "57P01" {
			t.Errorf("round %d: the session was told %v", round, err)
		}
		_ = victim.Close(ctx)
	}
	leave()
	wg.Wait()
}
