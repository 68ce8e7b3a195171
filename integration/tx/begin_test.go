package tx

import (
	"fmt"
	"sync"
	"testing"
)

// TestBeginIsNotCancelled: when a statement fails on one shard the others are told to
// stop. A request that came while a shard was still at the BEGIN before its part
// would let that run outside of the transaction, and stay.
func TestBeginIsNotCancelled(t *testing.T) {
	w := newWorld(t, "begincancel", 1)
	var wg sync.WaitGroup
	for n := range 6 {
		c := w.conn(0)
		wg.Go(func() {
			k := []int64{w.keys[0][n+1], w.keys[1][n+1], w.keys[2][n+1]}
			for i := range 500 {
				err := exec(c, fmt.Sprintf("update acct set note = 'never' where id in (%d, %d, %d) and 1 / (id - %d) > -5 returning id", k[0], k[1], k[2], k[i%shards]))
				if got := code(err); got != "22012" {
					t.Errorf("%v", err)
				}
			}
		})
	}
	wg.Wait()
	for i := range shards {
		if n := value[int](t, w.direct(i), "select count(*) from acct where note is not null"); n > 0 {
			t.Errorf("shard %d: %d rows of failed statements", i, n)
		}
	}
	w.quiet()
}
