package dev

import (
	"testing"

	"weft/primary"
)

func TestDurability(t *testing.T) {
	for _, test := range []struct {
		replicas int
		async    bool
		want     primary.Durability
	}{
		{0, false, primary.Undeclared},
		{0, true, primary.Undeclared},
		{1, false, primary.Synchronous},
		{2, true, primary.Asynchronous},
	} {
		if got := durability(test.replicas, test.async); got != test.want {
			t.Errorf("%d replicas, async %v: %q, want %q", test.replicas, test.async, got, test.want)
		}
	}
}
