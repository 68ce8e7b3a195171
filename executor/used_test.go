package executor

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/datum"
	"weft/heat"
	"weft/heat/throttle"
	"weft/plan"
	"weft/vindex"
)

// bindUsed binds a plan and returns the keys that were used.
func bindUsed(t *testing.T, p *plan.Plan, a *Args) []heat.Key {
	t.Helper()
	var b Binder
	if _, err := b.Bind(p, cluster(64, 4), a); err != nil {
		t.Fatal(err)
	}
	return b.Used()
}

func TestUsed(t *testing.T) {
	table := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	table.Colocation = 9
	one := keyed(table, sets(set(lit(0))))
	seven := bindUsed(t, one, scanned(t, "SELECT * FROM t WHERE k = 7"))
	if len(seven) != 1 || seven[0].Group != 9 || seven[0].ID == 0 {
		t.Fatalf("%+v", seven)
	}
	id, err := table.Vindex.(vindex.Computed).ID([]datum.Key{datum.IntegerKey(7)})
	if err != nil || seven[0].ID != uint64(id) || int(seven[0].Bucket) != id.Bucket(6) {
		t.Errorf("%+v, the keyspace ID is %v", seven, id)
	}
	// The same key twice, as in a join, is one key.
	twice := keyed(table, sets(set(lit(0))))
	twice.Instances = append(twice.Instances, twice.Instances[0])
	if got := bindUsed(t, twice, scanned(t, "SELECT 7")); len(got) != 1 || got[0] != seven[0] {
		t.Errorf("%+v", got)
	}
	few := keyed(table, sets(set(lit(0), lit(1), lit(2), lit(3))))
	if got := bindUsed(t, few, scanned(t, "SELECT 7, 8, 9, 10")); len(got) != 4 || got[0] != seven[0] {
		t.Errorf("%+v", got)
	}
	many := keyed(table, sets(set(lit(0), lit(1), lit(2), lit(3), lit(4))))
	if got := bindUsed(t, many, scanned(t, "SELECT 7, 8, 9, 10, 11")); got != nil {
		t.Errorf("%+v", got)
	}
	if got := bindUsed(t, &plan.Plan{Route: plan.Every}, &Args{}); len(got) != 0 {
		t.Errorf("%+v", got)
	}
	// A lookup's key is known by a hash of its spelling.
	lookup := declare(t, "lookup", nil, 64, column{"k", datum.Text})
	lookup.Colocation = 3
	by := keyed(lookup, sets(set(lit(0))))
	a, b := bindUsed(t, by, scanned(t, "SELECT 'a'")), bindUsed(t, by, scanned(t, "SELECT 'b'"))
	if len(a) != 1 || len(b) != 1 || a[0].ID == b[0].ID || a[0].Group != 3 {
		t.Errorf("%+v, %+v", a, b)
	}
}

// The value of a key is told if it is wanted, and only then.
func TestWatch(t *testing.T) {
	table := declare(t, "composite", vindex.Params{"bits": []any{6, 58}}, 64, column{"k", datum.Text}, column{"d", datum.Date})
	table.Colocation = 9
	p := keyed(table, sets(set(lit(0))), sets(set(lit(1, datum.Date))))
	nasty := "<img src=x>\x1b[31m"
	for value, want := range map[string]string{
		"plain":                  "(plain,2024-02-29)",
		nasty:                    `("` + nasty + `",2024-02-29)`,
		strings.Repeat("é", 300): "(" + strings.Repeat("é", 99) + "…",
	} {
		a := params(t, nil, value, "2024-02-29")
		p.Instances[0].Keys = [][]plan.Set{sets(set(plan.Source{Kind: plan.Param, Index: 0, Type: datum.Text})), sets(set(plan.Source{Kind: plan.Param, Index: 1, Type: datum.Date}))}
		p.Params = []datum.Type{datum.Text, datum.Date}
		used := bindUsed(t, p, a)
		if len(used) != 1 {
			t.Fatalf("%q: %+v", value, used)
		}
		for _, name := range []heat.Name{{Database: "app", Group: 9, ID: used[0].ID}, {Database: "other", Group: 9, ID: used[0].ID}} {
			a.Watch, a.Database = heat.NewWatch([]heat.Name{name}), "app"
			bindUsed(t, p, a)
			got := ""
			a.Watch.Found(func(n heat.Name, v string) { got = fmt.Sprint(n.Group, " ", v) })
			if name.Database == "app" && got != "9 "+want || name.Database != "app" && got != "" {
				t.Errorf("%q in %s: %q", value, name.Database, got)
			}
		}
	}
}

