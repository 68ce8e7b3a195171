package directory

import (
	"fmt"
	"strings"
	"testing"
)

var id = Column{Name: "id", Type: 20, TypeName: "bigint", Mod: -1}

// declared are a few tables, in order.
func declared() []Table {
	hash := Vindex{Kind: "hash"}
	order := id
	order.Name = "order_id"
	return []Table{
		{Database: "app", Schema: "public", Name: "customers", Kind: Sharded, Columns: []Column{id}, Vindex: hash},
		{Database: "app", Schema: "public", Name: "items", Kind: Sharded, Columns: []Column{order}, Vindex: hash},
		{Database: "app", Schema: "public", Name: "products", Kind: Reference},
		{Database: "app", Schema: "shop", Name: "customers", Kind: Sharded, Columns: []Column{id}, Vindex: Vindex{Kind: "lookup_unique", Name: "tenants"}},
		{Database: "other", Schema: "public", Name: "customers", Kind: Reference},
	}
}

func TestTable(t *testing.T) {
	s := sample()
	if s.Table("app", "public", "customers") != nil || len(s.Declared("app")) != 0 {
		t.Error("found a table in none")
	}
	for _, d := range declared() {
		s.PutTable(d)
	}
	if err := s.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, d := range declared() {
		if got := s.Table(d.Database, d.Schema, d.Name); got == nil || !got.Equal(&d) {
			t.Errorf("%s: %+v", d.place(), got)
		}
	}
	for _, n := range [][3]string{{"", "", ""}, {"app", "public", "customer"}, {"app", "public", "zebra"}, {"b", "public", "customers"}, {"z", "z", "z"}} {
		if got := s.Table(n[0], n[1], n[2]); got != nil {
			t.Errorf("%v: %+v", n, got)
		}
	}
	for db, want := range map[string]int{"": 0, "app": 4, "apps": 0, "other": 1, "z": 0} {
		got := s.Declared(db)
		if len(got) != want {
			t.Errorf("%q has %d tables, want %d", db, len(got), want)
		}
		for i := range got {
			if got[i].Database != db {
				t.Errorf("%q: %s", db, got[i].place())
			}
		}
	}
	if n := testing.AllocsPerRun(100, func() { s.Table("app", "public", "items"); s.Declared("other") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if !s.DropTable("app", "public", "items") || s.DropTable("app", "public", "items") || s.Table("app", "public", "items") != nil {
		t.Error("items is not dropped once")
	}
}

func TestValidateTables(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Snapshot)
		want   string
	}{
		"valid":      {func(*Snapshot) {}, ""},
		"twice":      {func(s *Snapshot) { s.Tables[1] = s.Tables[0] }, "tables[app.public.customers]: is declared twice"},
		"order":      {func(s *Snapshot) { s.Tables[0], s.Tables[1] = s.Tables[1], s.Tables[0] }, "tables[app.public.customers]: is out of order: it comes after tables[app.public.items]"},
		"no name":    {func(s *Snapshot) { s.Tables[0].Database = "" }, "tables[.public.customers]: database, schema and name are all needed"},
		"kind":       {func(s *Snapshot) { s.Tables[0].Kind = "shared" }, `tables[app.public.customers].kind: "shared" is unknown; known are "sharded" and "reference"`},
		"state":      {func(s *Snapshot) { s.Tables[0].State = "moving" }, `tables[app.public.customers].state: "moving" is unknown; known are "declaring" and "undeclaring"`},
		"no columns": {func(s *Snapshot) { s.Tables[0].Columns = nil }, "tables[app.public.customers].columns: a sharded table needs at least one"},
		"reference":  {func(s *Snapshot) { s.Tables[2].Vindex.Kind = "hash" }, "tables[app.public.products]: a reference table has neither key columns nor a vindex"},
		"vindex":     {func(s *Snapshot) { s.Tables[0].Vindex.Kind = "hush" }, `tables[app.public.customers].vindex: vindex: unknown kind "hush"; known are composite, `},
		"params":     {func(s *Snapshot) { s.Tables[0].Vindex.Params = map[string]any{"x": 1} }, `tables[app.public.customers].vindex: vindex hash: x: there are no parameters here`},
		"type": {func(s *Snapshot) {
			s.Tables[0].Columns[0].Type, s.Tables[0].Columns[0].TypeName = 701, "double precision"
		}, `tables[app.public.customers].vindex: vindex hash: column "id" of type double precision cannot be a shard key`},
		"no lookup":    {func(s *Snapshot) { s.Tables[3].Vindex.Name = "" }, "tables[app.shop.customers].vindex.name: is empty: a lookup_unique needs a name to keep its entries under"},
		"lookup name":  {func(s *Snapshot) { s.Tables[3].Vindex.Name = "a/b" }, `tables[app.shop.customers].vindex.name: "a/b" must start`},
		"hash name":    {func(s *Snapshot) { s.Tables[0].Vindex.Name = "n" }, `tables[app.public.customers].vindex.name: "n": only lookups have a name, and this is a hash`},
		"lookup types": {func(s *Snapshot) { s.Tables[1].Vindex = s.Tables[3].Vindex; s.Tables[1].Columns[0].Type = 23 }, `tables[app.shop.customers].vindex.name: "tenants" is a lookup_unique of bigint for tables[app.public.items]: it cannot be`},
	} {
		s := sample()
		s.Tables = declared()
		c.change(s)
		got := ""
		if err := s.Validate(); err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestTablesKeepShards(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *Snapshot)
		want   string
	}{
		"hosts": {func(s *Snapshot) {
			s.Shards[0].Hosts, s.Shards[1].Options = []string{"x:1"}, nil
			s.SetShards(s.Shards, nil)
		}, ""},
		"order":       {func(s *Snapshot) { s.SetShards([]Shard{s.Shards[1], s.Shards[0]}, nil) }, ""},
		"same weight": {func(s *Snapshot) { s.SetShards(weigh(s.Shards, 5, 5), nil) }, ""},
		"pin as is":   {func(s *Snapshot) { s.SetShards(s.Shards, []Pin{{1, 2, s.nameOf(s.Placement, 1)}}) }, ""},
		"own bucket":  {func(s *Snapshot) { s.Placement = append(s.Placement, 1) }, ""},
		// The cluster's own placement says where buckets ought to be. Rows stay.
		"weight":      {func(s *Snapshot) { s.SetShards(weigh(s.Shards, 1, 3), nil) }, ""},
		"weight only": {func(s *Snapshot) { s.Shards = weigh(s.Shards, 1, 3) }, ""},
		"pin":         {func(s *Snapshot) { s.SetShards(s.Shards, []Pin{{0, 15, "a"}}) }, ""},
		"map":         {func(s *Snapshot) { s.Placement[3] = 1 - s.Placement[3] }, "placement: 1 buckets would move, bucket 3 from a to b, and no job has carried their rows of app.public.customers: use weft.move_buckets or weft.rebalance"},
		"join":        {func(s *Snapshot) { s.SetShards(append(s.Shards, Shard{Name: "c", Hosts: []string{"c:1"}}), nil) }, "shards[2]: c cannot join like this while there are declared tables (app.public.customers and 4 more): it has none of them yet"},
		"leave":       {func(s *Snapshot) { s.SetShards(s.Shards[:1], nil) }, "shards: b cannot leave while it holds 8 buckets with declared tables"},
		"undeclare":   {func(s *Snapshot) { s.Tables = nil; s.SetShards(s.Shards[:1], nil) }, "shards: b cannot leave"},
	} {
		old := sample()
		old.Tables = declared()
		next := old.Clone()
		c.change(next)
		got := ""
		if err := next.ValidateChange(old); err != nil {
			got = err.Error()
		}
		if (got == "") != (c.want == "") || !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
		old.Tables, next.Tables = nil, nil
		if err := next.ValidateChange(old); err != nil {
			t.Errorf("%s, without tables: %v", name, err)
		}
	}
}

func weigh(shards []Shard, w ...int) []Shard {
	out := append([]Shard(nil), shards...)
	for i := range out {
		out[i].Weight = w[i]
	}
	return out
}

func TestCloneTables(t *testing.T) {
	s := sample()
	s.Tables = declared()
	s.Tables[0].Vindex.Params = map[string]any{"zones": []any{map[string]any{"at": "1"}}}
	s.Schemas, s.Sequences = map[string]int64{"app": 1}, map[string]int64{"app": 1}
	before := fmt.Sprint(*s)
	c := s.Clone()
	c.Tables[0].Columns[0].Name = "x"
	c.Tables[0].Vindex.Params["zones"].([]any)[0].(map[string]any)["at"] = "2"
	c.Schemas["app"]++
	c.Sequences["app"]++
	c.Placement[0] = 7
	c.PutTable(Table{Database: "a"})
	if after := fmt.Sprint(*s); after != before {
		t.Errorf("a change of the clone shows in the original:\n%s\n%s", before, after)
	}
}
