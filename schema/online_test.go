package schema

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
)

const onlineTables = `CREATE TABLE parent (id bigint PRIMARY KEY, email text UNIQUE); INSERT INTO parent SELECT i, 'p' || i FROM generate_series(0, 39) i;
CREATE TABLE t (id bigserial, k bigint REFERENCES parent, s text, PRIMARY KEY (k, id));
INSERT INTO t(k, s) SELECT i % 40, 'row ' || i FROM generate_series(1, 300) i;
CREATE TABLE leaf (k bigint, t bigint, FOREIGN KEY (k, t) REFERENCES t(k, id)); INSERT INTO leaf SELECT k, id FROM t;
CREATE TABLE apart (id bigint PRIMARY KEY)`

func onlineMove(c *cluster, id, proxy string) directory.Move {
	return directory.Move{ID: id, Database: c.db, Kind: directory.MoveDeclare, Proxy: proxy, State: directory.MovePreparing}
}

// TestOnlineDeaths: whoever declares tables online dies after each step. Another proxy takes everything back, or
// declares all of them; no row has moved either way, and no table is left where nobody looks for it.
func TestOnlineDeaths(t *testing.T) {
	c := newCluster(t)
	c.home(onlineTables)
	reqs := []Request{c.request("leaf", "k"), c.request("t", "k"), c.request("parent", "id")}
	declare := func(m *Mover, id string) error {
		return NewOnline(m).Declare(c.context(), reqs, onlineMove(c, id, m.cfg.Proxy), c.notice)
	}
	back := func() {
		t.Helper()
		if move := c.store.snap.Carrying(c.db); move != nil {
			m := c.proxy(move.Proxy)
			move := *move
			_, err := c.store.Update(c.context(), func(s *directory.Snapshot) (*directory.Snapshot, error) {
				next := s.Clone()
				directory.TurnBack(next, next.FindMove(move.ID))
				return next, nil
			})
			c.must(err)
			move.Back = true
			c.must(NewOnline(m).Dissolve(c.context(), c.store.snap, move))
			_, err = c.store.Update(c.context(), func(s *directory.Snapshot) (*directory.Snapshot, error) {
				next := s.Clone()
				next.EndMove(move.ID)
				return next, nil
			})
			c.must(err)
		}
	}
	var steps []string
	m := c.proxy("dry")
	m.cfg.step = func(name string) error { steps = append(steps, name); return nil }
	c.must(declare(m, "dry"))
	if err := NewOnline(m).Prepare(c.context(), c.store.snap, *c.store.snap.Carrying(c.db)); err != nil {
		t.Fatal(err)
	}
	back()
	if len(steps) < 8 {
		t.Fatalf("only %q", steps)
	}
	moved := false
	for _, step := range steps {
		moved = moved || step == "moved"
		id := strings.ReplaceAll(step, " ", "-")
		m := c.proxy("p-" + id)
		dead := make(chan struct{})
		m.cfg.step = func(name string) error {
			if name == step {
				runtime.Goexit() // as a process that dies: nothing is undone
			}
			return nil
		}
		go func() {
			defer close(dead)
			_ = declare(m, id)
		}()
		<-dead
		other := c.proxy("q-" + id)
		for _, tb := range slices.Clone(c.store.snap.Declared(c.db)) {
			c.must(other.Recover(c.context(), tb))
		}
		want, twins := 0, "0"
		if moved {
			want, twins = 3, "3"
		}
		if n := len(c.store.snap.Declared(c.db)); n != want || (c.store.snap.Carrying(c.db) != nil) != moved {
			t.Fatalf("after %s: %d tables are declared, job %v", step, n, c.store.snap.Carrying(c.db))
		}
		for shard, n := range c.each("SELECT count(*) FROM pg_class WHERE relname IN ('parent', 't', 'leaf')") {
			if shard != "home" && n != twins {
				t.Fatalf("after %s: shard %s has %s of the tables", step, shard, n)
			}
		}
		if n := c.each("SELECT (SELECT count(*) FROM parent) || ' ' || (SELECT count(*) FROM t) || ' ' || (SELECT count(*) FROM leaf) WHERE to_regclass('t') IS NOT NULL")["home"]; n != "40 300 300" {
			t.Fatalf("after %s: home has %s rows", step, n)
		}
		if c.store.snap.Carrying(c.db) != nil {
			_, err := c.store.Update(c.context(), func(s *directory.Snapshot) (*directory.Snapshot, error) {
				next := s.Clone()
				next.Moves[0].Proxy = other.cfg.Proxy
				return next, nil
			})
			c.must(err)
			back()
		}
	}
}

