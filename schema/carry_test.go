package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/directory"
)

// moveTo enters a job that takes every bucket of one shard to another, and returns it with the
// snapshot that has it.
func (c *cluster) moveTo(from, to string) (*directory.Snapshot, directory.Move) {
	c.Helper()
	snap, err := c.store.Update(c.context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		target := slices.Clone(next.PlacementOf(c.db, ""))
		index := func(name string) uint16 {
			return uint16(slices.IndexFunc(next.Shards, func(s directory.Shard) bool { return s.Name == name }))
		}
		for b := range target {
			if target[b] == index(from) {
				target[b] = index(to)
			}
		}
		next.Moves = []directory.Move{{ID: "m1", Database: c.db, Kind: directory.MoveBuckets, Proxy: "p1", State: directory.MoveRunning}}
		next.Targets = map[string][]uint16{"m1": target}
		return next, nil
	})
	c.must(err)
	return snap, snap.Moves[0]
}

// pairOf is a round of some of the buckets that a job takes from one shard to another.
func pairOf(snap *directory.Snapshot, move directory.Move, from, to string, keep func(bucket int) bool) []directory.Pair {
	p := directory.Pair{From: from, To: to}
	now, target := snap.PlacementOf(move.Database, ""), snap.Targets[move.ID]
	for b := range now {
		if now[b] != target[b] && snap.Shards[now[b]].Name == from && keep(b) {
			p.Buckets = append(p.Buckets, b)
		}
	}
	return []directory.Pair{p}
}

// carry carries one round to its end.
func (c *cluster) carry(snap *directory.Snapshot, move directory.Move, pairs []directory.Pair) int64 {
	c.Helper()
	round, err := c.mover.OpenCarriage(c.context(), snap, move, pairs)
	c.must(err)
	defer round.Close()
	c.must(round.AwaitPrepared())
	c.must(round.Carry())
	c.must(round.Prepare())
	c.must(round.Commit())
	c.must(round.Follow())
	_, err = c.store.Update(c.context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		between := old.Clone()
		between.Moves[0].Round = &directory.Round{Key: round.Name.Key(), Phase: directory.HoldAll, Pairs: pairs}
		return between, nil
	})
	c.must(err)
	_, err = c.store.Update(c.context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		return next, next.Transfer(&next.Moves[0], true)
	})
	c.must(err)
	return round.Rows
}

