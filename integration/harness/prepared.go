package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/directory"
	"weft/pgerr"
	"weft/pgserver"
	"weft/schema"
)

// preparedDatabase is a database of a shard that has what weft keeps in every database: schema weft and the
// guards. A copy of preparedDatabase costs a third of the processor time that an empty database costs until its
// first table is declared. The first use of a server makes it.
const preparedDatabase = "weft_prepared"

// preparedServers has, for each server, the function that prepares the server once.
var preparedServers sync.Map

// CreatePrepared returns the statement that makes a database on a shard, with what weft keeps in it.
// No shard's identity is in the database: the proxy that uses it first writes its own.
func CreatePrepared(ctx context.Context, s *pgserver.Temp, name string) (string, error) {
	once, _ := preparedServers.LoadOrStore(s, sync.OnceValue(func() error { return prepareServer(ctx, s) }))
	if err := once.(func() error)(); err != nil {
		return "", fmt.Errorf("prepare server: %w", err)
	}
	return s.CreateDatabase(name, "template "+preparedDatabase), nil
}

func prepareServer(ctx context.Context, s *pgserver.Temp) error {
	if err := onServer(ctx, s, s.CreateDatabase(preparedDatabase)); err != nil {
		return err
	}
	shards := oneServer{s}
	if _, err := schema.Install(ctx, shards, "none", "none", preparedDatabase, "postgres"); err != nil {
		return err
	}
	// A table that is nowhere makes the Mover give the shard the guards, and no more.
	snap := directory.New(1, "none", []directory.Shard{{Name: "none"}})
	snap.PutTable(directory.Table{Database: preparedDatabase, Schema: "public", Name: "none", Kind: directory.Sharded, State: directory.Active})
	if err := schema.New(schema.Config{Shards: shards}).GuardTables(ctx, snap, preparedDatabase); err != nil {
		return err
	}
	c, err := shards.Dial(ctx, "none", preparedDatabase, "postgres")
	if err != nil {
		return err
	}
	_, err = c.Exec("comment on schema weft is null") // the identity
	c.Terminate()
	// The backends that have ended may still be on the list of those that keep a database from being copied.
	return errors.Join(err, onServer(ctx, s, "alter database "+preparedDatabase+" allow_connections false",
		"select pg_terminate_backend(pid, 10000) from pg_stat_activity where datname = '"+preparedDatabase+"'"))
}

// oneServer is schema.Shards of a single server.
type oneServer struct{ *pgserver.Temp }

func (s oneServer) Dial(ctx context.Context, _, database, _ string) (schema.Conn, error) {
	c, err := pgconn.Connect(ctx, s.ConnString(database))
	if err != nil {
		return nil, err
	}
	return &shardConn{c: c}, nil
}

// shardConn is the part of schema.Conn that installing needs.
type shardConn struct {
	schema.Conn
	c *pgconn.PgConn
}

func (c *shardConn) Exec(sql string) (out [][]string, err error) {
	results, err := c.c.Exec(context.Background(), sql).ReadAll()
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		return nil, pgerr.New(e.Code, "%s", e.Message)
	}
	for _, r := range results {
		for _, row := range r.Rows {
			text := make([]string, len(row))
			for i, v := range row {
				text[i] = string(v)
			}
			out = append(out, text)
		}
	}
	return out, err
}

func (c *shardConn) Interrupt() { _ = c.c.CancelRequest(context.Background()) }

func (c *shardConn) Terminate() { _ = c.c.Close(context.Background()) }
