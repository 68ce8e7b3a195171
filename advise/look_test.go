package advise

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/catalog"
)

// What a statement compares is found wherever it stands.
func TestLook(t *testing.T) {
	schema, err := catalog.FromDump(demo + social + "CREATE SCHEMA other; CREATE TABLE other.orders (k int, v int); CREATE VIEW paid AS SELECT o.id FROM orders o JOIN order_items i ON i.order_id = o.id;")
	if err != nil {
		t.Fatal(err)
	}
	for sql, want := range map[string]string{
		"SELECT * FROM orders WHERE customer_id = $1":                                                                   "orders.customer_id=",
		"SELECT * FROM orders WHERE $1::bigint = customer_id":                                                           "orders.customer_id=",
		"SELECT * FROM orders WHERE customer_id IN ($1, $2) AND status = 'x'":                                           "orders.customer_id= orders.status=",
		"SELECT * FROM orders WHERE customer_id = ANY($1)":                                                              "orders.customer_id=",
		"SELECT * FROM orders WHERE (customer_id, id) = ($1, $2)":                                                       "orders.customer_id= orders.id=",
		"SELECT * FROM orders WHERE customer_id > $1":                                                                   "",
		"SELECT * FROM orders o, customers c WHERE c.id = o.customer_id AND c.name = $1":                                "customers.id~orders.customer_id customers.name=",
		"SELECT * FROM orders o JOIN customers c ON c.id = o.customer_id":                                               "customers.id~orders.customer_id",
		"SELECT * FROM orders JOIN order_items USING (customer_id)":                                                     "orders.customer_id~order_items.customer_id",
		"SELECT * FROM orders WHERE customer_id IN (SELECT id FROM customers WHERE country = $1)":                       "orders.customer_id~customers.id customers.country=",
		"SELECT * FROM orders o WHERE EXISTS (SELECT FROM order_items i WHERE i.order_id = o.id AND i.product_id = $1)": "order_items.order_id~orders.id order_items.product_id=",
		"SELECT * FROM orders o, order_items i WHERE o.customer_id = $1 AND i.customer_id = $1":                         "orders.customer_id= order_items.customer_id= orders.customer_id~order_items.customer_id",
		"WITH orders AS (SELECT 1 AS customer_id) SELECT * FROM orders WHERE customer_id = $1":                          "",
		"SELECT * FROM other.orders WHERE k = $1":                                                                       "other.orders.k=",
		"SELECT * FROM (SELECT * FROM orders WHERE customer_id = $1) s WHERE s.id = $2":                                 "orders.customer_id=",
		"SELECT * FROM orders WHERE id = $1 UNION SELECT * FROM orders WHERE customer_id = $2":                          "orders.id= orders.customer_id=",
		"UPDATE orders SET status = $1 WHERE customer_id = $2":                                                          "orders.customer_id= set:orders.status write:orders",
		"UPDATE orders o SET customer_id = $1 FROM customers c WHERE c.id = o.customer_id":                              "customers.id~orders.customer_id set:orders.customer_id write:orders",
		"DELETE FROM orders USING customers c WHERE c.id = customer_id AND c.name = $1":                                 "customers.id~orders.customer_id customers.name= write:orders",
		"INSERT INTO jobs (kind) SELECT status FROM orders WHERE customer_id = $1":                                      "orders.customer_id= write:jobs",
		"INSERT INTO jobs (id, kind) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET kind = excluded.kind":               "set:jobs.kind write:jobs",
		"MERGE INTO orders o USING customers c ON c.id = o.customer_id WHEN MATCHED THEN DELETE":                        "customers.id~orders.customer_id write:orders",
		"SELECT * FROM paid": "order_items.order_id~orders.id",
		"SELECT * FROM pg_class WHERE oid = $1; SELECT FROM": "",
		"SELECT id FROM users WHERE id = $1 OR handle = $2":  "users.id= users.handle=",
		"SELECT nothing FROM missing WHERE x = $1":           "",
	} {
		s := lookAt(schema, []string{"pg_catalog", "public"}, sql)
		var got []string
		for _, r := range s.values {
			got = append(got, r.String()+"=")
		}
		for _, j := range s.joins {
			got = append(got, fmt.Sprintf("%s~%s", j[0], j[1]))
		}
		for _, r := range s.sets {
			got = append(got, "set:"+r.String())
		}
		for _, n := range s.written {
			got = append(got, "write:"+Display(n))
		}
		wanted := strings.Fields(want)
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%s:\n%v, not\n%v", sql, got, wanted)
		}
	}
}
