package planner_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/plan"
	"weft/planner"
	"weft/vindex"
)

// cut is a server with a database that has all rows, and some that have their
// parts, as shards do. The first of these is the home shard.
type cut struct {
	testing.TB
	whole  *pgx.Conn
	shards []*pgx.Conn
	env    *planner.Env
}

const cutShards = 3

const cutSchema = `
CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy');
CREATE DOMAIN posint AS int CHECK (VALUE > 0);
CREATE DOMAIN named AS text NOT NULL;
CREATE TYPE pair AS (a int, b text);
CREATE TABLE customers (id bigint PRIMARY KEY, name text, email varchar(40), region int, feeling mood, active boolean, vip boolean NOT NULL DEFAULT false);
CREATE TABLE orders (id bigint, customer_id bigint, product_id int, total numeric(10,2), note text COLLATE "C", placed date, data jsonb, tags text[], PRIMARY KEY (customer_id, id));
CREATE TABLE items (order_id bigint, customer_id bigint, line int, qty posint, price numeric(8,3), pr pair, js json);
CREATE TABLE events (k int PRIMARY KEY, who bigint, at timestamptz, kind char(5), label named, f float8, j json);
CREATE TABLE nulls (k int, x int, y text);
CREATE TABLE products (id int PRIMARY KEY, name text, price money);
CREATE TABLE regions (id int PRIMARY KEY, name text);
CREATE TABLE settings (name text PRIMARY KEY, value text, customer_id bigint);
CREATE VIEW big AS SELECT o.id, o.customer_id, o.total FROM orders o WHERE o.total > 20;
CREATE VIEW per_product AS SELECT p.name, count(*) AS n, sum(o.total) AS total FROM orders o JOIN products p ON p.id = o.product_id GROUP BY p.id;
CREATE VIEW ranked AS SELECT customer_id, total, rank() OVER (ORDER BY total DESC, customer_id, id) AS r FROM orders;
CREATE VIEW known AS SELECT r.id, r.name FROM regions r WHERE r.id < 4;
CREATE VIEW shown(what, is_so) AS SELECT name, value FROM settings;
CREATE VIEW lit(a, b) AS VALUES (1, 'x'), (2, 'y');
CREATE VIEW stacked AS SELECT b.customer_id AS c, k.name FROM big b JOIN customers cu ON cu.id = b.customer_id LEFT JOIN known k ON k.id = cu.region;
CREATE FUNCTION twice(int) RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT $1 * 2';
CREATE FUNCTION loud(customers) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT upper($1.name)$$;
CREATE FUNCTION setting(text) RETURNS text LANGUAGE sql STABLE AS 'SELECT value FROM settings WHERE name = $1';
CREATE AGGREGATE longest(text) (SFUNC = 'text_larger', STYPE = text);
CREATE SEQUENCE numbers;
`

var cutTables = map[string]string{"customers": "id", "orders": "customer_id", "items": "customer_id", "events": "k", "nulls": "k"}

func newCut(t testing.TB) *cut {
	srv := pgtest.Start(t, pgserver.Config{Settings: map[string]string{"statement_timeout": "20s", "jit": "off"}})
	admin := connect(t, srv, "postgres")
	c := &cut{TB: t}
	for _, name := range []string{"whole", "s0", "s1", "s2"} {
		c.exec(admin, "CREATE DATABASE "+name)
		conn := connect(t, srv, name)
		if name == "whole" {
			c.whole = conn
			// So that types have other OIDs than on the shards.
			c.exec(conn, "CREATE TYPE unused AS ENUM ('x')")
		} else {
			c.shards = append(c.shards, conn)
		}
		c.exec(conn, cutSchema)
	}
	schema := load(t, c.shards[0])
	var shards []directory.Shard
	for i := range cutShards {
		shards = append(shards, directory.Shard{Name: fmt.Sprintf("shard-%d", i), Weight: 1})
	}
	snap := directory.New(64, "shard-0", shards)
	for _, name := range []string{"customers", "orders", "items", "events", "nulls"} {
		planner.Declare(t, snap, schema, "sharded "+name+" "+cutTables[name])
	}
	planner.Declare(t, snap, schema, "reference products")
	planner.Declare(t, snap, schema, "reference regions")
	c.env = &planner.Env{Database: "app", Path: []string{"pg_catalog", "public"}, Schema: schema, Tables: planner.NewTables(snap, "app"), Home: "shard-0"}
	c.fill(schema)
	return c
}

func (c *cut) exec(conn *pgx.Conn, sql string) {
	c.Helper()
	if _, err := conn.PgConn().Exec(context.Background(), sql).ReadAll(); err != nil {
		c.Fatalf("%s: %v", sql, err)
	}
}

