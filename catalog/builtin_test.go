package catalog

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestBuiltinTypes asks a server whether the table of types is right.
func TestBuiltinTypes(t *testing.T) {
	ctx := context.Background()
	srv := pgtest.Start(t, pgserver.Config{})
	c, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	for name, b := range builtinTypes {
		var oid, array uint32
		var display string
		err := c.QueryRow(ctx, "SELECT oid, typarray, format_type(oid, NULL) FROM pg_type WHERE typname = $1 AND typnamespace = 11", name).Scan(&oid, &array, &display)
		want := b.display
		if want == "" {
			want = name
		}
		if err != nil || oid != b.oid || array != b.array || display != want {
			t.Errorf("%s: %v, %d %d %s", name, err, oid, array, display)
		}
	}
}
