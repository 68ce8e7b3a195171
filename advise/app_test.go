package advise

import (
	"strings"
	"testing"

	"weft/catalog"
	"weft/recording"
)

// app is an application: its schema, its statements, and what is known of its tables.
type app struct {
	ddl        string
	statements []Statement
	tables     map[catalog.Name]TableStats
	recorded   []recording.Transaction
}

func (a *app) add(calls int64, ms float64, text string) {
	a.statements = append(a.statements, Statement{ID: int64(len(a.statements) + 1), Text: text, Calls: calls, Time: ms * float64(calls)})
}

// rows notes how many rows a table has, and the numbers of values of some of its columns.
func (a *app) rows(table string, rows float64, distinct map[string]float64) {
	if a.tables == nil {
		a.tables = map[catalog.Name]TableStats{}
	}
	t := TableStats{Rows: rows, Bytes: rows * 100, Columns: map[string]ColumnStats{}}
	for c, d := range distinct {
		s := ColumnStats{Distinct: d}
		if d > 0 && d <= 100 {
			for range int(d) {
				s.Common = append(s.Common, 1/d)
			}
		}
		t.Columns[c] = s
	}
	a.tables[catalog.Name{Schema: "public", Name: table}] = t
}

func (a *app) advise(t testing.TB, shards int) *Advice {
	t.Helper()
	schema, err := catalog.FromDump(a.ddl)
	if err != nil {
		t.Fatalf("%v\n%s", err, a.ddl)
	}
	advice, err := New(&Input{
		Database: "app", Path: []string{"pg_catalog", "public"}, Schema: schema, Shards: shards, Statements: a.statements, Tables: a.tables, Transactions: a.recorded,
	})
	if err != nil {
		t.Fatal(err)
	}
	return advice
}

// shards reports whether a candidate shards all the columns, given as table.column.
func (c *Candidate) shards(columns ...string) bool {
	for _, want := range columns {
		found := false
		for _, r := range c.Sharded {
			found = found || r.String() == want
		}
		if !found {
			return false
		}
	}
	return true
}

func text(a *Advice) string {
	var b strings.Builder
	if err := a.Print(&b); err != nil {
		return err.Error()
	}
	return b.String()
}

const tpcc = `
CREATE TABLE warehouse (w_id int PRIMARY KEY, w_name text, w_tax numeric(4,4), w_ytd numeric(12,2));
CREATE TABLE district (d_w_id int NOT NULL REFERENCES warehouse(w_id), d_id int NOT NULL, d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int, PRIMARY KEY (d_w_id, d_id));
CREATE TABLE customer (c_w_id int NOT NULL, c_d_id int NOT NULL, c_id int NOT NULL, c_last text, c_first text, c_balance numeric(12,2), c_data text,
  PRIMARY KEY (c_w_id, c_d_id, c_id), FOREIGN KEY (c_w_id, c_d_id) REFERENCES district(d_w_id, d_id));
CREATE TABLE history (h_c_id int NOT NULL, h_c_d_id int NOT NULL, h_c_w_id int NOT NULL, h_d_id int NOT NULL, h_w_id int NOT NULL, h_date timestamp, h_amount numeric(6,2), h_data text,
  FOREIGN KEY (h_w_id, h_d_id) REFERENCES district(d_w_id, d_id));
CREATE TABLE orders (o_w_id int NOT NULL, o_d_id int NOT NULL, o_id int NOT NULL, o_c_id int NOT NULL, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int,
  PRIMARY KEY (o_w_id, o_d_id, o_id), FOREIGN KEY (o_w_id, o_d_id, o_c_id) REFERENCES customer(c_w_id, c_d_id, c_id));
CREATE TABLE new_order (no_w_id int NOT NULL, no_d_id int NOT NULL, no_o_id int NOT NULL, PRIMARY KEY (no_w_id, no_d_id, no_o_id),
  FOREIGN KEY (no_w_id, no_d_id, no_o_id) REFERENCES orders(o_w_id, o_d_id, o_id));
CREATE TABLE item (i_id int PRIMARY KEY, i_name text, i_price numeric(5,2), i_data text);
CREATE TABLE stock (s_w_id int NOT NULL REFERENCES warehouse(w_id), s_i_id int NOT NULL REFERENCES item(i_id), s_quantity int, s_ytd numeric(8,0), s_data text, PRIMARY KEY (s_w_id, s_i_id));
CREATE TABLE order_line (ol_w_id int NOT NULL, ol_d_id int NOT NULL, ol_o_id int NOT NULL, ol_number int NOT NULL, ol_i_id int NOT NULL, ol_supply_w_id int, ol_delivery_d timestamp,
  ol_quantity int, ol_amount numeric(6,2), PRIMARY KEY (ol_w_id, ol_d_id, ol_o_id, ol_number), FOREIGN KEY (ol_w_id, ol_d_id, ol_o_id) REFERENCES orders(o_w_id, o_d_id, o_id));
`

