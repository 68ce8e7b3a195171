package deadlock

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
)

// TestFind plays the files of testdata. A look is a list of facts:
//
//	party NAME age=N turn=N on=shard/pid,… prepared=… queue=shard holders=shard/pid,…
//	wait shard/pid for shard/pid | prepared GID [lock=…]
//
// NAME is proxy/session. "find" looks once, "again" once more, at what has
// persisted since the look before.
func TestFind(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		var last Facts
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			facts := readFacts(t, d)
			var knots []Knot
			switch d.Cmd {
			case "find":
				knots = Find(facts)
			case "again":
				knots = Find(Persisting(last, facts))
			default:
				d.Fatalf(t, "unknown command %s", d.Cmd)
			}
			last = facts
			if len(knots) == 0 {
				return "nothing\n"
			}
			var b strings.Builder
			for _, k := range knots {
				fmt.Fprintf(&b, "victim %s/%d\n%s\n", k.Victim.Proxy, k.Victim.Session, k.Detail())
			}
			return b.String()
		})
	})
}

func readFacts(t *testing.T, d *datadriven.TestData) (f Facts) {
	backend := func(text string) (b Backend) {
		shard, pid, _ := strings.Cut(text, "/")
		b.Shard = shard
		if _, err := fmt.Sscan(pid, &b.PID); err != nil {
			d.Fatalf(t, "%q is not a backend", text)
		}
		return b
	}
	backends := func(text string) (out []Backend) {
		for _, b := range strings.Split(text, ",") {
			out = append(out, backend(b))
		}
		return out
	}
	for _, line := range strings.Split(d.Input, "\n") {
		w := strings.Fields(line)
		switch w[0] {
		case "party":
			var p Party
			name := backend(w[1])
			p.Proxy, p.Session = name.Shard, name.PID
			for _, arg := range w[2:] {
				key, value, _ := strings.Cut(arg, "=")
				switch key {
				case "age":
					n := 0
					_, _ = fmt.Sscan(value, &n)
					p.Began = time.Unix(int64(1000-n), 0)
				case "round":
					_, _ = fmt.Sscan(value, &p.Round)
				case "turn":
					_, _ = fmt.Sscan(value, &p.Turn)
				case "on":
					p.Backends = backends(value)
				case "prepared":
					p.Prepared = value
				case "queue":
					p.Queue = value
				case "holders":
					p.Holders = backends(value)
				default:
					d.Fatalf(t, "unknown fact %s", arg)
				}
			}
			f.Parties = append(f.Parties, p)
		case "wait":
			b := backend(w[1])
			wait := Wait{Backend: b, Lock: "a lock"}
			if w[3] == "prepared" {
				wait.GID = w[4]
			} else {
				by := backend(w[3])
				if by.Shard != b.Shard {
					d.Fatalf(t, "a shard knows of no waits elsewhere: %s", line)
				}
				wait.By = by.PID
			}
			f.Waits = append(f.Waits, wait)
		default:
			d.Fatalf(t, "unknown fact %s", w[0])
		}
	}
	return f
}

// TestConflict holds the matrix of the manual.
func TestConflict(t *testing.T) {
	// A row per held mode, from AccessShare to AccessExclusive; X excludes.
	want := []string{
		".......X",
		"......XX",
		"....XXXX",
		"...XXXXX",
		"..XX.XXX",
		"..XXXXXX",
		".XXXXXXX",
		"XXXXXXXX",
	}
	for i, held := range lockModes {
		for j, wanted := range lockModes {
			if got := Conflict(held.name, wanted.name); got != (want[i][j] == 'X') {
				t.Errorf("%s held, %s wanted: %v", held.name, wanted.name, got)
			}
		}
	}
	if Conflict("SIReadLock", "SIReadLock") {
		t.Error("predicate locks are in nobody's way")
	}
}
