package twopc

import (
	"testing"
	"time"
)

// A transaction in doubt is left alone at first, then asked about, and forced to an end when its owner is gone. An hour between the clocks of servers changes nothing.
func TestJudge(t *testing.T) {
	for _, tc := range []struct {
		age, known          time.Duration
		ours, inHand, alive bool
		want                Urgency
	}{
		{age: 0, alive: true, want: LetBe},
		{age: 2 * time.Second, alive: true, want: Ask},
		{age: 2 * time.Second, want: Force},
		{age: 2 * time.Second, ours: true, inHand: true, alive: true, want: LetBe},
		{age: 2 * time.Second, ours: true, alive: true, want: Force},
		{age: -time.Hour, alive: true, want: LetBe},
		{age: -time.Hour, known: 2 * time.Second, alive: true, want: Ask},
		{age: -time.Hour, known: time.Minute, alive: true, want: Force},
		{age: time.Hour, known: 2 * time.Second, alive: true, want: Ask},
		{age: time.Hour, known: time.Minute, alive: true, want: Force},
	} {
		d := InDoubt{Age: tc.age, Known: tc.known}
		if got := d.Judge(tc.ours, tc.inHand, tc.alive); got != tc.want {
			t.Errorf("%+v: %v", tc, got)
		}
	}
}
