package crash

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
)

// TestRekeyDeaths kills the proxy that gives a table another key, and whose client waits for that. Another proxy goes on with
// the job that carries the rows home, begins the one that follows it, and ends that one, too: nobody has to ask again.
func TestRekeyDeaths(t *testing.T) {
	w := newWorld(t, "c_rekey", quietly)
	w.proxy(quietly)
	c := w.conn(1)
	must(t, c, "create table s (id bigint not null, k bigint not null, v bigint not null)")
	must(t, c, "insert into s select i, 1000 - i, 7 * i from generate_series(1, 300) i")
	declare(t, c, "select weft.shard_table('s', 'id')")
	key := "id"
	for _, point := range []string{"move-finishing", "announced", "filled", "active"} {
		if key = map[string]string{"id": "k", "k": "id"}[key]; *rounds == 1 && point == "active" {
			break
		}
		began := time.Now()
		p := w.weft[0]
		p.StopAt(t, point, false)
		asked := later(t, w.conn(0), fmt.Sprintf("select weft.alter_shard_key('s', '%s')", key))
		within(t, patience, "P comes to "+point, p.Stopped)
		p.Signal(t, syscall.SIGKILL)
		p.WaitExit(t, patience)
		if err := <-asked; err == nil {
			t.Errorf("%s: a dead proxy has answered", point)
		}
		within(t, time.Minute, point+": the table has its new key", func() bool {
			d := w.snapshot().Table(w.db, "public", "s")
			return len(w.snapshot().Moves) == 0 && d != nil && d.Columns[0].Name == key
		})
		rows, _ := c.Query(t.Context(), "select * from weft.verify_placement()")
		found, err := pgx.CollectRows(rows, pgx.RowToMap)
		if err != nil || len(found) != 1 || found[0]["misplaced"] != "0" {
			t.Errorf("%s: %v, %v", point, found, err)
		}
		if n := value[int](t, c, "select count(*)::int from s where v = 7 * id and k = 1000 - id"); n != 300 {
			t.Errorf("%s: %d rows of 300", point, n)
		}
		t.Logf("%s: %s after %s", point, key, time.Since(began).Round(time.Millisecond))
		w.replace(0, quietly)
	}
	w.clean("s")
}
