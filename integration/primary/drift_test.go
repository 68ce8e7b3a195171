package primary

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// TestDrift: an error that a shard makes because its schema was changed behind weft's back names the shard and what lists the differences. The same error for
// something that the home shard lacks as well is PostgreSQL's own.
func TestDrift(t *testing.T) {
	w := newWorld(t)
	plain := w.connect(0)
	extended := w.proxies[0].Connect(t, "postgres", "dbname=postgres", "default_query_exec_mode=exec")
	w.must(plain, fmt.Sprintf("select v from t where k = %d", w.there))
	direct, err := pgx.Connect(w.within(), w.a.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer direct.Close(w.within())
	told := func(what string, err error, code string, drifts bool) {
		t.Helper()
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != code || drifts != (strings.Contains(e.Hint, `Shard "shop-1"`) && strings.Contains(e.Hint, "weft.schema_diff()")) {
			t.Errorf("%s: %v, %+v", what, err, e)
		}
	}
	for _, c := range []struct{ change, code string }{{"alter table t rename column v to was", "42703"}, {"drop table t", "42P01"}} {
		w.must(direct, c.change)
		for _, sql := range []string{
			fmt.Sprintf("select v from t where k = %d", w.there), fmt.Sprintf("update t set v = 1 where k = %d", w.there), "select sum(v) from t",
			fmt.Sprintf("select x.v from t x where x.k = %d", w.there),
		} {
			_, err := plain.Exec(w.within(), sql)
			told(sql, err, c.code, true)
		}
		_, err := extended.Exec(w.within(), "select v from t where k = $1", w.there)
		told("with a parameter", err, c.code, true)
		w.must(plain, fmt.Sprintf("select v from t where k = %d", w.here))
	}
	_, err = plain.Exec(w.within(), fmt.Sprintf("select nothing from t where k = %d", w.here))
	told("a column that no shard has", err, "42703", false)
	if diff := strings.Join(w.rows(plain, "select * from weft.schema_diff()"), "\n"); !strings.Contains(diff, "shop-1") {
		t.Errorf("weft.schema_diff(): %q", diff)
	}
}
