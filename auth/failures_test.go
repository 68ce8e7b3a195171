package auth

import (
	"fmt"
	"net"
	"testing"
	"time"
)

func tcp(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 5} }

func TestFailures(t *testing.T) {
	f := new(Failures)
	const limit = 3
	now := time.Now()
	a, b := tcp("10.0.0.1"), tcp("10.0.0.2")
	for i := range 3 {
		if d := f.Wait(limit, a, now); d != 0 {
			t.Fatalf("after %d failures: wait %v", i, d)
		}
		f.Note(limit, a, now)
	}
	if d := f.Wait(limit, a, now); d != 20*time.Second {
		t.Errorf("after 3: %v", d)
	}
	if d := f.Wait(limit, b, now); d != 0 {
		t.Errorf("another address: %v", d)
	}
	for range 100 { // those that were under way
		f.Note(limit, a, now)
	}
	if d := f.Wait(limit, a, now.Add(19*time.Second)); d != time.Second {
		t.Errorf("almost: %v", d)
	}
	if d := f.Wait(limit, a, now.Add(20*time.Second)); d != 0 {
		t.Errorf("one try is back: %v", d)
	}
	f.Note(limit, a, now.Add(20*time.Second))
	if d := f.Wait(limit, a, now.Add(20*time.Second)); d != 20*time.Second {
		t.Errorf("and used: %v", d)
	}
	if d := f.Wait(limit, a, now.Add(3*time.Minute)); d != 0 {
		t.Errorf("all are back: %v", d)
	}
}

// TestFailuresAreBounded: as many addresses as one likes, and those that fail
// now are not forgotten for those that failed long ago.
func TestFailuresAreBounded(t *testing.T) {
	f := new(Failures)
	const limit = 1
	now := time.Now()
	for i := range 3 * maxAddresses {
		f.Note(limit, tcp(fmt.Sprintf("2001:db8:%x:%x::1", i>>16, i&0xffff)), now.Add(time.Duration(i)*time.Millisecond))
	}
	if len(f.set) > maxAddresses {
		t.Errorf("%d addresses are kept", len(f.set))
	}
	last := 3*maxAddresses - 1
	// Another address of the same network.
	if f.Wait(limit, tcp(fmt.Sprintf("2001:db8:%x:%x::2", last>>16, last&0xffff)), now.Add(time.Duration(last)*time.Millisecond)) == 0 {
		t.Error("the last one is forgotten")
	}
	var off Failures
	off.Note(0, tcp("10.0.0.1"), now)
	if off.Wait(0, tcp("10.0.0.1"), now) != 0 || off.set != nil {
		t.Error("it counts although it is off")
	}
	f.Note(limit, &net.UnixAddr{Name: "x", Net: "unix"}, now)
	f.Note(limit, nil, now)
}
