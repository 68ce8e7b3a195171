package proxy

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/directory"
	"weft/executor"
	"weft/heat"
	"weft/heat/verdict"
)

// culpritsOf names the culprits, with their classes, as far as the shard is pressed.
func culpritsOf(c culprits) string {
	var out []string
	for _, h := range c.all() {
		text := fmt.Sprintf("%s %s %.2f %.0f", h.Target.Words(), h.Class, h.Share, h.Calls)
		if !h.Pressing {
			text += " calm"
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// Of a saturated shard keys are the culprits; if there is none whose value is known, the user with most of the work, if
// there are others; else statements.
func TestCulprits(t *testing.T) {
	table := directory.Table{
		Database: "app", Schema: "public", Name: "acct", Kind: directory.Sharded, Columns: []directory.Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}}, Vindex: directory.Vindex{Kind: "hash"},
	}
	seven, err := executor.KeyTarget(&table, "7", 64)
	if err != nil {
		t.Fatal(err)
	}
	pair := directory.Table{
		Database: "app", Schema: "public", Name: "entry", Kind: directory.Sharded, Vindex: directory.Vindex{Kind: "composite", Params: map[string]any{"bits": "8"}},
		Columns: []directory.Column{{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}, {Name: "day", Type: 25, TypeName: "text", Mod: -1}},
	}
	both, err := executor.KeyTarget(&pair, "(7,monday)", 64)
	if err != nil {
		t.Fatal(err)
	}
	saturated := verdict.Finding{Object: verdict.Object{Kind: verdict.Shard, Shard: "a"}, Verdict: verdict.Saturated, On: "a", Wait: 50}
	key := verdict.Finding{
		Object:  verdict.Object{Kind: verdict.Key, Database: "app", Group: table.Colocation(), ID: seven.ID},
		Verdict: verdict.Hot, On: "a", Class: verdict.Read, Share: 0.4, Calls: 900, Value: "7", Known: true,
	}
	statement := verdict.Finding{
		Object: verdict.Object{Kind: verdict.Statement, Database: "app", User: "web", Text: "select 1", Shard: "a"}, Verdict: verdict.Hot, On: "a", Share: 0.6, Calls: 500,
	}
	entry := func(user, shard string, cost float64) heat.Entry[heat.Statement] {
		return heat.Entry[heat.Statement]{Name: heat.Statement{Database: "app", User: user, Text: "t", Shard: shard}, Count: cost, Load: heat.Load{Read: heat.Class{Calls: cost / 1e5}}}
	}
	work := func(users ...heat.Entry[heat.Statement]) *verdict.Facts {
		f := &verdict.Facts{}
		f.Recent.Statements.Entries = users
		f.Recent.Shards = map[string]heat.Shard{"a": {Load: heat.Load{Read: heat.Class{Busy: 1e8}}}}
		return f
	}
	of := func(facts *verdict.Facts, found ...verdict.Finding) string {
		return culpritsOf(culprits{facts: facts, found: found, snap: &directory.Snapshot{BucketCount: 64, Tables: []directory.Table{table, pair}}, exempt: func(user string) bool { return user == "boss" }})
	}
	with := func(f verdict.Finding, change func(*verdict.Finding)) verdict.Finding { change(&f); return f }
	two := work(entry("web", "a", 6e7), entry("report", "a", 3e7), entry("web", "b", 9e9))
	id := statementID("select 1")
	for i, x := range []struct{ got, want string }{
		{of(two, key, saturated, statement), "key 7 of acct read 0.40 900"},
		{of(two, saturated, with(key, func(f *verdict.Finding) { f.Group, f.ID, f.Value = pair.Colocation(), both.ID, "(7,monday)" })), "key (7,monday) of entry read 0.40 900"},
		{of(two, saturated, with(key, func(f *verdict.Finding) { f.Group, f.ID, f.Value = pair.Colocation(), both.ID, "(7,tuesday)" })), "user web any 0.60 600"},
		{of(two, key), ""},
		{of(two, key, with(saturated, func(f *verdict.Finding) { f.Wait = 1 })), "key 7 of acct read 0.40 900 calm"},
		{of(two, saturated, with(key, func(f *verdict.Finding) { f.Known = false })), "user web any 0.60 600"},
		{of(two, saturated, with(key, func(f *verdict.Finding) { f.Value = strings.Repeat("x", 199) + "…" })), "user web any 0.60 600"},
		{of(two, saturated, with(key, func(f *verdict.Finding) { f.Group++ })), "user web any 0.60 600"},
		{of(two, saturated, with(key, func(f *verdict.Finding) { f.On = "b" })), "user web any 0.60 600"},
		{of(two, saturated, with(key, func(f *verdict.Finding) { f.Verdict = verdict.Warm })), "user web any 0.60 600"},
		{of(work(entry("boss", "a", 6e7), entry("report", "a", 3e7)), saturated), "user report any 0.30 300"},
		{of(work(entry("web", "a", 9.8e7)), saturated, statement), fmt.Sprintf("statement %d any 0.60 500", id)},
		{of(work(entry("web", "a", 9.8e7)), saturated, with(statement, func(f *verdict.Finding) { f.Share = 0.99 })), ""},
	} {
		if x.got != x.want {
			t.Errorf("%d: %s, not %s", i, x.got, x.want)
		}
	}
}
