package primary

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestJudge plays transcripts. Each line of a block is
//
//	directory GENERATION              the directory has the generation
//	fence TIMELINE                    the directory says that the timeline is over, 0 that none is
//	accept NUMBER A GENERATION        an operator has said that A is right, and the directory has the generation
//	reset NUMBER GENERATION           an operator has let all be forgotten but the generation
//	hosts A B …                       the shard has other servers
//	A primary|standby GENERATION [lsn=LSN] [started=N]
//	A refused|silent|unreachable|starting|stopping|unable
//	wait DURATION                     time passes
//
// and the answer is the state after the last of them. A server is the same one as long as started is: by default each address has its own.
func TestJudge(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		now := time.Unix(1000, 0)
		var j Judge
		j.SetHosts([]string{"a", "b"}, now)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			for line := range strings.Lines(d.Input) {
				f := strings.Fields(line)
				if len(f) == 0 {
					continue
				}
				switch f[0] {
				case "directory":
					j.Know(generation(t, f[1]), now)
				case "fence":
					j.Fence(number(t, f[1]), now)
				case "accept":
					g := generation(t, f[3])
					j.Heed(Ruling{Number: number(t, f[1]), Timeline: g.Timeline, Address: f[2]}, g, now)
				case "reset":
					j.Heed(Ruling{Number: number(t, f[1])}, generation(t, f[2]), now)
				case "hosts":
					j.SetHosts(f[1:], now)
				case "wait":
					w, err := time.ParseDuration(f[1])
					if err != nil {
						t.Fatal(err)
					}
					now = now.Add(w)
				default:
					j.See(f[0], sighting(t, f, now), now)
				}
			}
			return show(j.View(now), now)
		})
	})
}

func number(t *testing.T, text string) uint32 {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	return uint32(n)
}

func generation(t *testing.T, text string) Generation {
	g, err := ParseGeneration(text)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// sighting reads a line about a server.
func sighting(t *testing.T, f []string, now time.Time) Sighting {
	kinds := map[string]Kind{
		"refused": Refused, "silent": Silent, "unreachable": Unreachable, "starting": StartingUp, "stopping": ShuttingDown, "unable": Unable,
		"primary": Primary, "standby": Standby,
	}
	s := Sighting{Kind: kinds[f[1]], At: now}
	if s.Kind == Unseen {
		t.Fatalf("%q is no kind of answer", f[1])
	}
	if s.Kind != Primary && s.Kind != Standby {
		return s
	}
	s.Generation = generation(t, f[2])
	s.Started = time.Unix(int64(f[0][0]), 0)
	for _, option := range f[3:] {
		name, value, _ := strings.Cut(option, "=")
		var err error
		switch name {
		case "lsn":
			s.LSN, err = ParseLSN(value)
		case "started":
			s.Started = time.Unix(int64(value[0]), 0)
		default:
			err = fmt.Errorf("%q is no option", option)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// show writes a view, the state first and then the servers.
func show(v *View, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s for %s", v.State, now.Sub(v.Since))
	if v.Primary != "" {
		fmt.Fprintf(&b, ", primary %s", v.Primary)
	}
	fmt.Fprintf(&b, ", generation %s\n", v.Generation)
	for i := range v.Servers {
		s := &v.Servers[i]
		fmt.Fprintf(&b, "  %s %s", s.Address, s.Role)
		if s.LagKnown {
			fmt.Fprintf(&b, ", %s and %d bytes behind", s.Lag, s.LagBytes)
		}
		b.WriteString("\n")
	}
	if !v.Open() {
		fmt.Fprintf(&b, "waits: %s\n", v.Describe())
	}
	return b.String()
}
