package settle

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgerr"
	"weft/pgserver"
	"weft/twopc"
)

// conn is a connection of a resolver that no proxy keeps from old primaries.
type conn struct{ c *pgconn.PgConn }

func (c conn) Exec(sql string) (rows [][]string, err error) {
	results, err := c.c.Exec(context.Background(), sql).ReadAll()
	for _, r := range results {
		for _, row := range r.Rows {
			var text []string
			for _, v := range row {
				text = append(text, string(v))
			}
			rows = append(rows, text)
		}
	}
	var e *pgconn.PgError
	if errors.As(err, &e) {
		err = pgerr.New(e.Code, "%s", e.Message)
	}
	return rows, err
}

func (c conn) Interrupt() { _ = c.c.CancelRequest(context.Background()) }
func (c conn) Terminate() { _ = c.c.Close(context.Background()) }

// resolve has a resolver that knows the shards at these servers end everything that is prepared on the follower.
func (w *world) resolve(servers [2]*pgserver.Server) (left int, err error) {
	w.Helper()
	r := twopc.Resolver{
		Cluster: w.cluster, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
		Dial: func(ctx context.Context, shard, database string) (twopc.Conn, error) {
			at := servers[decider]
			if shard == "shop-1" {
				at = servers[follower]
			}
			c, err := pgconn.Connect(ctx, at.ConnString(database))
			if err != nil {
				return nil, err
			}
			return conn{c}, nil
		},
	}
	c, err := r.Dial(w.within(), "shop-1", "postgres")
	if err != nil {
		w.Fatal(err)
	}
	defer c.Terminate()
	rows, err := c.Exec(twopc.FindSQL(w.cluster))
	if err != nil || len(rows) == 0 {
		w.Fatalf("%d transactions are prepared, %v", len(rows), err)
	}
	return r.Resolve(w.within(), twopc.ReadFound("shop-1", rows), func(twopc.InDoubt) twopc.Urgency { return twopc.Force })
}
