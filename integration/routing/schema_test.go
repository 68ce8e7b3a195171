package routing

// column is what the generator knows of a column.
type column struct{ name, typ string }

// relation is a table or a view that the generator reads.
type relation struct {
	name    string
	columns []column
	keys    int  // how many of the first columns are the shard key
	view    bool // not to be written
	fixed   bool // not to be written because it is a reference or a home table
}

// relations are the shop's and those of testdata/types.SQL, key columns first.
var relations = []relation{
	{name: "customers", keys: 1, columns: []column{{"id", "int8"}, {"name", "text"}, {"region", "text"}, {"balance", "numeric"}, {"active", "bool"}}},
	{name: "orders", keys: 1, columns: []column{{"customer_id", "int8"}, {"id", "int8"}, {"status", "text"}, {"total", "numeric"}, {"note", "text"}}},
	{name: "order_items", keys: 1, columns: []column{{"customer_id", "int8"}, {"id", "int8"}, {"order_id", "int8"}, {"product_id", "int4"}, {"qty", "int4"}}},
	{name: "products", fixed: true, columns: []column{{"id", "int4"}, {"name", "text"}, {"price", "numeric"}}},
	{name: "settings", fixed: true, columns: []column{{"key", "text"}, {"value", "text"}}},
	{name: "k_int2", keys: 1, columns: []column{{"k", "int2"}, {"v", "text"}}},
	{name: "k_int4", keys: 1, columns: []column{{"k", "int4"}, {"v", "text"}}},
	{name: "k_text", keys: 1, columns: []column{{"k", "text"}, {"v", "text"}}},
	{name: "k_varchar", keys: 1, columns: []column{{"k", "varchar"}, {"v", "text"}}},
	{name: "k_bpchar", keys: 1, columns: []column{{"k", "bpchar"}, {"v", "text"}}},
	{name: "k_uuid", keys: 1, columns: []column{{"k", "uuid"}, {"v", "text"}}},
	{name: "k_numeric", keys: 1, columns: []column{{"k", "numeric"}, {"v", "text"}}},
	{name: "k_date", keys: 1, columns: []column{{"k", "date"}, {"v", "text"}}},
	{name: "k_tstz", keys: 1, columns: []column{{"k", "timestamptz"}, {"v", "text"}}},
	{name: "k_pair", keys: 2, columns: []column{{"tenant", "int4"}, {"day", "date"}, {"v", "text"}}},
	{name: "active_customers", keys: 1, view: true, columns: []column{{"id", "int8"}, {"name", "text"}, {"balance", "numeric"}}},
	{name: "customer_orders", keys: 1, view: true, columns: []column{{"customer", "int8"}, {"name", "text"}, {"order_id", "int8"}, {"total", "numeric"}}},
	{name: "order_sums", keys: 1, view: true, columns: []column{{"customer_id", "int8"}, {"n", "int8"}, {"total", "numeric"}}},
}

// views are made before the tables are declared.
const views = `
create view active_customers as select id, name, balance from customers where active;
create view customer_orders as select c.id as customer, c.name, o.id as order_id, o.total from customers c left join orders o on o.customer_id = c.id;
create view order_sums as select customer_id, count(*) as n, sum(total) as total from orders group by customer_id`

// samples are the values of each type, as a server prints them, and other
// spellings that mean one of them.
var samples = map[string][]string{
	"int2":        {"1", "2", "3", "4", "5", "6", "7", "8", "-1", "-32768"},
	"int4":        {"1", "2", "3", "4", "5", "6", "7", "8", "-1", "2147483647"},
	"int8":        {"1", "2", "3", "4", "5", "6", "7", "8", "9", "-1", "4611686018427387904"},
	"numeric":     {"1", "1.0", "2.50", "2.5", "0", "-0.5", "NaN", "1e3", "1000", "12345678901234567890"},
	"text":        {"a", "A", "", "b ", "it's", "日本", "5", "new", "paid", "eu"},
	"varchar":     {"a", "A", "", "b ", "it's", "日本", "5"},
	"bpchar":      {"a", "a  ", "A", "", "b", "日本", "5"},
	"bool":        {"t", "f"},
	"uuid":        {"a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11", "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "{a0eebc999c0b4ef8bb6d6bb9bd380a11}", "00000000-0000-0000-0000-000000000001", "00000000-0000-0000-0000-000000000002"},
	"date":        {"2024-01-01", "2024-01-02", "20240101", "2024-02-29", "infinity", "January 2, 2024"},
	"timestamptz": {"2024-01-01 00:00:00+00", "2024-01-01 01:00:00+01", "2024-01-01 00:00:00.5+00", "2024-01-01T00:00:00Z", "infinity"},
}