// TestCarryDerived: the entries of a lookup that is derived from an index travel with their buckets.
func TestCarryDerived(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TABLE t (k bigint PRIMARY KEY, mail text, gone date); CREATE UNIQUE INDEX t_mail ON t (lower(mail)) WHERE gone IS NULL;
INSERT INTO t SELECT i, 'M' || i, CASE WHEN i % 4 = 0 THEN date '2020-02-02' END FROM generate_series(1, 200) i`)
	c.shard("t", "k")
	entries := func() (n int64) {
		for _, shard := range names {
			n += number(c.at(shard, "SELECT count(*) FROM weft.t_mail_gone"))
		}
		return n
	}
	if n := entries(); n != 150 {
		t.Errorf("%d entries", n)
	}
	snap, move := c.moveTo("east", "west")
	_, err := c.mover.PrepareMove(c.context(), snap, move)
	c.must(err)
	c.carry(snap, move, pairOf(snap, move, "east", "west", func(int) bool { return true }))
	c.must(c.mover.FinishMove(c.context(), c.store.snap, move))
	if n, left := entries(), c.at("east", "SELECT count(*) FROM weft.t_mail_gone"); n != 150 || left != "0" {
		t.Errorf("%d entries, %s left behind", n, left)
	}
	list, err := c.mover.Lookups(c.context(), &Request{Database: c.db, User: "postgres"})
	if c.must(err); len(list) != 1 {
		t.Fatalf("lookups: %+v", list)
	}
	r, err := c.mover.VerifyLookup(c.context(), list[0], c.notice)
	if c.must(err); r.Rows != 150 || r.Missing+r.Stale+r.Duplicates != 0 || r.Key != "lower(mail)" {
		t.Errorf("lookup: %+v", r)
	}
	// What is not as it should be is found and repaired.
	for _, shard := range names {
		on(c.T, shard, c.db).run(c.T, "DELETE FROM weft.t_mail_gone WHERE v1 < 'm15'; UPDATE weft.t_mail_gone SET v1 = v1 || 'x' WHERE v1 IN ('m3', 'm5')")
	}
	if r, err = c.mover.VerifyLookup(c.context(), list[0], c.notice); err != nil || r.Missing < 10 || r.Stale != 2 || r.Duplicates != 0 {
		t.Errorf("lookup: %+v, %v", r, err)
	}
	if r, err = c.mover.VerifyLookup(c.context(), list[0], c.notice); err != nil || r.Missing+r.Stale+r.Duplicates != 0 {
		t.Errorf("lookup: %+v, %v", r, err)
	}
}

// TestCarry: the rows of a round, with all that a table can have, are on their new shard and
// nowhere else.
func TestCarry(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TABLE lists (id bigint PRIMARY KEY, at date);
CREATE TABLE t (id bigint GENERATED ALWAYS AS IDENTITY, k bigint, s text, b bytea, n numeric, j jsonb, a text[], "odd ""name" int,
  twice bigint GENERATED ALWAYS AS (k * 2) STORED, mail text UNIQUE, PRIMARY KEY (id, k));
INSERT INTO t (k, s, b, n, j, a, "odd ""name", mail) SELECT i, CASE i % 5 WHEN 0 THEN NULL WHEN 1 THEN E'tab\tnew\nline\\' ELSE repeat('x', 3000) END,
  decode(to_hex(i), 'escape'), i / 7.0, jsonb_build_object('i', i), ARRAY['a', NULL, 'ä'], i, 'm' || i FROM generate_series(1, 600) i;
CREATE TABLE child (id int PRIMARY KEY, parent bigint) PARTITION BY RANGE (id);
CREATE TABLE child_1 PARTITION OF child FOR VALUES FROM (0) TO (100); CREATE TABLE child_2 PARTITION OF child DEFAULT;
INSERT INTO child SELECT i, i FROM generate_series(1, 300) i;
CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''fired''; END';`)
	lookup := c.request("t", "mail")
	c.home("ALTER TABLE t DROP CONSTRAINT t_mail_key")
	c.shard("t", "k")
	c.shard("child", "id")
	c.must(c.mover.CreateLookup(c.context(), LookupRequest{Request: lookup, Unique: true}, c.notice))
	for _, n := range names {
		on(c.T, n, c.db).run(c.T, "CREATE TRIGGER loud BEFORE INSERT OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION no()")
	}
	sum := "SELECT coalesce(sum(hashtextextended(t::text, 0)::numeric), 0) FROM t"
	total := func() (all string) {
		var parts []string
		for _, n := range names {
			parts = append(parts, c.at(n, sum))
		}
		return c.at("home", "SELECT "+strings.Join(parts, "+"))
	}
	before := total()
	snap, move := c.moveTo("east", "west")
	sizes, err := c.mover.PrepareMove(c.context(), snap, move)
	c.must(err)
	var rows int64
	for _, n := range sizes.Rows {
		rows += n
	}
	if want := number(c.at("east", "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM child) + (SELECT count(*) FROM weft.t_mail)")); rows != want {
		t.Errorf("%d rows to carry, want %d", rows, want)
	}
	first := c.carry(snap, move, pairOf(snap, move, "east", "west", func(b int) bool { return b%3 == 0 }))
	c.check("child", "id", 300)
	second := c.carry(c.store.snap, move, pairOf(c.store.snap, move, "east", "west", func(int) bool { return true }))
	if first+second != rows || first == 0 || second == 0 {
		t.Errorf("carried %d and %d of %d rows", first, second, rows)
	}
	c.must(c.mover.FinishMove(c.context(), c.store.snap, move))
	c.check("child", "id", 300)
	if after := total(); after != before {
		t.Errorf("the sum of all rows is %s, was %s", after, before)
	}
	if left := c.at("east", "SELECT (SELECT count(*) FROM t) + (SELECT count(*) FROM child) + (SELECT count(*) FROM weft.t_mail) + (SELECT count(*) FROM weft.change)"); left != "0" {
		t.Errorf("%s rows are left", left)
	}
	list, err := c.mover.VerifyPlacement(c.context(), Request{Database: c.db, User: "postgres"})
	c.must(err)
	for _, p := range list {
		if p.Misplaced != 0 {
			t.Errorf("%d rows of %s are misplaced: %v", p.Misplaced, p.Table.Name, p.Examples)
		}
	}
	r, err := c.mover.VerifyLookup(c.context(), LookupRequest{Request: lookup, Unique: true}, c.notice)
	if c.must(err); r.Missing+r.Stale+r.Duplicates != 0 {
		t.Errorf("lookup: %+v", r)
	}
	if left := c.each("SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"); fmt.Sprint(left) != "map[east:0 home:0 west:0]" {
		t.Errorf("prepared: %v", left)
	}
}

