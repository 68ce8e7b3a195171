package dev

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// demoTables are an application's tables as an ORM would make them, with some
// rows: made as on one server, and declared afterwards.
const demoTables = `
CREATE TABLE customers (
  id bigserial PRIMARY KEY,
  name text NOT NULL,
  country text NOT NULL,
  joined timestamptz NOT NULL DEFAULT now()
);
CREATE TABLE products (
  id int PRIMARY KEY,
  name text NOT NULL,
  price numeric(10,2) NOT NULL
);
CREATE TABLE orders (
  id bigserial PRIMARY KEY,
  customer_id bigint NOT NULL REFERENCES customers(id),
  placed timestamptz NOT NULL DEFAULT now(),
  status text NOT NULL DEFAULT 'open',
  UNIQUE (customer_id, id)
);
CREATE TABLE order_items (
  customer_id bigint NOT NULL,
  order_id bigint NOT NULL,
  product_id int NOT NULL REFERENCES products(id),
  quantity int NOT NULL,
  PRIMARY KEY (customer_id, order_id, product_id),
  FOREIGN KEY (customer_id, order_id) REFERENCES orders(customer_id, id)
);
INSERT INTO customers (name, country)
  SELECT 'customer ' || i, (ARRAY['de','fr','jp','us'])[1 + i % 4] FROM generate_series(1, 1000) i;
INSERT INTO products SELECT i, 'product ' || i, i * 1.25 FROM generate_series(1, 50) i;
INSERT INTO orders (customer_id, status)
  SELECT 1 + i * 7 % 1000, (ARRAY['open','paid','sent'])[1 + i % 3] FROM generate_series(1, 5000) i;
INSERT INTO order_items
  SELECT o.customer_id, o.id, 1 + (o.id * 3 + j) % 50, 1 + (o.id + j) % 5 FROM orders o, generate_series(1, 2) j;
ANALYZE;`

// demoDeclarations spread them: everything of a customer on one shard.
var demoDeclarations = []string{
	`SELECT weft.reference_table('products')`,
	`SELECT weft.shard_table('customers', 'id')`,
	`SELECT weft.shard_table('orders', 'customer_id')`,
	`SELECT weft.shard_table('order_items', 'customer_id')`,
}

// loadDemo makes and declares the example tables, unless the database has
// tables already.
func (c *cluster) loadDemo(ctx context.Context) error {
	began := time.Now()
	conn, err := pgx.Connect(ctx, fmt.Sprintf("postgres://%s@%s/%s", superuser, c.proxy.Addr(), database))
	if err != nil {
		return fmt.Errorf("load the demo: %w", err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	var tables int
	if err := conn.QueryRow(ctx, "SELECT count(*) FROM pg_catalog.pg_tables WHERE schemaname = 'public'").Scan(&tables); err != nil {
		return fmt.Errorf("load the demo: %w", err)
	}
	if tables > 0 {
		return nil
	}
	for _, sql := range append([]string{demoTables}, demoDeclarations...) {
		if _, err := conn.Exec(ctx, sql); err != nil {
			return fmt.Errorf("load the demo: %w", err)
		}
	}
	c.report.step(began, "demo", "customers, orders and order_items sharded by customer, products on every shard")
	return nil
}
