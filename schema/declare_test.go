package schema

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
)

const orm = `CREATE TABLE customers (id bigserial PRIMARY KEY, name text);
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id bigint REFERENCES customers(id), note text);
CREATE TABLE products (id int PRIMARY KEY, name text);
CREATE TABLE items (id bigserial, customer_id bigint, order_id bigint, product_id int REFERENCES products, PRIMARY KEY (customer_id, id));
`

// TestDeclareEmpty: a table without rows.
func TestDeclareEmpty(t *testing.T) {
	c := newCluster(t)
	c.home(orm)
	c.shard("customers", "id")
	if !c.check("customers", "id", 0) {
		t.Error("not declared")
	}
	if v := c.store.snap.Schemas[c.db]; v != 1 {
		t.Errorf("schema version %d", v)
	}
	c.shard("orders", "customer_id")
	if got := c.each("SELECT count(*) FROM pg_constraint WHERE conname = 'orders_customer_id_fkey'"); got["home"] != "1" || got["east"] != "1" || got["west"] != "1" {
		t.Errorf("foreign keys: %v", got)
	}
	if told := c.told(); !strings.Contains(told, `primary key "orders_pkey" does not contain the shard key`) {
		t.Errorf("told:\n%s", told)
	}
	c.reference("products")
	c.shard("items", "customer_id")
	c.check("items", "customer_id", 0)
	for _, table := range []string{"items", "products", "orders", "customers"} {
		c.unshard(table)
		c.check(table, "", 0)
	}
	if len(c.store.snap.Tables) != 0 {
		t.Errorf("%+v", c.store.snap.Tables)
	}
}

// TestDeclareRows moves 50,000 rows there and back. Values that text could
// spoil and types whose OIDs differ between servers come through unchanged.
func TestDeclareRows(t *testing.T) {
	c := newCluster(t)
	for _, s := range []string{"east", "west"} { // so that OIDs differ
		on(t, s, c.db).run(t, "CREATE TYPE other AS ENUM ('x'); CREATE TYPE another AS (a int)")
	}
	const n = 50000
	c.home(`CREATE TYPE mood AS ENUM ('sad', 'happy'); CREATE TYPE pair AS (m mood, t text);
CREATE TABLE t (id bigint, customer_id int, s text, f float8, m mood[], p pair, b bytea, at timestamptz, j jsonb, twice bigint GENERATED ALWAYS AS (id * 2) STORED);
CREATE FUNCTION no() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE ''a trigger fires''; END';
INSERT INTO t SELECT i, i % 1000, E'tab\t nl\n bs\\ ' || i, i / 3.0, ARRAY['sad', NULL]::mood[], ROW('happy', 'a,"b\')::pair, decode(md5(i::text), 'hex'), now() + i * interval '1 ms', '{"a": "\n"}' FROM generate_series(1, 50000) i;
UPDATE t SET s = NULL WHERE id % 7 = 0; UPDATE t SET s = '\N' WHERE id % 11 = 0; UPDATE t SET customer_id = NULL WHERE id % 13 = 0;
CREATE TRIGGER no BEFORE INSERT OR DELETE ON t FOR EACH ROW EXECUTE FUNCTION no();
CREATE TRIGGER no2 AFTER DELETE ON t EXECUTE FUNCTION no(); ALTER TABLE t ENABLE ALWAYS TRIGGER no2;
ALTER TABLE t ENABLE ROW LEVEL SECURITY; ALTER TABLE t FORCE ROW LEVEL SECURITY`)
	sum := "SELECT count(*) || ' ' || coalesce(sum(hashtextextended(t::text, 0)), 0) FROM t"
	before := c.each(sum)["home"]
	dump := on(t, "home", c.db).dump(t)
	c.shard("t", "customer_id")
	if told := c.told(); !strings.Contains(told, "of 50000 rows will move from the home shard to 2 others") {
		t.Errorf("told:\n%s", told)
	}
	if !c.check("t", "customer_id", n) {
		t.Error("not declared")
	}
	for shard, s := range c.each("SELECT count(*) FROM t") {
		if number(s) < 10000 {
			t.Errorf("%s has %s rows", shard, s)
		}
	}
	if got := c.each("SELECT string_agg(tgenabled::text || ' ' || tgname, ',' ORDER BY tgname) || ' ' || (SELECT relforcerowsecurity::text FROM pg_class WHERE relname = 't') FROM pg_trigger WHERE NOT tgisinternal"); got["home"] != "A  weft guard,O no,A no2,A ~weft guard true" || got["east"] != got["home"] {
		t.Errorf("triggers: %v", got)
	}
	c.unshard("t")
	c.check("t", "", n)
	if after := c.each(sum)["home"]; after != before {
		t.Errorf("%s became %s", before, after)
	}
	c.home("DROP EVENT TRIGGER weft_guard_altered; DROP SCHEMA weft CASCADE") // weft's own
	if now := on(t, "home", c.db).dump(t); now != dump {
		t.Errorf("the definition changed: %s", firstDifference(dump, now))
	}
}