// row adds a row to everything that has it.
func (c *cut) row(schema *catalog.Schema, table, key string, values ...string) {
	sql := "INSERT INTO " + table + " VALUES (" + strings.Join(values, ", ") + ")"
	c.exec(c.whole, sql)
	switch column := cutTables[table]; {
	case column != "":
		col := schema.Relation(catalog.Name{Schema: "public", Name: table}).Column(column)
		v := datum.Literal([]byte(key))
		if key == "NULL" {
			v.Bytes = nil
		}
		k, err := datum.Column{Type: datum.Type(col.Base), Mod: col.Mod}.Store(v)
		if err != nil {
			c.Fatal(err)
		}
		id, err := c.env.Tables.Find("public", table).Vindex.(vindex.Computed).ID([]datum.Key{k})
		if err != nil {
			c.Fatal(err)
		}
		c.exec(c.shards[int(id.Bucket(6))%cutShards], sql)
	case table == "settings":
		c.exec(c.shards[0], sql)
	default:
		for _, s := range c.shards {
			c.exec(s, sql)
		}
	}
}

func (c *cut) fill(schema *catalog.Schema) {
	num := func(i int) string { return fmt.Sprint(i) }
	pick := func(i int, list ...string) string { return list[i%len(list)] }
	for i := range 12 {
		c.row(schema, "customers", num(i), num(i), pick(i, "'anna'", "'Bert'", "NULL", "'claus'", "'Ädel'"), "'c"+num(i)+"@x.y'", pick(i, "1", "2", "3", "NULL", "9"),
			pick(i, "'sad'", "'happy'", "NULL", "'ok'"), pick(i, "true", "false", "NULL"), pick(i, "true", "false"))
	}
	for i := range 40 {
		cust := (i * 7) % 13
		c.row(schema, "orders", num(cust), num(i), num(cust), pick(i, "1", "2", "3", "4", "NULL"), fmt.Sprintf("%d.5", (i*11)%37), pick(i, "'b'", "'A'", "'a'", "NULL", "'B'"),
			fmt.Sprintf("'2024-01-%02d'", i%28+1), pick(i, `'{"a": 1}'`, `'{"b": [1, 2]}'`, "NULL"), pick(i, "'{x,y}'", "NULL", "'{}'"))
		for l := range i % 3 {
			c.row(schema, "items", num(cust), num(i), num(cust), num(l), num(l+1), fmt.Sprintf("%d.25", l*3), pick(i, "'(1,x)'", "NULL"), pick(i, `'{"z":1}'`, `'[]'`))
		}
	}
	for i := range 15 {
		c.row(schema, "events", num(i), num(i), num(i%5), fmt.Sprintf("'2024-02-%02d 10:00+00'", i%9+1), pick(i, "'a'", "'bb'", "NULL"), "'label"+num(i%3)+"'", fmt.Sprintf("%d.5", i%4), `'{"n":`+num(i)+`}'`)
		c.row(schema, "nulls", pick(i, "NULL", num(i%4)), pick(i, "NULL", num(i%4)), pick(i, "1", "NULL", "2"), pick(i, "'x'", "NULL"))
	}
	for i := 1; i < 5; i++ {
		c.row(schema, "products", "", num(i), pick(i, "'nut'", "'bolt'", "'gear'"), num(i)+".50")
		c.row(schema, "regions", "", num(i), pick(i, "'north'", "'south'"))
		c.row(schema, "settings", "", "'s"+num(i)+"'", "'v"+num(i)+"'", num(i*2))
	}
}

