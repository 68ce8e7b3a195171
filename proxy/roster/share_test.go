package roster

import "testing"

// Shares of proxies never add up to more than a server has, and where there is enough each
// has what it wants.
func TestShare(t *testing.T) {
	for _, tc := range []struct {
		room  int
		wants []int
		get   []int
	}{
		{97, []int{80}, []int{80}},
		{97, []int{80, 80}, []int{42, 42}},
		{97, []int{80, 20}, []int{68, 17}},
		{200, []int{80, 80}, []int{80, 80}},
		{20, []int{80}, []int{18}},
		{3, []int{80, 80, 80}, []int{1, 1, 1}},
	} {
		for i, own := range tc.wants {
			var others []int
			for j, n := range tc.wants {
				if j != i {
					others = append(others, n)
				}
			}
			if got := share(tc.room, own, others); got != tc.get[i] {
				t.Errorf("%d of %d connections for proxies that want %v, want %d", got, tc.room, tc.wants, tc.get[i])
			}
		}
	}
}
