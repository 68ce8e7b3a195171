package proxy

import (
	"fmt"
	"testing"
)

// TestTurn: a round has few databases, those with clients first, and all get their turn.
func TestTurn(t *testing.T) {
	var all []string
	for i := range 10 {
		all = append(all, fmt.Sprint("d", i))
	}
	s := &Server{register: &register{byDatabase: map[string]int{"d8": 1, "d9": 2}}}
	done := map[string]bool{}
	for _, want := range []string{"[d8 d9 d0 d1]", "[d2 d3 d4 d5]", "[d6 d7]", "[]"} {
		got := s.register.turn(all, func(name string) bool { return !done[name] })
		if fmt.Sprint(got) != want {
			t.Fatalf("%v, want %s", got, want)
		}
		for _, name := range got {
			done[name] = true
		}
	}
	s.register.byDatabase = map[string]int{"d1": 1, "d3": 1, "d5": 1, "d7": 1, "d9": 1}
	if got := fmt.Sprint(s.register.turn(all, func(string) bool { return true })); got != "[d1 d3 d5 d7]" {
		t.Errorf("%s of five with clients", got)
	}
}
