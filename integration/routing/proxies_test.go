package routing

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"weft/config"
	"weft/integration/harness"
)

// second starts another proxy over the same cluster and connects to it.
func second(t *testing.T, db string) *peer {
	t.Helper()
	return connect(t, harness.StartWeft(t, func(*config.Config) {}), db, "postgres")
}

// must runs a statement on one peer and returns its answer.
func (p *peer) must(t testing.TB, sql string) answer {
	t.Helper()
	a := p.ask(simple, sql, nil, nil)
	if a.code != "" {
		t.Fatalf("%s: %s %s", sql, a.code, a.message)
	}
	return a
}

// TestTwoProxies: what one proxy has declared or altered, the other knows when
// the statement returns. Both are asked statements they have planned before.
func TestTwoProxies(t *testing.T) {
	db := database(t, "proxies")
	one := connect(t, harness.Weft(t), db, "postgres")
	two := second(t, db)
	one.must(t, "create table p (id bigserial primary key, v text)")
	for k := range 20 {
		two.must(t, fmt.Sprintf("insert into p (v) values ('%d')", k))
	}
	count := func(p *peer, want int) {
		t.Helper()
		n := 0
		for k := 1; k <= want+5; k++ {
			n += len(p.must(t, fmt.Sprintf("select * from p where id = %d", k)).results[0].rows)
		}
		if n != want {
			t.Errorf("%d rows, want %d", n, want)
		}
	}
	count(one, 20)
	count(two, 20)
	one.must(t, "select weft.shard_table('p', 'id')")
	count(two, 20)
	count(one, 20)
	for k := 20; k < 40; k++ {
		pick := []*peer{one, two}[k%2]
		pick.must(t, fmt.Sprintf("insert into p (v) values ('%d')", k))
	}
	if got := one.must(t, "alter table p add column w int default 7"); got.code != "" {
		t.Fatal(got.message)
	}
	if a := two.ask(prepared, "select w from p where id = $1", []param{{"int8", ptr("3")}}, nil); a.code != "" || len(a.results[0].rows) != 1 {
		t.Errorf("the other proxy does not know the new column: %s %v", a.message, a.results)
	}
	two.must(t, "alter table p rename column id to key")
	if a := one.ask(text, "select v from p where key = $1", []param{{"int8", ptr("3")}}, nil); a.code != "" || len(a.results[0].rows) != 1 {
		t.Errorf("the other proxy does not know the key's new name: %s %v", a.message, a.results)
	}
	two.must(t, "alter table p rename to q")
	for _, p := range []*peer{one, two} {
		if a := p.ask(simple, "select v from p where key = 3", nil, nil); a.code != "42P01" {
			t.Errorf("the old name: %s %s", a.code, a.message)
		}
		if a := p.ask(simple, "select v from q where key = 3", nil, nil); a.code != "" || len(a.results[0].rows) != 1 {
			t.Errorf("the new name: %s %v", a.message, a.results)
		}
	}
	two.must(t, "alter table q rename to p")
	two.must(t, "alter table p rename column key to id")
	// An unqualified name that another schema takes over.
	one.must(t, "create schema first; set search_path = first, public")
	one.must(t, "select * from p where id = 3")
	two.must(t, "create table first.p (id int, v text, w int)")
	if a := one.must(t, "select * from p where id = 3"); len(a.results[0].rows) != 0 {
		t.Errorf("p is still the table of public: %v", a.results)
	}
	one.must(t, "reset search_path")
	two.must(t, "drop table first.p")
	// Ids stay unique whoever makes them.
	var wg sync.WaitGroup
	for _, p := range []*peer{one, two, second(t, db)} {
		wg.Go(func() {
			for k := range 100 {
				if a := p.ask(simple, fmt.Sprintf("insert into p (v) values ('c%d')", k), nil, nil); a.code != "" {
					t.Errorf("insert: %s %s", a.code, a.message)
					return
				}
			}
		})
	}
	wg.Wait()
	one.must(t, "select setval('p_id_seq', 10000)")
	for i, p := range []*peer{two, one} {
		if a := p.must(t, "insert into p (v) values ('after') returning id > 10000 and id < 20000"); len(a.results[0].rows) != 1 || a.results[0].rows[0] != "t | " {
			t.Errorf("proxy %d after setval on the other: %v", i, a.results)
		}
	}
	two.must(t, "select weft.unshard_table('p')")
	if a := one.must(t, "select count(*) from p"); a.results[0].rows[0] != "342 | " {
		t.Errorf("after unshard_table: %v", a.results[0].rows)
	}
	one.must(t, "drop table p")
	if a := two.ask(simple, "select * from p where id = 3", nil, nil); a.code != "42P01" {
		t.Errorf("a dropped table: %s %s", a.code, a.message)
	}
}

func ptr(s string) *string { return &s }

// TestDDLMeanwhile alters a table while others work with it: they wait or go on,
// and see one schema or the other, never half of each.
func TestDDLMeanwhile(t *testing.T) {
	db := database(t, "meanwhile")
	ddl := connect(t, harness.Weft(t), db, "postgres")
	ddl.must(t, "create table m (id bigint primary key, v text not null default 'x', n int not null default 0)")
	if !*undeclared {
		ddl.must(t, "select weft.shard_table('m', 'id')")
	}
	for k := range 16 {
		ddl.must(t, fmt.Sprintf("insert into m (id) values (%d)", k))
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for w := range 4 {
		p := connect(t, harness.Weft(t), db, "postgres")
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				k := ptr(fmt.Sprint((i + w) % 16))
				m := modes[(i/16)%len(modes)]
				if a := p.ask(m, "update m set n = n + 1 where id = $1 returning v", []param{{"int8", k}}, nil); a.code != "" || a.results[0].tag != "UPDATE 1" {
					t.Errorf("update: %s %s %v", a.code, a.message, a.results)
					return
				}
				if a := p.ask(m, "select v from m where id = $1", []param{{"int8", k}}, nil); a.code != "" || len(a.results[0].rows) != 1 {
					t.Errorf("select: %s %s %v", a.code, a.message, a.results)
					return
				}
				if a := p.ask(m, "select * from m where id = $1", []param{{"int8", k}}, nil); a.message != replan && (a.code != "" || len(a.results[0].rows) != 1) {
					t.Errorf("select *: %s %s %v", a.code, a.message, a.results)
					return
				}
			}
		})
	}
	for i := range 10 {
		ddl.must(t, fmt.Sprintf("alter table m add column c%d int default %d", i, i))
		if i%2 == 1 {
			ddl.must(t, fmt.Sprintf("alter table m drop column c%d", i-1))
		}
		if i%3 == 2 {
			ddl.must(t, fmt.Sprintf("create index on m (c%d)", i))
		}
	}
	stop()
	wg.Wait()
}
