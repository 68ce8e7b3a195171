package executor

import (
	"testing"

	"weft/datum"
	"weft/plan"
)

// said are the custom parameters that a session knows.
type said map[string]string

func (s said) Setting(name string) (string, bool) {
	v, known := s[name]
	return v, known
}

// TestPoliced: the key that row security lets pass leads to its shard, if the session knows the key, and else
// changes nothing.
func TestPoliced(t *testing.T) {
	table := declare(t, "hash", nil, 16, column{"k", datum.Int8})
	snap := cluster(16, 4)
	byKey := func(text string, literal plan.Source) Shards {
		var b Binder
		shards, err := b.Bind(keyed(table, []plan.Set{{literal}}), snap, scanned(t, text))
		if err != nil {
			t.Fatal(err)
		}
		return shards
	}
	p := keyed(table, nil)
	p.Instances[0].Policy = &plan.Policy{Name: "p", Set: plan.Set{{Kind: plan.Setting, Text: "app.k", Type: datum.Int8}}}
	for _, test := range []struct {
		known Settings
		one   bool
	}{
		{said{"app.k": "42"}, true},
		{said{"app.k": " 42 "}, true},
		{said{"app.k": "x"}, false},
		{said{"app.k": "99999999999999999999"}, false},
		{said{"app.other": "42"}, false},
		{said{}, false},
		{nil, false},
	} {
		var b Binder
		a := scanned(t, "k = 42")
		a.Settings = test.known
		shards, err := b.Bind(p, snap, a)
		if err != nil {
			t.Fatal(err)
		}
		got, one := shards.One()
		want, _ := byKey("k = 42", lit(0, datum.Int4)).One()
		if one != test.one || one && got != want || (b.Policed() != nil) != test.one {
			t.Errorf("%v: shard %d, %v, want %d, %v", test.known, got, one, want, test.one)
		}
	}
	var b Binder
	a := scanned(t, "select 1")
	a.Settings = said{"app.k": "42"}
	if n := testing.AllocsPerRun(100, func() { _, _ = b.Bind(p, snap, a) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
