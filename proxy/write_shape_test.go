package proxy

import (
	"fmt"
	"strings"
	"testing"

	"weft/plan"
)

// TestShapes: what follows from the shape of a write alone.
func TestShapes(t *testing.T) {
	in := []plan.Instance{{Name: "t"}}
	conflict := []*plan.LookupKey{{Name: "l"}}
	after := func(verb string) plan.Statement {
		return plan.Statement{Before: []*plan.Write{{Verb: verb, Shape: &plan.Local{}}}}
	}
	shapes := []struct {
		name  string
		shape plan.Shape
	}{
		{"one row", &plan.Rows{Rows: []plan.Row{{}}}},
		{"one row, conflict", &plan.Rows{Rows: []plan.Row{{Conflict: conflict}}}},
		{"rows", &plan.Rows{Rows: []plan.Row{{}, {}}}},
		{"rows, conflict", &plan.Rows{Rows: []plan.Row{{Conflict: conflict}, {Conflict: conflict}}}},
		{"stream", &plan.Stream{}},
		{"local", &plan.Local{Instances: in}},
		{"local after a query", &plan.Local{Instances: in, Statement: after("SELECT")}},
		{"local after a write", &plan.Local{Instances: in, Statement: after("DELETE")}},
		{"at home", &plan.AtHome{}},
		{"share", &plan.Share{}},
		{"copies", &plan.Copies{}},
		{"own", &plan.Own{Instances: in}},
		{"own at home", &plan.Own{}},
		{"whole", &plan.Whole{}},
		{"locking", &plan.Locking{}},
	}
	var b strings.Builder
	for _, s := range shapes {
		w := &plan.Write{Verb: "UPDATE", Shape: s.shape}
		fmt.Fprintf(&b, "%-20s", s.name)
		for _, f := range []struct {
			name string
			is   bool
		}{{" one", onOneShard(w)}, {" several", inSeveral(w)}, {" known", shardsKnown(w)}} {
			if f.is {
				b.WriteString(f.name)
			}
		}
		b.WriteByte('\n')
	}
	// one: never on more than one shard; several: never one statement on one shard; known: the
	// shards follow from the instances.
	want := `
one row              one
one row, conflict    one
rows
rows, conflict       several
stream               several
local                known
local after a query  known
local after a write  several known
at home              several
share                several
copies               several
own                  one known
own at home          one
whole                one
locking              several
`
	if got := b.String(); trimLines(got) != trimLines(want) {
		t.Errorf("got\n%s", got)
	}
}

func trimLines(s string) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	for i := range lines {
		lines[i] = strings.TrimRight(lines[i], " ")
	}
	return strings.Join(lines, "\n")
}