// TestReference copies all rows to all shards.
func TestReference(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE r (id int PRIMARY KEY, s text); INSERT INTO r SELECT i, 'x' || i FROM generate_series(1, 2000) i; CREATE TABLE uses (id int, r int REFERENCES r); INSERT INTO uses VALUES (1, 1)")
	c.reference("r")
	c.check("r", "", 2000)
	if n := c.each("SELECT count(*) FROM pg_constraint WHERE conname = 'uses_r_fkey'")["home"]; n != "1" {
		t.Error("the home table's foreign key is gone")
	}
	err := c.mover.Reference(c.context(), c.request("r", ""), c.notice)
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.DuplicateObject {
		t.Errorf("the second time: %v", err)
	}
	c.unshard("r")
	c.check("r", "", 2000)
}

// TestForeignKeysWait: a home table's foreign key goes when it has rows, and
// comes back with its declaration, or with the other table's return.
func TestForeignKeysWait(t *testing.T) {
	c := newCluster(t)
	c.home(orm + "INSERT INTO customers(name) SELECT 'c' || i FROM generate_series(1, 500) i; INSERT INTO orders(customer_id) SELECT 1 + i % 500 FROM generate_series(1, 2000) i")
	fks := "SELECT count(*) FROM pg_constraint WHERE conname = 'orders_customer_id_fkey' AND convalidated"
	c.shard("customers", "id")
	if told := c.told(); !strings.Contains(told, `foreign key "orders_customer_id_fkey" of orders is taken off`) || !strings.Contains(told, "SELECT weft.shard_table('orders', 'customer_id');") {
		t.Errorf("told:\n%s", told)
	}
	if fk := c.table("customers").ForeignKeys; len(fk) != 1 || c.each(fks)["home"] != "0" {
		t.Fatalf("%+v", fk)
	}
	var e *pgerr.Error
	if err := c.mover.Shard(c.context(), c.request("orders", "note"), c.notice); !errors.As(err, &e) || e.Code != pgerr.InvalidForeignKey {
		t.Errorf("the one that waits would cross shards: %v", err)
	}
	if err := c.mover.Reference(c.context(), c.request("orders", ""), c.notice); !errors.As(err, &e) || e.Code != pgerr.InvalidForeignKey {
		t.Errorf("the one that waits would cross shards: %v", err)
	}
	c.unshard("customers")
	c.check("customers", "", 500)
	if n := c.each(fks)["home"]; n != "1" {
		t.Errorf("not back: %s", n)
	}
	c.shard("customers", "id")
	c.shard("orders", "customer_id")
	c.check("customers", "id", 500)
	c.check("orders", "customer_id", 2000)
	if got := c.each(fks); got["home"] != "1" || got["east"] != "1" || got["west"] != "1" {
		t.Errorf("%v", got)
	}
	if fk := c.table("customers").ForeignKeys; len(fk) != 0 {
		t.Errorf("still waiting: %+v", fk)
	}
	err := c.mover.Unshard(c.context(), c.request("customers", ""), c.notice)
	if !errors.As(err, &e) || e.Code != pgerr.ObjectInUse {
		t.Errorf("%v", err)
	}
	c.unshard("orders")
	c.check("orders", "", 2000)
	if fk := c.table("customers").ForeignKeys; len(fk) != 1 || c.each(fks)["home"] != "0" {
		t.Errorf("%+v", fk)
	}
	c.unshard("customers")
	if n := c.each(fks)["home"]; n != "1" {
		t.Errorf("not back: %s", n)
	}
}