// answer runs a query as its Gather says.
func (c *cut) answer(g *plan.Gather, sql string, literals []parser.Literal) (*pgconn.Result, error) {
	ctx := context.Background()
	home := c.shards[0]
	c.exec(home, "DISCARD TEMP; CREATE TEMP TABLE mine (id int, v text); INSERT INTO mine VALUES (1, 'm'), (3, 'n'), (NULL, 'o')")
	var now string
	if err := home.QueryRow(ctx, "SELECT quote_literal(now()) || '::timestamptz'").Scan(&now); err != nil {
		return nil, err
	}
	types := map[[2]int]string{}
	names := make([][]string, len(g.Pieces))
	fill := &plan.Fill{
		Literal: func(dst []byte, i int) []byte { return append(dst, sql[literals[i].Start:literals[i].End]...) },
		Now:     func(dst []byte) []byte { return append(dst, now...) },
		Input: func(dst []byte, i int) []byte {
			return fmt.Appendf(dst, "(SELECT %s FROM pg_temp.in%d)", strings.Join(names[i], ", "), i)
		},
		Type: func(dst []byte, i, j int) []byte { return append(dst, types[[2]int{i, j}]...) },
	}
	for i := range g.Pieces {
		p := &g.Pieces[i]
		text := string(p.Text.Append(nil, fill))
		d, err := home.PgConn().Prepare(ctx, "", text, nil)
		if err != nil {
			return nil, fmt.Errorf("piece %s: %w", text, err)
		}
		var defs []string
		for j, f := range d.Fields {
			var name string
			if err := home.QueryRow(ctx, "SELECT format_type($1::oid, $2::int)", f.DataTypeOID, f.TypeModifier).Scan(&name); err != nil {
				return nil, err
			}
			types[[2]int{i, j}] = name
			if j < len(p.Types) && p.Types[j] != "" {
				name = p.Types[j]
			}
			if j < len(p.Collations) && p.Collations[j] != "" {
				name += " COLLATE " + p.Collations[j]
			}
			defs = append(defs, fmt.Sprintf("c%d %s", j, name))
			names[i] = append(names[i], fmt.Sprintf("c%d AS %s", j, pgx.Identifier{f.Name}.Sanitize()))
		}
		c.exec(home, fmt.Sprintf("CREATE TEMP TABLE in%d (%s)", i, strings.Join(defs, ", ")))
		for s, conn := range c.shards {
			if p.Where != plan.OnShards && s > 0 {
				continue
			}
			var rows strings.Builder
			if _, err := conn.PgConn().CopyTo(ctx, &rows, "COPY ("+text+") TO STDOUT"); err != nil {
				return nil, fmt.Errorf("piece %s: %w", text, err)
			}
			if _, err := home.PgConn().CopyFrom(ctx, strings.NewReader(rows.String()), fmt.Sprintf("COPY in%d FROM STDIN", i)); err != nil {
				return nil, fmt.Errorf("input %s: %w", text, err)
			}
		}
	}
	text := string(g.Remainder.Append(nil, fill))
	results, err := home.PgConn().Exec(ctx, text).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("remainder %s: %w", text, err)
	}
	return results[0], nil
}

// describe returns the columns and rows of a result, the rows in an order of
// their own if they have none.
func (c *cut) describe(conn *pgx.Conn, r *pgconn.Result, ordered bool) []string {
	var out, rows []string
	for _, f := range r.FieldDescriptions {
		var name string
		if err := conn.QueryRow(context.Background(), "SELECT format_type($1::oid, $2::int)", f.DataTypeOID, f.TypeModifier).Scan(&name); err != nil {
			c.Fatal(err)
		}
		out = append(out, f.Name+" "+name)
	}
	for _, r := range r.Rows {
		rows = append(rows, fmt.Sprintf("%q", r))
	}
	if !ordered {
		slices.Sort(rows)
	}
	return append(out, rows...)
}

// check compares what a plan gives with what one server gives.
func (c *cut) check(env *planner.Env, sql string) {
	c.Helper()
	with := *env
	with.Temporary = map[string]bool{"mine": true}
	var s parser.Scanner
	if !s.Scan([]byte(sql), parser.Options{}) {
		c.Fatalf("does not scan: %s", sql)
	}
	p := planner.Plan(&with, sql, s.Literals, nil)
	if p.Gather() == nil {
		c.Errorf("%s\n%s", sql, p)
		return
	}
	c.exec(c.whole, "DISCARD TEMP; CREATE TEMP TABLE mine (id int, v text); INSERT INTO mine VALUES (1, 'm'), (3, 'n'), (NULL, 'o')")
	for _, conn := range []*pgx.Conn{c.whole, c.shards[0]} {
		c.exec(conn, "SELECT setval('numbers', 1), setseed(0.5)")
	}
	want, err := c.whole.PgConn().Exec(context.Background(), sql).ReadAll()
	var failed *pgconn.PgError
	if err != nil && !errors.As(err, &failed) {
		c.Fatal(err)
	}
	for g := p.Gather(); g != nil; g = g.Otherwise {
		got, err := c.answer(g, sql, s.Literals)
		var e *pgconn.PgError
		switch {
		case failed != nil && errors.As(err, &e) && e.Code == failed.Code:
		case failed != nil:
			c.Errorf("%s\n%sPostgreSQL says %v, weft %v", sql, g, failed, err)
		case err != nil:
			c.Errorf("%s\n%s%v", sql, g, err)
		default:
			ordered := strings.Contains(sql, "/* ordered */")
			x, y := c.describe(c.shards[0], got, ordered), c.describe(c.whole, want[0], ordered)
			if !slices.Equal(x, y) {
				c.Errorf("%s\n%sgives\n%s\none server\n%s", sql, g, strings.Join(x, "\n"), strings.Join(y, "\n"))
			}
		}
	}
}

// TestRemainder asks all kinds of queries, cut as they are and cut into tables
// alone.
func TestRemainder(t *testing.T) {
	c := newCut(t)
	for _, sql := range remainders {
		c.check(c.env, sql)
		c.check(planner.TablesOnly(c.env), sql)
	}
}
