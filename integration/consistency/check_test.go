package consistency

import (
	"strings"
	"testing"
)

func read(key string, list ...string) Op { return Op{Key: key, Read: list} }
func add(key, value string) Op           { return Op{Key: key, Append: value} }
func done(name string, ops ...Op) Transaction {
	return Transaction{Name: name, Ops: ops}
}

func ended(o Outcome, name string, ops ...Op) Transaction {
	return Transaction{Name: name, Outcome: o, Ops: ops}
}

type lists = map[string][]string

// TestCheck: each anomaly is found, and what is none is not.
func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name    string
		history []Transaction
		final   lists
		want    string // kinds, in order
	}{
		{"nothing", nil, nil, ""},
		{
			"one after the other",
			[]Transaction{done("a", add("x", "1"), add("y", "1")), done("b", read("x", "1"), add("x", "2")), done("c", read("x", "1", "2"), read("y", "1"))},
			lists{"x": {"1", "2"}, "y": {"1"}},
			"",
		},
		{
			"half of a transaction seen is allowed under READ COMMITTED",
			[]Transaction{done("a", add("x", "1"), add("y", "1")), done("b", read("x", "1"), read("y"))},
			lists{"x": {"1"}, "y": {"1"}},
			"",
		},
		{
			"own writes are seen",
			[]Transaction{done("a", add("x", "1"), read("x", "1"), add("x", "2"))},
			lists{"x": {"1", "2"}},
			"",
		},
		{
			"aborted read",
			[]Transaction{ended(Aborted, "a", add("x", "1")), done("b", read("x", "1"))},
			lists{"x": {}},
			"G1a",
		},
		{
			"intermediate read",
			[]Transaction{done("a", add("x", "1"), add("x", "2")), done("b", read("x", "1"))},
			lists{"x": {"1", "2"}},
			"G1b",
		},
		{
			"writers in opposite orders",
			[]Transaction{done("a", add("x", "1"), add("y", "1")), done("b", add("x", "2"), add("y", "2"))},
			lists{"x": {"1", "2"}, "y": {"2", "1"}},
			"G0",
		},
		{
			"each saw the other",
			[]Transaction{done("a", add("x", "1"), read("y", "2")), done("b", add("y", "2"), read("x", "1"))},
			lists{"x": {"1"}, "y": {"2"}},
			"G1c",
		},
		{"acknowledged and gone", []Transaction{done("a", add("x", "1"))}, lists{"x": {}}, "lost"},
		{"unknown and gone", []Transaction{ended(Unknown, "a", add("x", "1"), add("y", "1"))}, lists{}, ""},
		{"unknown and there", []Transaction{ended(Unknown, "a", add("x", "1"), add("y", "1"))}, lists{"x": {"1"}, "y": {"1"}}, ""},
		{"unknown and half there", []Transaction{ended(Unknown, "a", add("x", "1"), add("y", "1"))}, lists{"x": {"1"}}, "lost"},
		{
			"an update was lost",
			[]Transaction{done("a", add("x", "1")), done("b", add("x", "2")), done("r", read("x", "1"))},
			lists{"x": {"2"}},
			"torn lost",
		},
		{"aborted and there in the end", []Transaction{ended(Aborted, "a", add("x", "1"))}, lists{"x": {"1"}}, "G1a"},
		{"out of nowhere", nil, lists{"x": {"1"}}, "torn"},
		{"twice", []Transaction{done("a", add("x", "1"))}, lists{"x": {"1", "1"}}, "twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var kinds []string
			found := Check(c.history, c.final)
			for _, a := range found {
				kinds = append(kinds, a.Kind)
			}
			if got := strings.Join(kinds, " "); got != c.want {
				t.Errorf("found %q, want %q: %v", got, c.want, found)
			}
		})
	}
}