// TestPartitions: a partitioned table goes with all its partitions.
func TestPartitions(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TABLE e (id bigint, tenant bigint, day date, PRIMARY KEY (tenant, day, id)) PARTITION BY RANGE (day);
CREATE TABLE e24 PARTITION OF e FOR VALUES FROM ('2024-01-01') TO ('2025-01-01'); CREATE TABLE e25 PARTITION OF e DEFAULT;
INSERT INTO e SELECT i, i % 100, '2024-01-01'::date + i % 700 FROM generate_series(1, 3000) i`)
	c.shard("e", "tenant")
	c.check("e", "tenant", 3000)
	if on(t, "home", c.db).dump(t) != on(t, "east", c.db).dump(t) {
		t.Error("definitions differ")
	}
	c.unshard("e")
	c.check("e", "", 3000)
	c.home("DROP TABLE e")
}

// TestViews: a view lives where all its tables do.
func TestViews(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TABLE a (id bigint PRIMARY KEY); CREATE TABLE b (id bigint PRIMARY KEY); CREATE TABLE h (id bigint);
CREATE FUNCTION f(bigint) RETURNS bigint LANGUAGE sql AS 'SELECT $1'; CREATE FUNCTION reads_h() RETURNS bigint LANGUAGE sql AS 'SELECT id FROM h';
CREATE VIEW va WITH (security_barrier) AS SELECT f(id) AS id FROM a; CREATE VIEW vab AS SELECT va.id FROM va JOIN b USING (id); CREATE VIEW vah AS SELECT 1 AS x FROM a, h; CREATE VIEW vr AS SELECT reads_h() FROM a;
CREATE VIEW vt AS SELECT id FROM a; CREATE RULE r AS ON INSERT TO vt DO INSTEAD NOTHING; COMMENT ON VIEW va IS 'va'; GRANT SELECT ON va TO PUBLIC`)
	list := "SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relkind = 'v' AND relname LIKE 'v%' AND relnamespace = 'public'::regnamespace"
	c.shard("a", "id")
	if got := c.each(list); got["east"] != "va" {
		t.Errorf("%v", got)
	}
	if told := c.told(); !strings.Contains(told, "view public.vt is not copied") || !strings.Contains(told, "view public.vr is not copied") {
		t.Errorf("told:\n%s", told)
	}
	c.shard("b", "id")
	if got := c.each(list); got["east"] != "va,vab" {
		t.Errorf("%v", got)
	}
	c.unshard("a")
	if got := c.each(list); got["east"] != "" || got["home"] != "va,vab,vah,vr,vt" {
		t.Errorf("%v", got)
	}
}

