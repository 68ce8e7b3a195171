package pair

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// Verified asks weft itself about the rows of a database: each is where its key
// says, copies of reference tables are alike, and lookups have what the rows have. Of
// reference tables it asks about those named, or about all.
func Verified(t testing.TB, conn *pgconn.PgConn, reference ...string) {
	t.Helper()
	for _, r := range asked(t, conn, "select * from weft.verify_placement()") {
		if r[2] != "0" {
			t.Errorf("rows are not where their keys say: %s", strings.Join(r, " | "))
		}
	}
	calls := []string{"weft.verify_reference()"}
	if len(reference) > 0 {
		calls = nil
	}
	for _, name := range reference {
		calls = append(calls, "weft.verify_reference('"+name+"')")
	}
	for _, call := range calls {
		for _, r := range asked(t, conn, "select * from "+call) {
			if !strings.HasSuffix(r[0], "are the same") {
				t.Errorf("copies are not alike: %s", r[0])
			}
		}
	}
	for _, r := range asked(t, conn, "select * from weft.verify_lookup()") {
		if r[4] != "0" || r[5] != "0" || r[6] != "0" {
			t.Errorf("a lookup is not what the rows are: %s", strings.Join(r, " | "))
		}
	}
}

// asked returns the rows of a query.
func asked(t testing.TB, conn *pgconn.PgConn, sql string) [][]string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	results, err := conn.Exec(ctx, sql).ReadAll()
	if err != nil {
		t.Errorf("%s: %v", sql, err)
		return nil
	}
	var out [][]string
	for _, r := range results {
		for _, values := range r.Rows {
			row := make([]string, len(values))
			for i, v := range values {
				row[i] = string(v)
			}
			out = append(out, row)
		}
	}
	return out
}
