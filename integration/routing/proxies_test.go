package routing

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"weft/config"
	"weft/integration/harness"
	"weft/integration/pair"
)

// second starts another proxy over the same cluster and connects to it.
func second(t *testing.T, db string) *pair.Peer {
	t.Helper()
	return pair.Connect(t, harness.StartWeft(t, func(*config.Config) {}), db, "postgres")
}

// TestTwoProxies: what one proxy has declared or altered, the other knows when
// the statement returns. Both are asked statements they have planned before.
func TestTwoProxies(t *testing.T) {
	db := database(t, "proxies")
	one := pair.Connect(t, harness.Weft(t), db, "postgres")
	two := second(t, db)
	one.Must(t, "create table p (id bigserial primary key, v text)")
	for k := range 20 {
		two.Must(t, fmt.Sprintf("insert into p (v) values ('%d')", k))
	}
	count := func(p *pair.Peer, want int) {
		t.Helper()
		n := 0
		for k := 1; k <= want+5; k++ {
			n += len(p.Must(t, fmt.Sprintf("select * from p where id = %d", k)).Results[0].Rows)
		}
		if n != want {
			t.Errorf("%d rows, want %d", n, want)
		}
	}
	count(one, 20)
	count(two, 20)
	one.Must(t, "select weft.shard_table('p', 'id')")
	count(two, 20)
	count(one, 20)
	for k := 20; k < 40; k++ {
		pick := []*pair.Peer{one, two}[k%2]
		pick.Must(t, fmt.Sprintf("insert into p (v) values ('%d')", k))
	}
	if got := one.Must(t, "alter table p add column w int default 7"); got.Code != "" {
		t.Fatal(got.Message)
	}
	if a := two.Ask(pair.Prepared, "select w from p where id = $1", []pair.Param{{Type: "int8", Text: ptr("3")}}, nil); a.Code != "" || len(a.Results[0].Rows) != 1 {
		t.Errorf("the other proxy does not know the new column: %s %v", a.Message, a.Results)
	}
	two.Must(t, "alter table p rename column id to key")
	if a := one.Ask(pair.Text, "select v from p where key = $1", []pair.Param{{Type: "int8", Text: ptr("3")}}, nil); a.Code != "" || len(a.Results[0].Rows) != 1 {
		t.Errorf("the other proxy does not know the key's new name: %s %v", a.Message, a.Results)
	}
	two.Must(t, "alter table p rename to q")
	for _, p := range []*pair.Peer{one, two} {
		if a := p.Ask(pair.Simple, "select v from p where key = 3", nil, nil); a.Code != "42P01" {
			t.Errorf("the old name: %s %s", a.Code, a.Message)
		}
		if a := p.Ask(pair.Simple, "select v from q where key = 3", nil, nil); a.Code != "" || len(a.Results[0].Rows) != 1 {
			t.Errorf("the new name: %s %v", a.Message, a.Results)
		}
	}
	two.Must(t, "alter table q rename to p")
	two.Must(t, "alter table p rename column key to id")
	// An unqualified name that another schema takes over.
	one.Must(t, "create schema first; set search_path = first, public")
	one.Must(t, "select * from p where id = 3")
	two.Must(t, "create table first.p (id int, v text, w int)")
	if a := one.Must(t, "select * from p where id = 3"); len(a.Results[0].Rows) != 0 {
		t.Errorf("p is still the table of public: %v", a.Results)
	}
	one.Must(t, "reset search_path")
	two.Must(t, "drop table first.p")
	// Ids stay unique whoever makes them.
	var wg sync.WaitGroup
	for _, p := range []*pair.Peer{one, two, second(t, db)} {
		wg.Go(func() {
			for k := range 100 {
				if a := p.Ask(pair.Simple, fmt.Sprintf("insert into p (v) values ('c%d')", k), nil, nil); a.Code != "" {
					t.Errorf("insert: %s %s", a.Code, a.Message)
					return
				}
			}
		})
	}
	wg.Wait()
	one.Must(t, "select setval('p_id_seq', 10000)")
	for i, p := range []*pair.Peer{two, one} {
		if a := p.Must(t, "insert into p (v) values ('after') returning id > 10000 and id < 20000"); len(a.Results[0].Rows) != 1 || a.Results[0].Rows[0] != "t | " {
			t.Errorf("proxy %d after setval on the other: %v", i, a.Results)
		}
	}
	two.Must(t, "select weft.unshard_table('p')")
	if a := one.Must(t, "select count(*) from p"); a.Results[0].Rows[0] != "342 | " {
		t.Errorf("after unshard_table: %v", a.Results[0].Rows)
	}
	one.Must(t, "drop table p")
	if a := two.Ask(pair.Simple, "select * from p where id = 3", nil, nil); a.Code != "42P01" {
		t.Errorf("a dropped table: %s %s", a.Code, a.Message)
	}
}

func ptr(s string) *string { return &s }

// TestDDLMeanwhile alters a table while others work with it: they wait or go on,
// and see one schema or the other, never half of each.
func TestDDLMeanwhile(t *testing.T) {
	db := database(t, "meanwhile")
	ddl := pair.Connect(t, harness.Weft(t), db, "postgres")
	ddl.Must(t, "create table m (id bigint primary key, v text not null default 'x', n int not null default 0)")
	if !*undeclared {
		ddl.Must(t, "select weft.shard_table('m', 'id')")
	}
	for k := range 16 {
		ddl.Must(t, fmt.Sprintf("insert into m (id) values (%d)", k))
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 4 {
		p := pair.Connect(t, harness.Weft(t), db, "postgres")
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				k := ptr(fmt.Sprint((i + w) % 16))
				m := pair.Modes[(i/16)%len(pair.Modes)]
				if a := p.Ask(m, "update m set n = n + 1 where id = $1 returning v", []pair.Param{{Type: "int8", Text: k}}, nil); a.Code != "" || a.Results[0].Tag != "UPDATE 1" {
					t.Errorf("update: %s %s %v", a.Code, a.Message, a.Results)
					return
				}
				if a := p.Ask(m, "select v from m where id = $1", []pair.Param{{Type: "int8", Text: k}}, nil); a.Code != "" || len(a.Results[0].Rows) != 1 {
					t.Errorf("select: %s %s %v", a.Code, a.Message, a.Results)
					return
				}
				if a := p.Ask(m, "select * from m where id = $1", []pair.Param{{Type: "int8", Text: k}}, nil); a.Message != pair.Replan && (a.Code != "" || len(a.Results[0].Rows) != 1) {
					t.Errorf("select *: %s %s %v", a.Code, a.Message, a.Results)
					return
				}
			}
		})
	}
	for i := range 10 {
		ddl.Must(t, fmt.Sprintf("alter table m add column c%d int default %d", i, i))
		if i%2 == 1 {
			ddl.Must(t, fmt.Sprintf("alter table m drop column c%d", i-1))
		}
		if i%3 == 2 {
			ddl.Must(t, fmt.Sprintf("create index on m (c%d)", i))
		}
	}
	stop()
	wg.Wait()
}