// TestCarryUndone: a round that is rolled back at any step has changed nothing.
func TestCarryUndone(t *testing.T) {
	c := people(t)
	snap, move := c.moveTo("east", "west")
	pairs := pairOf(snap, move, "east", "west", func(b int) bool { return true })
	for step := range 3 {
		round, err := c.mover.OpenCarriage(c.context(), snap, move, pairs)
		c.must(err)
		if step > 0 {
			c.must(round.Carry())
		}
		if step > 1 {
			c.must(round.Prepare())
		}
		round.Rollback()
		c.check("people", "id", 302)
		if left := c.each("SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"); fmt.Sprint(left) != "map[east:0 home:0 west:0]" {
			t.Errorf("prepared: %v", left)
		}
	}
}

// TestCarriable: a table with a trigger that would see the rows pass is refused, by name.
func TestCarriable(t *testing.T) {
	c := people(t)
	for _, n := range names {
		on(c.T, n, c.db).run(c.T, "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'; CREATE TRIGGER seen AFTER DELETE ON people EXECUTE FUNCTION f(); ALTER TABLE people ENABLE ALWAYS TRIGGER seen")
	}
	snap, move := c.moveTo("east", "west")
	if _, err := c.mover.PrepareMove(c.context(), snap, move); err == nil || !strings.Contains(err.Error(), `trigger "seen" of table people fires for replicated changes`) {
		t.Errorf("got %v", err)
	}
}

