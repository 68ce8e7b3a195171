package pair

import (
	"testing"

	"weft/integration/harness"
)

// Pair is a client of both servers.
type Pair struct {
	Plain, Weft *Peer
	Mask        map[string]bool // columns left out of comparisons
	Counts      *Counts
}

// Counts are for the end of the log.
type Counts struct{ Asked, Refused int }

// New connects to a database of both.
func New(t testing.TB, plain, weft *harness.Target, database string) *Pair {
	t.Helper()
	return &Pair{
		Plain: Connect(t, plain, database, "postgres"), Weft: Connect(t, weft, database, "postgres"),
		Mask: map[string]bool{}, Counts: &Counts{},
	}
}

// Both runs statements that must succeed on both.
func (p *Pair) Both(t testing.TB, pos, sql string) {
	t.Helper()
	for _, peer := range []*Peer{p.Weft, p.Plain} {
		if a := peer.Ask(Simple, sql, nil, nil); a.Code != "" {
			name := "PostgreSQL"
			if peer == p.Weft {
				name = "weft"
			}
			t.Fatalf("%s: %s: %s on %s: %s", pos, sql, a.Code, name, a.Message)
		}
	}
}

// Run asks weft, then PostgreSQL, and returns what is wrong with weft's answer.
// What weft refuses PostgreSQL is not asked, so that both have the same data;
// if that failed a transaction both leave it.
func (p *Pair) Run(m Mode, sql string, set []Param) (wrong string, want, got Answer) {
	p.Counts.Asked++
	got = p.Weft.Ask(m, sql, set, p.Mask)
	if got.Refused() {
		p.Counts.Refused++
		if got.Status == 'E' {
			p.Weft.Ask(Simple, "rollback", nil, nil)
			p.Plain.Ask(Simple, "rollback", nil, nil)
		}
		return "", Answer{}, got
	}
	want = p.Plain.Ask(m, sql, set, p.Mask)
	return Diff(want, got, Ordered(sql)), want, got
}
