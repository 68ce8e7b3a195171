package survey

import (
	"bytes"
	"strings"
	"testing"

	"weft/catalog"
	"weft/directory"
	"weft/planner"
)

const tables = `CREATE TABLE customers (id bigint PRIMARY KEY, name text);
CREATE TABLE orders (customer_id bigint NOT NULL, id bigint NOT NULL, status text, PRIMARY KEY (customer_id, id));
CREATE TABLE products (id int PRIMARY KEY, price int);
CREATE TABLE notes (id int, body text);`

// sample returns a survey of four shards with two sharded tables and a reference table.
func sample(t *testing.T) *Survey {
	t.Helper()
	schema, err := catalog.FromDump(tables)
	if err != nil {
		t.Fatal(err)
	}
	snap := directory.New(64, "a", []directory.Shard{{Name: "a", Weight: 1}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}, {Name: "d", Weight: 1}})
	by := func(table, column string) {
		snap.PutTable(directory.Table{
			Database: "app", Schema: "public", Name: table, Kind: directory.Sharded, Vindex: directory.Vindex{Kind: "hash"},
			Columns: []directory.Column{{Name: column, Type: 20, TypeName: "bigint", Mod: -1}},
		})
	}
	by("customers", "id")
	by("orders", "customer_id")
	snap.PutTable(directory.Table{Database: "app", Schema: "public", Name: "products", Kind: directory.Reference})
	return New(&planner.Env{
		Database: "app", Path: []string{"pg_catalog", "public"}, Schema: schema, Tables: planner.NewTables(snap, "app"), Home: "a", SharedRoles: true,
	}, snap)
}

// What becomes of a text whose values are not known, as pg_stat_statements has it.
func TestClasses(t *testing.T) {
	for _, c := range []struct {
		text   string
		want   Class
		shards int
		reason string
	}{
		{"SELECT * FROM orders WHERE customer_id = $1", One, 1, ""},
		{"SELECT * FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.customer_id = $1 AND c.name = $2", One, 1, ""},
		{"SELECT * FROM orders o, customers c WHERE o.customer_id = $1 AND c.id = $1", One, 1, ""},
		{"SELECT * FROM orders o, customers c WHERE o.customer_id = $1 AND c.id = $2", Several, 2, "it has 2 values of the key"},
		{"SELECT * FROM orders WHERE customer_id IN ($1, $2, $3)", Several, 3, "it has 3 values of the key"},
		{"SELECT * FROM orders WHERE customer_id IN ($1 /*, ... */)", Several, 4, "its list of keys may have any length"},
		{"SELECT * FROM orders WHERE customer_id = ANY ($1)", Several, 4, "its list of keys may have any length"},
		{"SELECT * FROM orders WHERE id = $1", Several, 4, "nothing says the key of orders"},
		{"INSERT INTO orders VALUES ($1, $2, $3)", One, 1, ""},
		{"INSERT INTO orders VALUES ($1, $2, $3), ($4, $5, $6)", Several, 2, "it has 2 values of the key"},
		{"UPDATE orders SET status = $1 WHERE customer_id = $2 AND id = $3", One, 1, ""},
		{"SELECT * FROM orders WHERE customer_id = 7", One, 1, ""},
		{"SELECT price FROM products WHERE id = $1", One, 1, ""},
		{"SELECT body FROM notes WHERE id = $1", Home, 1, ""},
		{"SELECT now() - interval $1, extract($2 from now())", Free, 0, ""},
		{"BEGIN", Free, 0, ""},
		{"WITH x AS (SELECT oid FROM pg_class) SELECT * FROM x JOIN pg_catalog.pg_index ON indrelid = x.oid", Free, 0, ""},
		{"SELECT * FROM pg_class, orders WHERE customer_id = $1", Several, 4, "not together on one shard"},
		{"SET application_name = 'x'", Free, 0, ""},
		{"ALTER TABLE orders ADD COLUMN extra int", Several, 4, "it runs on every shard"},
		{"SELECT ctid FROM orders", Refused, 0, "system column ctid"},
		{"SELECT * FROM orders WHERE customer_id = $1 FOR UPDATE", One, 1, ""},
		{"SELECT * FROM ordres WHERE customer_id = $1", Missing, 0, `relation "ordres" does not exist`},
		{"SELECT * FROM orders JOIN shop.ordres USING (id)", Missing, 0, `relation "shop.ordres" does not exist`},
		{"SELEC 1", Unread, 0, `syntax error at or near "SELEC"`},
		{"SELECT 'open", Unread, 0, "unterminated"},
	} {
		s := sample(t)
		s.Add(Execution{Text: c.text, Calls: 1})
		st := s.Report().Statements[0]
		if st.Class != c.want || st.Shards != c.shards || !strings.Contains(st.Reason, c.reason) || (c.reason == "") != (st.Reason == "") {
			t.Errorf("%s: %s on %d (%s), want %s on %d (%s)", c.text, st.Class, st.Shards, st.Reason, c.want, c.shards, c.reason)
		}
	}
}