// A limited key is found by its spelling, not by its hash, and a limited bucket by any key that is in it.
func TestLimits(t *testing.T) {
	table := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	table.Colocation = 9
	id, spelling, err := NameKey(table.Vindex, []datum.Key{datum.IntegerKey(7)})
	if err != nil || string(spelling) != "7" {
		t.Fatalf("%q, %v", spelling, err)
	}
	rule := func(target throttle.Target) *throttle.Live {
		return throttle.NewLive(throttle.Rule{Target: target, Limit: throttle.Limit{Refuse: true}}, nil, nil, time.Time{})
	}
	bucket := vindex.ID(id).Bucket(6)
	limits := throttle.NewTable([]*throttle.Live{
		rule(throttle.Target{Kind: throttle.Key, Database: "app", Group: 9, ID: id, Value: []byte("7")}),
		rule(throttle.Target{Kind: throttle.Key, Database: "app", Group: 9, ID: id, Value: []byte("4294967303")}),
		rule(throttle.Target{Kind: throttle.Bucket, Database: "app", First: int32(bucket), Last: int32(bucket), Buckets: 64}),
	}).Places
	for text, want := range map[string]throttle.Set{
		"SELECT 7": 1 | 4, "SELECT '7'": 1 | 4, "SELECT 8": 0, "SELECT 8, 9, 10, 11, 12, 7": 1 | 4,
	} {
		a := scanned(t, text)
		a.Limits, a.Database = limits, "app"
		var all []plan.Source
		for i := range a.Literals {
			all = append(all, lit(i))
		}
		var b Binder
		if _, err := b.Bind(keyed(table, sets(set(all...))), cluster(64, 4), a); err != nil || b.Limited() != want {
			t.Errorf("%s: %b, %v", text, b.Limited(), err)
		}
		a.Database = "other"
		if _, err := b.Bind(keyed(table, sets(set(all...))), cluster(64, 4), a); err != nil || b.Limited() != 0 {
			t.Errorf("%s elsewhere: %b, %v", text, b.Limited(), err)
		}
	}
	lookup := declare(t, "lookup", nil, 64, column{"k", datum.Text})
	a, err := lookup.Vindex.Columns()[0].Store(datum.Literal([]byte("a")))
	if err != nil {
		t.Fatal(err)
	}
	used := bindUsed(t, keyed(lookup, sets(set(lit(0)))), scanned(t, "SELECT 'a'"))
	if id, spelling, err := NameKey(lookup.Vindex, []datum.Key{a}); err != nil || string(spelling) != "a" || len(used) != 1 || used[0].ID != id {
		t.Errorf("a lookup's key: %v, %q, %v; used %+v", id, spelling, err, used)
	}
	two := declare(t, "composite", vindex.Params{"bits": []any{6, 58}}, 64, column{"k", datum.Text}, column{"d", datum.Text})
	text := func(value string) datum.Key {
		k, err := two.Vindex.Columns()[0].Store(datum.Literal([]byte(value)))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	_, one, _ := NameKey(two.Vindex, []datum.Key{text("a"), text("b, c")})
	_, other, _ := NameKey(two.Vindex, []datum.Key{text("a, b"), text("c")})
	if string(one) == string(other) {
		t.Errorf("two keys are spelled %q", one)
	}
}

// A key is read as it is shown, and what is no key is refused with a reason.
func TestReadKey(t *testing.T) {
	two := declare(t, "composite", vindex.Params{"bits": []any{6, 58}}, 64, column{"k", datum.Text}, column{"d", datum.Int8}).Vindex
	one := declare(t, "hash", nil, 64, column{"k", datum.Text}).Vindex
	at := declare(t, "hash", nil, 64, column{"at", datum.Timestamptz}).Vindex
	for _, c := range []struct {
		v           vindex.Vindex
		text, shown string
	}{
		{one, "(1,2)", "(1,2)"},
		{at, "2024-02-29 12:00:00+01", "2024-02-29 11:00:00+00"},
		{two, "(eu,7)", "(eu,7)"},
		{two, ` ("eu",7) `, "(eu,7)"},
		{two, `("a ""b"", c",-7)`, `("a ""b"", c",-7)`},
		{two, `(a\\,7)`, `("a\\",7)`},
		{two, `(,7)`, `(,7)`},
		{two, `("",7)`, `("",7)`},
	} {
		keys, err := ReadKey(c.v, c.text)
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
			continue
		}
		if got := Shown(c.v, keys); got != c.shown {
			t.Errorf("%s: %s", c.text, got)
		}
		again, err := ReadKey(c.v, c.shown)
		if err != nil || string(appendSpelling(nil, c.v, again)) != string(appendSpelling(nil, c.v, keys)) {
			t.Errorf("%s: %v, %v", c.shown, again, err)
		}
	}
	for text, want := range map[string]string{
		"eu,7": "malformed row", "(eu,7": "malformed row", `("eu,7)`: "malformed row", "((eu),7)": "malformed row",
		"(eu)": "has 2 columns", "(eu,7,8)": "has 2 columns", "(eu,seven)": "invalid input syntax",
	} {
		if _, err := ReadKey(two, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
