package twopc

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
)

// A loss is said once.
func TestLossIsSaidOnce(t *testing.T) {
	var b bytes.Buffer
	r := &Resolver{Log: slog.New(slog.NewTextHandler(&b, nil)), Losses: &Losses{}}
	for _, gid := range []string{"a", "b", "a", "b"} {
		r.reportLoss(gid, Member{Shard: "s", Server: "1/1"}, "1/2")
	}
	if n := strings.Count(b.String(), "may have lost"); n != 2 {
		t.Errorf("%d lines:\n%s", n, &b)
	}
	for i := range maxLosses {
		r.Losses.first(strings.Repeat("x", i%7) + string(rune(i)))
	}
	if len(r.Losses.reported) > maxLosses {
		t.Errorf("%d are remembered", len(r.Losses.reported))
	}
}

// A decision says of each member whether a standby has waited for it.
func TestReplicatedMember(t *testing.T) {
	d := Decision{Key: "k", Members: []Member{{"a", "7/1", true, false}, {"b", "8/1", false, false}}}
	for _, end := range []string{"", " "} { // a space says that all are in weft.part; older versions skip it
		for i := range d.Members {
			d.Members[i].Listed = end != ""
		}
		if got := d.Participants(); got != "a@7/1+ b@8/1"+end {
			t.Errorf("%q", got)
		}
		back := ParseDecision("k", d.Participants())
		if !slices.Equal(back.Members, d.Members) {
			t.Errorf("%+v", back)
		}
	}
	for _, c := range []struct {
		m    Member
		now  string
		want bool
	}{{d.Members[0], "7/2", true}, {d.Members[0], "9/2", false}, {d.Members[1], "8/2", false}, {Member{Shard: "c", Replicated: true}, "", false}} {
		if got := c.m.keptBy(c.now); got != c.want {
			t.Errorf("%+v kept by %s: %v", c.m, c.now, got)
		}
	}
}
