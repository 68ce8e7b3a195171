package routing

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
)

// TestEmptyPath: a session whose search_path is empty is the first to read the
// schema after DDL. Those with the default one must not get its path: the table's
// name would mean nothing to weft, and the text would go to the home shard.
func TestEmptyPath(t *testing.T) {
	db, _ := pairs(t, "path", 50)
	query := func(sql string) talk { return talk{&pgproto3.Query{String: sql}} }
	all := []talk{query("select count(*) from pairs")}
	for range 2 {
		converse(t, harness.Weft(t), db, []talk{query("alter table pairs enable row level security"), query("alter table pairs disable row level security")})
		converse(t, harness.Weft(t), db, []talk{query("select set_config('search_path', '', false)"), query("select count(*) from public.pairs")})
		want, got := converse(t, harness.Postgres(t), db, all), converse(t, harness.Weft(t), db, all)
		if want[0] != got[0] {
			t.Errorf("PostgreSQL %q\nweft       %q", want[0], got[0])
		}
	}
}
