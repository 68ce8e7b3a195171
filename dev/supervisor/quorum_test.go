package supervisor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// One shard's looks, one after the other: what the primary says, and what follows.
func TestQuorum(t *testing.T) {
	type look struct {
		name string
		now  int64
		all  []standing
		drop string
		want string // names / proven, and ! if the primary is told
	}
	for name, looks := range map[string][]look{
		"a standby joins": {
			{name: "copies still", now: 10, all: []standing{{name: "b"}}, want: " / "},
			{name: "streams", now: 20, all: []standing{{name: "b", streaming: true, flushed: 20}}, want: "b / !"},
			{name: "the primary has not taken notice", now: 25, all: []standing{{name: "b", streaming: true, flushed: 25}}, want: "b / "},
			{name: "has taken notice", now: 30, all: []standing{{name: "b", streaming: true, sync: true, flushed: 25}}, want: "b / "},
			{name: "lacks something", now: 40, all: []standing{{name: "b", streaming: true, sync: true, flushed: 29}}, want: "b / "},
			{name: "has all", now: 50, all: []standing{{name: "b", streaming: true, sync: true, flushed: 30}}, want: "b / b"},
			{name: "stays", now: 90, all: []standing{{name: "b", streaming: true, sync: true, flushed: 60}}, want: "b / b"},
		},
		"a standby leaves and comes back": {
			{now: 1, all: []standing{{name: "b", streaming: true}}, want: "b / !"},
			{now: 1, all: []standing{{name: "b", streaming: true, sync: true, flushed: 1}}, want: "b / "},
			{now: 1, all: []standing{{name: "b", streaming: true, sync: true, flushed: 1}}, want: "b / b"},
			{name: "gone", now: 2, want: " / !"},
			{name: "back", now: 9, all: []standing{{name: "b", streaming: true, flushed: 9}}, want: "b / !"},
			{name: "not proven by what was", now: 9, all: []standing{{name: "b", streaming: true, sync: true, flushed: 9}}, want: "b / "},
			{name: "proven", now: 9, all: []standing{{name: "b", streaming: true, sync: true, flushed: 9}}, want: "b / b"},
			{name: "dropped", drop: "b", want: " / !"},
			{name: "dropped again", drop: "b", want: " / "},
		},
		"two standbys": {
			{now: 1, all: []standing{{name: "c", streaming: true}, {name: "b", streaming: true}}, want: "b c / !"},
			{now: 1, all: []standing{{name: "b", streaming: true, sync: true, flushed: 1}, {name: "c", streaming: true, sync: true}}, want: "b c / "},
			{now: 2, all: []standing{{name: "b", streaming: true, sync: true, flushed: 1}, {name: "c", streaming: true, sync: true}}, want: "b c / b"},
			{name: "one dies", drop: "b", want: "c / !"},
			{name: "the primary has not noticed", now: 3, all: []standing{{name: "c", streaming: true, sync: true, flushed: 3}}, want: "c / c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQuorum()
			for i, l := range looks {
				var changed bool
				if l.drop != "" {
					changed = q.drop(l.drop)
				} else {
					changed = q.look(l.now, l.all)
				}
				got := strings.Join(q.names, " ") + " / " + strings.Join(slices.Sorted(maps.Keys(q.proven)), " ")
				if changed {
					got += "!"
				}
				if got != l.want {
					t.Fatalf("%s: got %q, want %q", fmt.Sprint(i, " ", l.name), got, l.want)
				}
			}
		})
	}
}