// TestLookup: pinned values go to their shard.
func TestLookup(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE tenants (v int PRIMARY KEY); CREATE TABLE users (id int, v int, PRIMARY KEY (id, v)); INSERT INTO users SELECT i, i % 50 FROM generate_series(1, 1000) i")
	req := c.request("tenants", "v")
	req.Vindex = directory.Vindex{Kind: "lookup_unique", Name: "dir"}
	c.must(c.mover.Shard(c.context(), req, c.notice))
	c.must(c.mover.Pin(c.context(), c.db, "postgres", "dir", "7", "west"))
	c.must(c.mover.Pin(c.context(), c.db, "postgres", "dir", "8", "home"))
	req = c.request("users", "v")
	req.Vindex = directory.Vindex{Kind: "lookup_unique", Name: "dir"}
	c.must(c.mover.Shard(c.context(), req, c.notice))
	where := c.each("SELECT string_agg(DISTINCT v::text, ',') FROM users WHERE v IN (7, 8)")
	if where["west"] != "7" || where["home"] != "8" || where["east"] != "" {
		t.Errorf("%v", where)
	}
	for _, tc := range []struct{ lookup, value, shard, code string }{
		{"dir", "9", "west", pgerr.ObjectInUse},
		{"dir", "7", "east", pgerr.ObjectInUse},
		{"dir", "x", "east", pgerr.InvalidParameterValue},
		{"dir", "99", "south", pgerr.UndefinedObject},
		{"nothing", "99", "east", pgerr.UndefinedObject},
	} {
		var e *pgerr.Error
		if err := c.mover.Pin(c.context(), c.db, "postgres", tc.lookup, tc.value, tc.shard); !errors.As(err, &e) || e.Code != tc.code {
			t.Errorf("%+v: %v", tc, err)
		}
	}
	c.unshard("users")
	c.check("users", "", 1000)
}

// TestNames: names are quoted wherever they go.
func TestNames(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE SCHEMA "Odd ""schema"; CREATE TABLE "Odd ""schema"."T a'b" ("I d" bigserial PRIMARY KEY, "K""'k" varchar(20), "x y" money, UNIQUE ("K""'k", "x y"));
INSERT INTO "Odd ""schema"."T a'b" ("K""'k", "x y") SELECT 'k' || i, i FROM generate_series(1, 400) i;
CREATE TABLE "Odd ""schema"."Ref er" (r bigint REFERENCES "Odd ""schema"."T a'b"); INSERT INTO "Odd ""schema"."Ref er" VALUES (1)`)
	req := c.request("", "")
	req.Table = catalog.Name{Schema: `Odd "schema`, Name: "T a'b"}
	req.Columns = []string{`K"'k`}
	c.must(c.mover.Shard(c.context(), req, c.notice))
	var n int64
	for _, s := range c.each(`SELECT count(*) FROM "Odd ""schema"."T a'b"`) {
		n += number(s)
	}
	if n != 400 {
		t.Errorf("%d rows", n)
	}
	if e, h := on(t, "east", c.db), on(t, "home", c.db); strings.Contains(e.dump(t), "T a'b") != strings.Contains(h.dump(t), "T a'b") {
		t.Error("not there")
	}
	c.must(c.mover.Unshard(c.context(), req, c.notice))
	if got := c.each(`SELECT count(*) || ' ' || sum("x y"::numeric) FROM "Odd ""schema"."T a'b"`); got["home"] != "400 80200.00" {
		t.Errorf("%v", got)
	}
}

// TestTogether: of several who declare a table at once, one does.
func TestTogether(t *testing.T) {
	c := newCluster(t)
	c.home("CREATE TABLE t AS SELECT i AS id, i AS k, i AS l FROM generate_series(1, 1000) i; CREATE TABLE u AS SELECT i AS id, i AS k FROM generate_series(1, 1000) i")
	var wg sync.WaitGroup
	var mu sync.Mutex
	var done []string
	silent := func(*pgerr.Error) {}
	for i, request := range []Request{c.request("t", "k"), c.request("t", "l"), c.request("t", "k"), c.request("u", "k")} {
		m := c.proxy(fmt.Sprintf("p%d", i))
		wg.Go(func() {
			err := m.Shard(c.context(), request, silent)
			var e *pgerr.Error
			if err == nil {
				mu.Lock()
				done = append(done, request.Table.Name)
				mu.Unlock()
			} else if !errors.As(err, &e) || e.Code != pgerr.ObjectInUse && e.Code != pgerr.DuplicateObject {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
	slices.Sort(done)
	if !slices.Equal(done, []string{"t", "u"}) {
		t.Errorf("declared: %q", done)
	}
	c.check("t", c.table("t").Columns[0].Name, 1000)
	c.check("u", "k", 1000)
}
