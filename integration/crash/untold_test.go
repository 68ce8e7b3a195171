package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"
)

// TestUntold: a proxy dies while it commits DDL, before or after it could tell
// the others. They answer rightly all the time, under whichever name the table
// has, and in the end under one.
func TestUntold(t *testing.T) {
	together(t)
	w := newWorld(t, "c_untold", nil)
	w.proxy(nil)
	w.shop()
	c, other := w.conn(0), w.conn(1)
	must(t, other, "select v from s where id = 1")
	must(t, c, "begin")
	must(t, c, "alter table s rename to s2")
	done := later(t, c, "commit")
	time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
	w.weft[0].Signal(t, syscall.SIGKILL)
	<-done // answered, or its proxy is gone
	works := func(name string) (rows int) {
		for k := 1; k <= 10; k++ {
			tag, err := other.Exec(context.Background(), fmt.Sprintf("select v from %s where id = %d", name, k))
			if err == nil && tag.RowsAffected() != 1 {
				t.Errorf("%s: row %d is missing", name, k)
			}
			if err == nil {
				rows++
			}
		}
		return rows
	}
	for began := time.Now(); ; time.Sleep(100 * time.Millisecond) {
		if old, renamed := works("s"), works("s2"); old+renamed == 10 && (old == 0 || renamed == 0) && time.Since(began) > 3*time.Second {
			t.Logf("the table is called s (%d) or s2 (%d)", old, renamed)
			return
		} else if time.Since(began) > patience {
			t.Fatalf("at last %d of 10 rows are found under the old name and %d under the new", old, renamed)
		}
	}
}
