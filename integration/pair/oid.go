package pair

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
)

// firstUserOID is the least OID of what users create (FirstNormalObjectId).
const firstUserOID = 16384

// oidNames turns OIDs that a target tells its clients into names. It asks the
// home shard itself: weft speaks of types and tables by its OIDs.
type oidNames struct {
	t        testing.TB
	target   *harness.Target
	database string
	conn     *pgx.Conn
	types    map[uint32]string
	classes  map[uint32]string
}

func newOIDNames(t testing.TB, target *harness.Target, database string) *oidNames {
	return &oidNames{t: t, target: target, database: database, types: map[uint32]string{}, classes: map[uint32]string{}}
}

func (n *oidNames) typ(oid uint32) string {
	return n.name(n.types, oid, "select format_type($1::oid, null) from pg_type where oid = $1")
}

func (n *oidNames) class(oid uint32) string {
	return n.name(n.classes, oid, "select regexp_replace(oid::regclass::text, 'pg_temp_\\d+', 'pg_temp') from pg_class where oid = $1")
}

func (n *oidNames) name(known map[uint32]string, oid uint32, sql string) string {
	if oid < firstUserOID {
		return fmt.Sprint(oid)
	}
	if name, ok := known[oid]; ok {
		return name
	}
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	if n.conn == nil {
		conn, err := pgx.Connect(ctx, n.target.Home.ConnString(n.database))
		if err != nil {
			n.t.Fatal(err)
		}
		n.conn = conn
		n.t.Cleanup(func() { _ = conn.Close(context.Background()) })
	}
	var name string
	if err := n.conn.QueryRow(ctx, sql, oid).Scan(&name); err != nil {
		return fmt.Sprintf("%d, which %s does not know", oid, n.target.Name)
	}
	known[oid] = name
	return name
}
