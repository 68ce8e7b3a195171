package selects

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// refusedSchema has what the examples of docs/queries.md name.
const refusedSchema = `
create table customers (id bigint primary key, name text not null);
create table orders (id bigint, customer_id bigint not null, status text, primary key (customer_id, id));
create table papers (k bigint primary key, doc json);
create table ledger (k bigint not null, amount int);
alter table ledger enable row level security;
create table notes (id int, body text);
create table parted (k bigint, at date) partition by range (at);
create table parted_rest partition of parted default;
create function open_orders() returns bigint language plpgsql as 'begin return (select count(*) from orders); end';
create function counted(t text) returns bigint language plpgsql as
  $$ declare n bigint; begin execute 'select count(*) from ' || t into n; return n; end $$;
create view guarded with (security_barrier) as select status, count(*) from orders group by status;
create view policed as select amount, count(*) from ledger group by amount`

var refusedTables = []string{"customers', 'id", "orders', 'customer_id", "papers', 'k", "ledger', 'k", "parted', 'k"}

// exampleRow is a row of a table whose second cell is an example.
var exampleRow = regexp.MustCompile("(?m)^\\|[^|]*\\| `([^`]+)` \\|[^|]*\\|$")

// TestRefused: what the page says is refused, is, and PostgreSQL does it.
func TestRefused(t *testing.T) {
	page, err := os.ReadFile("../../docs/queries.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, found := strings.Cut(string(page), "## What is refused")
	rows := exampleRow.FindAllStringSubmatch(list, -1)
	if !found || len(rows) < 10 {
		t.Fatalf("the page has %d examples", len(rows))
	}
	weft := harness.Uneven(t, 1, 1, 1, 1)
	const database = "w_refused"
	if err := createDatabases(database, "locale 'C.UTF-8'", weft.Shards(), harness.Postgres(t).Home); err != nil {
		t.Fatal(err)
	}
	p := pair.New(t, harness.Postgres(t), weft, database)
	p.Plain.Must(t, refusedSchema)
	for sql := range strings.SplitSeq(refusedSchema, ";\ncreate") {
		if !strings.HasPrefix(strings.TrimSpace(sql), "create") {
			sql = "create" + sql
		}
		p.Weft.Must(t, sql)
	}
	for _, table := range refusedTables {
		p.Weft.Must(t, "select weft.shard_table('"+table+"')")
	}
	for _, row := range rows {
		before, sql := "", row[1]
		if strings.HasPrefix(sql, "begin") {
			before, sql, _ = strings.Cut(sql, "; ")
			p.Weft.Must(t, before)
			p.Plain.Must(t, before)
		}
		if a := p.Weft.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" || !strings.Contains(a.Message, "(hint: ") && !strings.HasPrefix(sql, "create temp view") {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
		if a := p.Plain.Ask(pair.Simple, sql, nil, nil); a.Code != "" {
			t.Errorf("%s: PostgreSQL says %s %s", sql, a.Code, a.Message)
		}
		if before != "" {
			p.Weft.Must(t, "rollback")
			p.Plain.Must(t, "rollback")
		}
	}
}
