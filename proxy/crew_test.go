package proxy

import (
	"sync"
	"sync/atomic"
	"testing"
)

// TestCrew starts goroutines from outside while another goroutine waits for the end of the crew: each one either
// runs to its end before Wait returns, or does not run.
func TestCrew(t *testing.T) {
	for range 200 {
		var c crew
		var ran, begun atomic.Int64
		var outside sync.WaitGroup
		for range 4 {
			outside.Go(func() {
				for range 20 {
					if c.Go(func() { ran.Add(1) }) {
						begun.Add(1)
					}
				}
			})
		}
		c.Wait()
		before := ran.Load()
		outside.Wait()
		if ran.Load() != before {
			t.Fatalf("%d goroutines ended after Wait", ran.Load()-before)
		}
		if ran.Load() != begun.Load() {
			t.Fatalf("%d goroutines ran, %d were started", ran.Load(), begun.Load())
		}
		if c.Go(func() {}) {
			t.Fatal("a goroutine started after the end")
		}
	}
}

// TestCrewMember starts a goroutine from within another one after Wait was called.
func TestCrewMember(t *testing.T) {
	var c crew
	release := make(chan struct{})
	var ran atomic.Bool
	c.Go(func() {
		<-release
		if !c.Go(func() { ran.Store(true) }) {
			t.Error("a member cannot start a goroutine")
		}
	})
	done := make(chan struct{})
	go func() {
		c.Wait()
		close(done)
	}()
	close(release)
	<-done
	if !ran.Load() {
		t.Error("the second goroutine did not run before Wait returned")
	}
}