// newTPCC is TPC-C's mix, with 100 warehouses.
func newTPCC() *app {
	a := &app{ddl: tpcc}
	// New-Order
	a.add(45_000, 0.08, "SELECT c_last, c_balance, w_tax FROM customer, warehouse WHERE w_id = $1 AND c_w_id = w_id AND c_d_id = $2 AND c_id = $3")
	a.add(45_000, 0.1, "SELECT d_next_o_id, d_tax FROM district WHERE d_id = $1 AND d_w_id = $2 FOR UPDATE")
	a.add(45_000, 0.12, "UPDATE district SET d_next_o_id = d_next_o_id + $1 WHERE d_id = $2 AND d_w_id = $3")
	a.add(45_000, 0.12, "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt) VALUES ($1, $2, $3, $4, $5, $6)")
	a.add(45_000, 0.08, "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES ($1, $2, $3)")
	a.add(450_000, 0.04, "SELECT i_price, i_name, i_data FROM item WHERE i_id = $1")
	a.add(450_000, 0.06, "SELECT s_quantity, s_data FROM stock WHERE s_i_id = $1 AND s_w_id = $2 FOR UPDATE")
	a.add(450_000, 0.07, "UPDATE stock SET s_quantity = $1 WHERE s_i_id = $2 AND s_w_id = $3")
	a.add(450_000, 0.08, "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
	// Payment
	a.add(43_000, 0.15, "UPDATE warehouse SET w_ytd = w_ytd + $1 WHERE w_id = $2")
	a.add(43_000, 0.12, "UPDATE district SET d_ytd = d_ytd + $1 WHERE d_w_id = $2 AND d_id = $3")
	a.add(26_000, 0.3, "SELECT c_id, c_first, c_balance FROM customer WHERE c_w_id = $1 AND c_d_id = $2 AND c_last = $3 ORDER BY c_first")
	a.add(43_000, 0.1, "UPDATE customer SET c_balance = $1 WHERE c_w_id = $2 AND c_d_id = $3 AND c_id = $4")
	a.add(43_000, 0.06, "INSERT INTO history (h_c_d_id, h_c_w_id, h_c_id, h_d_id, h_w_id, h_date, h_amount, h_data) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)")
	// Order-Status, Delivery, Stock-Level
	a.add(4_000, 0.3, "SELECT o_id, o_carrier_id, o_entry_d FROM orders WHERE o_w_id = $1 AND o_d_id = $2 AND o_c_id = $3 ORDER BY o_id DESC LIMIT $4")
	a.add(4_000, 0.2, "SELECT ol_i_id, ol_quantity, ol_amount FROM order_line WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id = $3")
	a.add(40_000, 0.1, "SELECT no_o_id FROM new_order WHERE no_d_id = $1 AND no_w_id = $2 ORDER BY no_o_id LIMIT $3")
	a.add(40_000, 0.1, "DELETE FROM new_order WHERE no_o_id = $1 AND no_d_id = $2 AND no_w_id = $3")
	a.add(40_000, 0.1, "UPDATE orders SET o_carrier_id = $1 WHERE o_id = $2 AND o_d_id = $3 AND o_w_id = $4")
	a.add(40_000, 0.2, "UPDATE order_line SET ol_delivery_d = $1 WHERE ol_o_id = $2 AND ol_d_id = $3 AND ol_w_id = $4")
	a.add(4_000, 2, "SELECT count(DISTINCT s_i_id) FROM order_line, stock WHERE ol_w_id = $1 AND ol_d_id = $2 AND ol_o_id < $3 AND ol_o_id >= $4 AND s_w_id = $5 AND s_i_id = ol_i_id AND s_quantity < $6")
	a.rows("warehouse", 100, map[string]float64{"w_id": -1})
	a.rows("district", 1000, map[string]float64{"d_w_id": 100, "d_id": 10})
	a.rows("customer", 3e6, map[string]float64{"c_w_id": 100, "c_d_id": 10, "c_id": 3000})
	a.rows("orders", 3e6, map[string]float64{"o_w_id": 100, "o_d_id": 10, "o_id": 3000, "o_c_id": 3000})
	a.rows("order_line", 3e7, map[string]float64{"ol_w_id": 100, "ol_d_id": 10, "ol_o_id": 3000, "ol_i_id": 1e5, "ol_number": 15, "ol_supply_w_id": 100})
	a.rows("item", 1e5, map[string]float64{"i_id": -1})
	a.rows("stock", 1e7, map[string]float64{"s_w_id": 100, "s_i_id": 1e5})
	a.rows("new_order", 9e5, map[string]float64{"no_w_id": 100, "no_d_id": 10, "no_o_id": 900})
	a.rows("history", 3e6, map[string]float64{"h_w_id": 100, "h_d_id": 10, "h_c_id": 3000, "h_c_w_id": 100, "h_c_d_id": 10})
	return a
}

// TPC-C goes by warehouse: everything of a warehouse is on one shard, and items are everywhere.
func TestTPCC(t *testing.T) {
	a := newTPCC().advise(t, 8)
	best := a.Candidates[0]
	t.Log("\n" + text(a))
	if !best.shards("warehouse.w_id", "district.d_w_id", "customer.c_w_id", "orders.o_w_id", "new_order.no_w_id", "stock.s_w_id", "order_line.ol_w_id", "history.h_w_id") {
		t.Errorf("sharded %v", best.Sharded)
	}
	if strings.Join(best.Reference, " ") != "item" || len(best.Home) != 0 || len(best.Refused) != 0 || best.OneShard < 0.96 || best.Key != "warehouse.w_id = *.c_w_id, *.d_w_id, …" || best.WritesOneShard < 0.999 || len(best.Obstacles) > 0 {
		t.Errorf("%+v", best)
	}
}

const demo = `
CREATE TABLE customers (id bigserial PRIMARY KEY, name text NOT NULL, country text NOT NULL, joined timestamptz NOT NULL DEFAULT now());
CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, price numeric(10,2) NOT NULL);
CREATE TABLE orders (id bigserial PRIMARY KEY, customer_id bigint NOT NULL REFERENCES customers(id), placed timestamptz NOT NULL DEFAULT now(),
  status text NOT NULL DEFAULT 'open', UNIQUE (customer_id, id));
CREATE TABLE order_items (customer_id bigint NOT NULL, order_id bigint NOT NULL, product_id int NOT NULL REFERENCES products(id), quantity int NOT NULL,
  PRIMARY KEY (customer_id, order_id, product_id), FOREIGN KEY (customer_id, order_id) REFERENCES orders(customer_id, id));
CREATE TABLE jobs (id bigserial PRIMARY KEY, kind text NOT NULL, done bool NOT NULL DEFAULT false);
`

func newDemo() *app {
	a := &app{ddl: demo}
	a.add(50_000, 0.1, "SELECT id, name, country FROM customers WHERE id = $1")
	a.add(40_000, 0.3, "SELECT o.id, o.status, sum(i.quantity * p.price) FROM orders o JOIN order_items i ON i.customer_id = o.customer_id AND i.order_id = o.id JOIN products p ON p.id = i.product_id WHERE o.customer_id = $1 GROUP BY o.id, o.status")
	a.add(20_000, 0.2, "INSERT INTO orders (customer_id, status) VALUES ($1, $2) RETURNING id")
	a.add(40_000, 0.2, "INSERT INTO order_items (customer_id, order_id, product_id, quantity) VALUES ($1, $2, $3, $4)")
	a.add(10_000, 0.2, "UPDATE orders SET status = $1 WHERE customer_id = $2 AND id = $3")
	a.add(50_000, 0.05, "SELECT name, price FROM products WHERE id = $1")
	a.add(100, 8, "SELECT status, count(*) FROM orders GROUP BY status")
	a.add(500, 1, "SELECT id, customer_id FROM orders WHERE status = $1 ORDER BY placed LIMIT $2")
	a.add(2_000, 0.2, "UPDATE jobs SET done = $1 WHERE id = $2")
	a.rows("customers", 1e5, map[string]float64{"id": -1, "country": 4})
	a.rows("products", 50, map[string]float64{"id": -1})
	a.rows("orders", 5e5, map[string]float64{"id": -1, "customer_id": 1e5, "status": 3})
	a.rows("order_items", 1e6, map[string]float64{"customer_id": 1e5, "order_id": 5e5, "product_id": 50})
	a.rows("jobs", 2e5, map[string]float64{"id": -1, "kind": 3})
	return a
}

// The demo of weft dev goes by customer.
func TestDemo(t *testing.T) {
	a := newDemo().advise(t, 4)
	best := a.Candidates[0]
	t.Log("\n" + text(a))
	if !best.shards("customers.id", "orders.customer_id", "order_items.customer_id") || len(best.Sharded) != 3 {
		t.Errorf("sharded %v", best.Sharded)
	}
	if strings.Join(best.Reference, " ") != "products" || strings.Join(best.Home, " ") != "jobs" || len(best.Refused) > 0 {
		t.Errorf("reference %v, home %v, refused %v", best.Reference, best.Home, best.Refused)
	}
	if best.Scattered[0].ID != 7 || len(best.Scattered) != 2 {
		t.Errorf("scattered %+v", best.Scattered)
	}
	want := "SELECT weft.shard_table('customers', 'id');\nSELECT weft.reference_table('products');\nSELECT weft.shard_table('orders', 'customer_id');\nSELECT weft.shard_table('order_items', 'customer_id');"
	if got := strings.Join(best.SQL, "\n"); len(best.SQL) != 4 || !sameLines(got, want) || strings.Index(got, "orders") > strings.Index(got, "order_items") {
		t.Errorf("to run:\n%s", got)
	}
}

func sameLines(a, b string) bool {
	for line := range strings.Lines(b) {
		if !strings.Contains(a, strings.TrimSpace(line)) {
			return false
		}
	}
	return true
}

const social = `
CREATE TABLE users (id bigserial PRIMARY KEY, handle text NOT NULL, joined timestamptz NOT NULL);
CREATE TABLE follows (follower_id bigint NOT NULL REFERENCES users(id), followee_id bigint NOT NULL REFERENCES users(id), since timestamptz NOT NULL, PRIMARY KEY (follower_id, followee_id));
CREATE TABLE posts (id bigserial, author_id bigint NOT NULL REFERENCES users(id), body text NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (author_id, id));
CREATE TABLE feed (user_id bigint NOT NULL REFERENCES users(id), post_id bigint NOT NULL, author_id bigint NOT NULL, at timestamptz NOT NULL, PRIMARY KEY (user_id, post_id));
`

func newSocial() *app {
	a := &app{ddl: social}
	a.add(100_000, 0.1, "SELECT handle, joined FROM users WHERE id = $1")
	a.add(80_000, 0.4, "SELECT post_id, author_id, at FROM feed WHERE user_id = $1 ORDER BY at DESC LIMIT $2")
	a.add(30_000, 0.3, "SELECT id, body, at FROM posts WHERE author_id = $1 ORDER BY at DESC LIMIT $2")
	a.add(20_000, 0.3, "SELECT followee_id FROM follows WHERE follower_id = $1")
	a.add(3_000, 0.4, "SELECT follower_id FROM follows WHERE followee_id = $1")
	a.add(5_000, 0.2, "INSERT INTO posts (author_id, body, at) VALUES ($1, $2, $3)")
	a.add(50_000, 0.1, "INSERT INTO feed (user_id, post_id, author_id, at) VALUES ($1, $2, $3, $4)")
	a.add(2_000, 0.2, "INSERT INTO follows (follower_id, followee_id, since) VALUES ($1, $2, $3)")
	a.add(50, 20, "SELECT count(*) FROM posts WHERE at > $1")
	a.rows("users", 1e6, map[string]float64{"id": -1, "handle": -1})
	a.rows("follows", 1e8, map[string]float64{"follower_id": 9e5, "followee_id": 7e5})
	a.rows("posts", 1e7, map[string]float64{"id": -1, "author_id": 5e5})
	a.rows("feed", 1e9, map[string]float64{"user_id": 1e6, "post_id": 1e7, "author_id": 5e5})
	return a
}

// A social graph goes by user, and follows by the one who follows: that is asked for more often.
func TestSocialGraph(t *testing.T) {
	a := newSocial().advise(t, 8)
	best := a.Candidates[0]
	t.Log("\n" + text(a))
	if !best.shards("users.id", "follows.follower_id", "posts.author_id", "feed.user_id") || len(best.Refused) > 0 {
		t.Errorf("sharded %v, refused %v, in the way %v", best.Sharded, best.Refused, best.Obstacles)
	}
	if len(best.Obstacles) != 1 || !strings.Contains(best.Obstacles[0], "follows_followee_id_fkey") {
		t.Errorf("in the way: %v", best.Obstacles)
	}
	// Without foreign keys the names of columns tell the same.
	bare := newSocial()
	bare.ddl = strings.ReplaceAll(bare.ddl, " REFERENCES users(id)", "")
	if best := bare.advise(t, 8).Candidates[0]; !best.shards("feed.user_id") {
		t.Errorf("without foreign keys: %v", best.Sharded)
	}
}
