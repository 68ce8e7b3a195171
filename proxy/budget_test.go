package proxy

import "testing"

// TestBudget: what is taken counts, what is refused does not, and all of it comes back.
func TestBudget(t *testing.T) {
	var b budget
	var a allowance
	for i, tc := range []struct {
		n, limit int64
		want     bool
	}{{600, 1000, true}, {500, 1000, false}, {400, 1000, true}, {1, 1000, false}, {1, 0, true}} {
		got := b.take(tc.n, tc.limit)
		if got != tc.want {
			t.Errorf("%d: take %d of %d: %t", i, tc.n, tc.limit, got)
		}
		if got {
			a.bytes += tc.n
		}
	}
	a.end(&b)
	a.end(&b)
	if used := b.used.Load(); used != 0 || a.bytes != 0 {
		t.Errorf("%d left, %d lent", used, a.bytes)
	}
}
