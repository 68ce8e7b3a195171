package twopc

import (
	"strings"
	"testing"
)

func TestName(t *testing.T) {
	n := Name{
		Cluster: "dd30557565f214bd", Incarnation: "0123456789abcdef", Nonce: NewNonce(),
		Decider: strings.Repeat("h", 63), Timeline: 0xfffffff, Participant: strings.Repeat("p", 63),
	}
	gid := n.String()
	if len(gid) >= 200 {
		t.Errorf("%d bytes: PostgreSQL takes fewer than 200", len(gid))
	}
	if got, ok := ParseName(gid); !ok || got != n {
		t.Errorf("%q is read as %+v, %v", gid, got, ok)
	}
	if got, ok := ParseName(n.Key()); !ok || got.Participant != "" || got.Key() != n.Key() || !strings.HasPrefix(gid, n.Key()+":") {
		t.Errorf("%q is read as %+v, %v", n.Key(), got, ok)
	}
	if !strings.HasPrefix(gid, Prefix(n.Cluster)) {
		t.Errorf("%q does not begin with %q", gid, Prefix(n.Cluster))
	}
	// Names of transactions that were prepared by earlier versions.
	old := "weft:dd30557565f214bd:0123456789abcdef:0123456789abcdef0123456789abcdef:d:p"
	if got, ok := ParseName(old); !ok || got.Timeline != 0 || got.Decider != "d" || got.String() != old {
		t.Errorf("%q is read as %+v, %v", old, got, ok)
	}
	for _, other := range []string{
		"", "weft:a:b:1:.2:e", "weft:a:b:1:d.0:e", "weft:a:b:1:d.x:e", "weft:a:b:1:d.:e", "weft:a:b:1:d.100000000:e", "weft", "weft:a:b:x:d", "weft:a:b:1:", "weft:a:b:1:d:", "weft:a:b:1:d:e:f", "waft:a:b:1:d:e", "weft:a:b::d:e", "weft:a:b:G:d:e", "some transaction",
	} {
		if got, ok := ParseName(other); ok {
			t.Errorf("%q is taken for ours: %+v", other, got)
		}
	}
}