// TestCarryByOwner: code of a table whose owner is no superuser runs with the owner's rights while
// rows are carried, and finds what it names by the search_path of the database.
func TestCarryByOwner(t *testing.T) {
	c := newCluster(t)
	role := "carry_owner"
	for _, n := range names {
		on(c.T, n, c.db).run(c.T, fmt.Sprintf(`DO $$ BEGIN CREATE ROLE %[1]s LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$; GRANT CREATE ON SCHEMA public TO %[1]s`, role))
	}
	c.home(`SET ROLE carry_owner;
CREATE FUNCTION humble(v anyelement) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN RAISE EXCEPTION 'a superuser runs this'; END IF;
  BEGIN RESET ROLE; EXCEPTION WHEN OTHERS THEN NULL; END;
  IF (SELECT rolsuper FROM pg_roles WHERE rolname = current_user) THEN RAISE EXCEPTION 'a superuser runs this'; END IF;
  RETURN true; END $$;
CREATE FUNCTION plainly(v text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN public.humble(v) THEN lower(v) END';
CREATE DOMAIN word AS text CHECK (humble(VALUE));
CREATE TABLE o (id bigint GENERATED ALWAYS AS IDENTITY, k bigint, w word, a text[], low text GENERATED ALWAYS AS (plainly(w)) STORED, CHECK (humble(k)), PRIMARY KEY (id, k));
CREATE INDEX ON o (plainly(w)) WHERE humble(k);
INSERT INTO o (k, w, a) SELECT i, E'A\t"\\,' || i, ARRAY['x', NULL, i::text, 'q"(,'] FROM generate_series(1, 300) i; RESET ROLE;`)
	c.shard("o", "k")
	for _, n := range names {
		on(c.T, n, c.db).run(c.T, "CREATE OR REPLACE FUNCTION plainly(v text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT CASE WHEN humble(v) THEN lower(v) END'")
	}
	sum := "SELECT coalesce(sum(hashtextextended(o::text, 0)::numeric), 0) || ' ' || count(*) FROM o"
	before := c.each(sum)
	snap, move := c.moveTo("east", "west")
	sizes, err := c.mover.PrepareMove(c.context(), snap, move)
	c.must(err)
	var rows int64
	for _, n := range sizes.Rows {
		rows += n
	}
	if n := c.carry(snap, move, pairOf(snap, move, "east", "west", func(int) bool { return true })); n != rows || n < 50 {
		t.Errorf("carried %d of %d rows", n, rows)
	}
	after := c.each(sum)
	if strings.HasSuffix(after["east"], " 0") == false || after["home"] != before["home"] {
		t.Errorf("after %v, before %v", after, before)
	}
	total := func(m map[string]string) string {
		return c.at("home", fmt.Sprintf("SELECT %s + %s", strings.Fields(m["east"])[0], strings.Fields(m["west"])[0]))
	}
	if total(after) != total(before) {
		t.Errorf("the sum of all rows is %s, was %s", total(after), total(before))
	}
	if left := c.each("SELECT count(*) FROM pg_proc WHERE proname ~ '^(put|take|count)' AND pronamespace = 'weft'::regnamespace"); fmt.Sprint(left) != "map[east:0 home:0 west:0]" {
		t.Errorf("functions: %v", left)
	}
	// The same code of a superuser's table runs as a superuser: the test can tell.
	for _, n := range names {
		on(c.T, n, c.db).run(c.T, "ALTER TABLE o OWNER TO postgres")
	}
	_, err = c.store.Update(c.context(), func(old *directory.Snapshot) (*directory.Snapshot, error) {
		next := old.Clone()
		next.EndMove(move.ID)
		return next, nil
	})
	c.must(err)
	snap, move = c.moveTo("west", "east")
	round, err := c.mover.OpenCarriage(c.context(), snap, move, pairOf(snap, move, "west", "east", func(int) bool { return true }))
	c.must(err)
	defer round.Rollback()
	if err := round.Carry(); err == nil || !strings.Contains(err.Error(), "a superuser runs this") {
		t.Errorf("got %v", err)
	}
}

// TestCarryRollback: a round whose time is over leaves nothing behind, whatever it has come to.
func TestCarryRollback(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE t (id bigint PRIMARY KEY); INSERT INTO t SELECT generate_series(1, 100)")
	c.shard("t", "id")
	snap, move := c.moveTo("east", "west")
	pairs := pairOf(snap, move, "east", "west", func(int) bool { return true })
	for _, prepared := range []bool{false, true} {
		ctx, cancel := context.WithCancel(c.context())
		round, err := c.mover.OpenCarriage(ctx, snap, move, pairs)
		c.must(err)
		c.must(round.Carry())
		if prepared {
			c.must(round.Prepare())
		}
		cancel()
		round.Rollback()
		// Nothing is locked any more: the connections may take a moment to end.
		for _, n := range names {
			on(t, n, c.db).run(t, "SET lock_timeout = '1s'; LOCK TABLE t IN ACCESS EXCLUSIVE MODE; RESET lock_timeout")
		}
		if left := c.each("SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()"); fmt.Sprint(left) != "map[east:0 home:0 west:0]" {
			t.Errorf("prepared: %v", left)
		}
		c.check("t", "id", 100)
	}
}
