//go:build regress

package regress

import (
	"context"
	"sync"
	"testing"

	"weft/config"
	"weft/integration/harness"
)

// startNarrow returns a weft with few server connections.
func startNarrow(t *testing.T) *harness.Target {
	return harness.StartWeft(t, func(c *config.Config) { c.Pool.MaxPerShard = connections })
}

// connections are one that a script may pin and two to alternate between.
const connections = 3

// startChurn lets other clients of the same user and database want a narrow
// weft's connections all the time: a script's session seldom gets the one again
// that it had before. Whatever of its state weft does not carry along is then
// missed.
func startChurn(t *testing.T, weft *harness.Target) {
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for range connections + 1 {
		conn := weft.Connect(t, "postgres", "dbname="+database)
		wg.Go(func() {
			for ctx.Err() == nil {
				_, _ = conn.Exec(ctx, "select pg_sleep(0.001)")
			}
		})
	}
	t.Cleanup(func() { stop(); wg.Wait() })
}
