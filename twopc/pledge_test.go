package twopc

import (
	"errors"
	"strings"
	"testing"
)

// TestPledgeName: the name of a pledge's part says which transaction of the deciding shard it belongs to.
func TestPledgeName(t *testing.T) {
	for _, xid := range []uint32{3, 0x89abcdef, 0xffffffff} {
		n := Name{
			Cluster: "dd30557565f214bd", Incarnation: "0123456789abcdef", Nonce: NewPledgeNonce(xid),
			Decider: strings.Repeat("h", 63), Timeline: 0xfffffff, Participant: strings.Repeat("p", 63),
		}
		got, ok := ParseName(n.String())
		if id, pledge := got.Pledge(); !ok || got != n || !pledge || id != xid || len(n.String()) >= 200 {
			t.Errorf("%s: %+v, %d %v", n, got, id, pledge)
		}
		if NewPledgeNonce(xid) == n.Nonce {
			t.Error("a nonce has come twice")
		}
	}
	for _, nonce := range []string{NewNonce(), "0123456789abcdef0123456789abcdef", "x12"} {
		if _, pledge := (Name{Nonce: nonce}).Pledge(); pledge {
			t.Errorf("%s counts as a pledge", nonce)
		}
	}
}

// TestOpenPledges: a pledge is let be while its deciding part is prepared, unless another one has the same id.
func TestOpenPledges(t *testing.T) {
	in := func(decider string, nonce, shard string) InDoubt {
		return InDoubt{Name: Name{Cluster: "c", Incarnation: "p", Nonce: nonce, Decider: decider, Participant: shard}, Database: "app"}
	}
	one, other, again, gone, plain := NewPledgeNonce(7), NewPledgeNonce(8), NewPledgeNonce(8), NewPledgeNonce(9), NewNonce()
	asked := 0
	open := openPledges([]InDoubt{
		in("home", one, "a"), in("home", one, "b"), in("home", other, "a"), in("home", again, "a"), in("home", gone, "a"), in("home", plain, "a"), in("away", one, "a"),
	}, func(decider, database string) (pledges, error) {
		asked++
		if decider == "away" {
			return nil, errors.New("no answer")
		}
		return pledges{7: true, 8: true}, nil
	})
	d := in("home", one, "a")
	if len(open) != 1 || !open[d.Key()] || asked != 2 {
		t.Errorf("%v, asked %d times", open, asked)
	}
}