// Values that are known lead to their shards, one execution at a time; what a file creates is there
// for what follows.
func TestValues(t *testing.T) {
	s := sample(t)
	for i := range 40 {
		s.Add(Execution{Text: "SELECT * FROM orders WHERE customer_id IN (1, " + strings.Repeat("1", 1+i%5) + ")", Calls: 1})
	}
	s.Add(Execution{Text: "SELECT * FROM orders WHERE customer_id = $1", Params: [][]byte{[]byte("7")}, Calls: 3, Time: 1.5})
	s.Add(Execution{Text: "CREATE TEMPORARY TABLE scratch (n int)", Calls: 1})
	s.Add(Execution{Text: "SELECT n FROM scratch", Calls: 1})
	r := s.Report()
	if st := r.Statements[0]; st.Class != Several || st.Shards != 2 || st.Calls != 40 || st.calls[1] == 0 || st.calls[3] == 0 || st.Text != "SELECT * FROM orders WHERE customer_id IN ($1, $2)" {
		t.Errorf("%+v", st)
	}
	if n := r.Of(Missing).Statements; n != 0 {
		t.Errorf("%d statements name a missing table", n)
	}
	if one, several := r.Of(One), r.Of(Several); one.Calls+several.Calls != 43 || one.CallsShare+several.CallsShare+r.Of(Home).CallsShare < 0.999 || one.Time != 1.5 {
		t.Errorf("%+v %+v", one, several)
	}
}

func TestPrint(t *testing.T) {
	s := sample(t)
	for _, x := range []Execution{
		{Text: "SELECT * FROM orders WHERE customer_id = $1", Calls: 940, Time: 1880},
		{Text: "SELECT body FROM notes", Calls: 10, Time: 20},
		{Text: "SELECT count(*) FROM orders", Calls: 40, Time: 900},
		{Text: "SELECT ctid FROM orders", Calls: 10, Time: 200},
		{Text: "COMMIT", Calls: 1000},
		{Text: "SELEC 1", Calls: 1},
	} {
		s.Add(x)
	}
	var out bytes.Buffer
	if err := s.Report().Print(&out); err != nil {
		t.Fatal(err)
	}
	const want = `CLASS           SHARDS  CALLS      MS  STATEMENT
not parsed                  1     0.0  SELEC $1
refused                    10   200.0  SELECT ctid FROM orders
several shards       4     40   900.0  SELECT count(*) FROM orders
home shard           1     10    20.0  SELECT body FROM notes
one shard            1    940  1880.0  SELECT * FROM orders WHERE customer_id = $1
no table                 1000     0.0  COMMIT

not parsed:
  syntax error at or near "SELEC" (1 statement, 1 call)

refused:
  system column ctid of a table on several shards is not supported (1 statement, 10 calls)
    hint: It is each shard's own.

several shards:
  nothing says the key of orders (1 statement, 40 calls)

SUMMARY                 STATEMENTS          CALLS              MS
no table                         1           1000             0.0
one shard                        2  50.0 %    950  95.0 %  1900.0  63.3 %
  of these, home shard           1  25.0 %     10   1.0 %    20.0   0.7 %
several shards                   1  25.0 %     40   4.0 %   900.0  30.0 %
refused                          1  25.0 %     10   1.0 %   200.0   6.7 %
not parsed                       1              1             0.0
`
	if out.String() != want {
		t.Errorf("printed\n%swant\n%s", out.String(), want)
	}
}
