package twopc

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	n := Name{Cluster: "dd30557565f214bd", ID: "0123456789abcdef", XID: "18446744073709551615", Decider: strings.Repeat("h", 63), Participant: strings.Repeat("p", 63)}
	gid := n.String()
	if len(gid) >= 200 {
		t.Errorf("%d bytes: PostgreSQL takes fewer than 200", len(gid))
	}
	if got, ok := ParseName(gid); !ok || got != n {
		t.Errorf("%q is read as %+v, %v", gid, got, ok)
	}
	for _, other := range []string{"", "weft", "weft:a:b:c:d", "weft:a:b:c:d:e:f", "waft:a:b:c:d:e", "some transaction"} {
		if got, ok := ParseName(other); ok {
			t.Errorf("%q is taken for ours: %+v", other, got)
		}
	}
}