// TestOnlineRefusals: what cannot be declared online is refused with the reason, and nothing has happened.
func TestOnlineRefusals(t *testing.T) {
	c := newCluster(t)
	c.home(onlineTables + "; CREATE TABLE listed (k text); INSERT INTO listed VALUES ('eu'), ('mars'); CREATE TABLE ring1 (id bigint PRIMARY KEY); CREATE TABLE ring2 (id bigint PRIMARY KEY REFERENCES ring1); ALTER TABLE ring1 ADD FOREIGN KEY (id) REFERENCES ring2")
	m := c.proxy("p")
	list := func(names ...string) (out []Request) {
		for _, n := range names {
			table, column, _ := strings.Cut(n, ".")
			out = append(out, c.request(table, column))
		}
		return out
	}
	lookup := c.request("apart", "id")
	lookup.Vindex = directory.Vindex{Kind: "lookup", Name: "dir"}
	for _, tc := range []struct {
		reqs       []Request
		code, want string
	}{
		{list("parent.id"), pgerr.FeatureNotSupported, `foreign key "t_k_fkey" of "t" references it`},
		{list("t.k"), pgerr.InvalidForeignKey, "would cross shards"},
		{list("parent.id", "t.id", "leaf.k"), pgerr.InvalidForeignKey, "would cross shards"},
		{list("ring1.id", "ring2.id"), pgerr.FeatureNotSupported, "in a circle"},
		{[]Request{lookup}, pgerr.FeatureNotSupported, "is looked up"},
		{list("none.id"), pgerr.UndefinedTable, "does not exist"},
	} {
		err := NewOnline(m).Declare(c.context(), tc.reqs, onlineMove(c, "j", "p"), c.notice)
		var e *pgerr.Error
		if !errors.As(err, &e) || e.Code != tc.code || !strings.Contains(e.Message, tc.want) {
			t.Errorf("%s: %v, want %s %s", tc.reqs[0].Table.Name, err, tc.code, tc.want)
		}
		if len(c.store.snap.Tables)+len(c.store.snap.Moves)+len(c.store.snap.Placements) > 0 {
			t.Fatalf("%s: something was declared", tc.reqs[0].Table.Name)
		}
	}
}

// TestRelated: cascade finds the tables that foreign keys tie together, and the columns of their keys.
func TestRelated(t *testing.T) {
	c := newCluster(t)
	c.home(onlineTables)
	for _, start := range []string{"parent.id", "t.k", "leaf.k"} {
		table, column, _ := strings.Cut(start, ".")
		got, err := NewOnline(c.proxy("p")).Related(context.Background(), c.request(table, column), c.notice)
		c.must(err)
		var names []string
		for _, r := range got {
			names = append(names, r.Table.Name+"."+strings.Join(r.Columns, ","))
		}
		slices.Sort(names)
		if s := strings.Join(names, " "); s != "leaf.k parent.id t.k" {
			t.Errorf("%s: %s", start, s)
		}
	}
	_, err := NewOnline(c.proxy("p")).Related(context.Background(), c.request("t", "id"), c.notice)
	if e := pgerr.From(err); err == nil || e.Code != pgerr.InvalidForeignKey {
		t.Errorf("by another column than the foreign key's: %v", err)
	}
	if root(&catalog.Schema{}, catalog.Name{Schema: "a", Name: "b"}) != (catalog.Name{Schema: "a", Name: "b"}) {
		t.Error("a table that is not known is not its own root")
	}
}
