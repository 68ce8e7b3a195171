package twopc

import (
	"context"
	"fmt"
	"time"
)

// barrierSQL is a commit that changes nothing and waits for the synchronous standby, if there is one. It takes some
// fifty bytes of WAL.
const barrierSQL = "BEGIN; SET LOCAL synchronous_commit = on; SELECT pg_catalog.pg_logical_emit_message(true, 'weft', ''); COMMIT"

// barrierPatience is how long a barrier may take. A server whose standby is away, or whose standby follows another
// server by now, does not get a barrier through.
const barrierPatience = 5 * time.Second

// barrier makes a server prove that it is still the primary of its shard: it gets a synchronous commit through. What the
// server has shown before is then on every server that can take its place. Visible rows and answered commands prove
// less: a commit whose wait for the standby was cancelled, or cut short by a crash, is visible too.
//
// Recovery draws no conclusion from what a server shows without a barrier after it. An error means: ask again later.
func barrier(ctx context.Context, c Conn, shard string) error {
	ctx, stop := context.WithTimeout(ctx, barrierPatience)
	defer stop()
	defer context.AfterFunc(ctx, c.Interrupt)()
	if _, err := c.Exec(barrierSQL); err != nil {
		return fmt.Errorf("shard %s does not get a commit to its synchronous standby: %w", shard, err)
	}
	return nil
}
