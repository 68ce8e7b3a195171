package routing

import (
	"context"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// cells returns the only column of an answer, which is text.
func cells(t testing.TB, a pair.Answer) []string {
	t.Helper()
	if a.Code != "" || len(a.Results) != 1 {
		t.Fatalf("%s %s", a.Code, a.Message)
	}
	var out []string
	for _, r := range a.Results[0].Rows {
		out = append(out, strings.TrimSuffix(r, " | "))
	}
	return out
}

// cellsIn is cells in a mode: binary text is told in hex.
func cellsIn(t testing.TB, m pair.Mode, a pair.Answer) []string {
	t.Helper()
	out := cells(t, a)
	for i := range out {
		if b, err := hex.DecodeString(out[i]); m == pair.Binary && err == nil {
			out[i] = string(b)
		}
	}
	return out
}

// holders returns the shards on which a query finds rows.
func holders(t testing.TB, db, query string) []int {
	t.Helper()
	var out []int
	for i, s := range harness.Weft(t).Shards() {
		ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
		conn, err := pgx.Connect(ctx, s.ConnString(db))
		if err != nil {
			t.Fatal(err)
		}
		var n int
		err = conn.QueryRow(ctx, "select count(*) from ("+query+") q").Scan(&n)
		_ = conn.Close(ctx)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			out = append(out, i)
		}
	}
	return out
}

// TestRoutedIDs: a generated id alone leads to its row's shard, in every way a
// statement can name it; an id from before is looked for on all shards.
func TestRoutedIDs(t *testing.T) {
	db := database(t, "routed_ids")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, "create table orders (id bigserial primary key, customer_id bigint not null, v text)")
	p.Must(t, "insert into orders (customer_id, v) select i, 'early ' || i from generate_series(1, 50) i")
	p.Must(t, "select weft.shard_table('orders', 'customer_id', ids => 'routed')")

	var ids []string
	for i, m := range pair.Modes {
		for k := range 12 {
			a := p.Ask(m, "insert into orders (customer_id, v) values ($1, 'new') returning id::text",
				[]pair.Param{{Type: "int8", Text: ptr(strconv.Itoa(100*i + k))}}, nil)
			ids = append(ids, cellsIn(t, m, a)...)
		}
	}
	// Several rows of one key, defaults spelled out, and no column list.
	for _, sql := range []string{
		"insert into orders (customer_id, v) values (7, 'a'), (7, 'b') returning id::text",
		"insert into orders values (default, 8, 'c'), (nextval('orders_id_seq'), 8, 'd') returning id::text",
	} {
		ids = append(ids, cells(t, p.Must(t, sql))...)
	}
	if n := len(slices.Compact(slices.Sorted(slices.Values(ids)))); n != 52 {
		t.Fatalf("%d ids", n)
	}
	if got := cells(t, p.Must(t, "select currval('orders_id_seq')::text")); got[0] != ids[51] {
		t.Errorf("currval %s after id %s", got[0], ids[51])
	}

	p.Must(t, "set weft.scatter = off")
	for i, id := range ids {
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil || n < 1<<32 || n >= 1<<53 {
			t.Fatalf("id %q", id)
		}
		m := pair.Modes[i%len(pair.Modes)]
		set := []pair.Param{{Type: "int8", Text: &id}}
		for _, sql := range []string{
			"select id::text from orders where id = $1",
			"select o.id::text from orders o join orders p using (id) where p.id = $1",
			"select id::text from orders where id in ($1, $1)",
			"update orders set v = v || '!' where id = $1 returning id::text",
		} {
			if got := cellsIn(t, m, p.Ask(m, sql, set, nil)); len(got) != 1 || got[0] != id {
				t.Errorf("%s: %s for %s", sql, got, id)
			}
		}
		array := "{" + id + "}"
		if got := cellsIn(t, m, p.Ask(m, "select id::text from orders where id = any($1)", []pair.Param{{Type: "int8[]", Text: &array}}, nil)); len(got) != 1 || got[0] != id {
			t.Errorf("any: %s for %s", got, id)
		}
	}
	gone := ids[3]
	if a := p.Must(t, "delete from orders where id = "+gone); a.Results[0].Tag != "DELETE 1" {
		t.Errorf("%s", a.Results[0].Tag)
	}
	// One from before may be anywhere.
	if a := p.Ask(pair.Simple, "select v from orders where id = 7", nil, nil); a.Code != "0A000" {
		t.Errorf("an old id went to one shard: %v", a)
	}
	p.Must(t, "set weft.scatter = on")
	if got := cells(t, p.Must(t, "select v from orders where id = 7")); len(got) != 1 || got[0] != "early 7" {
		t.Errorf("old id: %s", got)
	}
	if got := cells(t, p.Must(t, "select count(*)::text from orders where id in (7, 8, "+ids[0]+")")); got[0] != "3" {
		t.Errorf("old and new ids: %s", got)
	}
	// An id of a client's own choice below the limit is no more than an id.
	p.Must(t, "insert into orders (id, customer_id, v) values (1000, 1, 'mine')")
	if got := cells(t, p.Must(t, "select v from orders where id = 1000")); len(got) != 1 || got[0] != "mine" {
		t.Errorf("own id: %s", got)
	}
	// One above it that names another bucket would be looked for in the wrong
	// place: no shard takes it, however it comes.
	wrong, _ := strconv.ParseInt(ids[0], 10, 64)
	wrong = wrong&^4095 | (wrong+1)&4095
	for _, sql := range []string{
		fmt.Sprintf("insert into orders (id, customer_id) values (%d, 0)", wrong),
		fmt.Sprintf("insert into orders (id, customer_id) select %d, 0", wrong),
		fmt.Sprintf("update orders set id = %d where id = %s", wrong, ids[0]),
	} {
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "23514" {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	for _, id := range ids[4:8] {
		if got := holders(t, db, "select from orders where id = "+id); len(got) != 1 {
			t.Errorf("id %s is on %v", id, got)
		}
	}
	for _, sql := range []string{
		"alter table orders drop constraint weft_routed_ids", "alter table orders rename constraint weft_routed_ids to x",
		"alter table orders drop column id cascade", "alter table orders alter column id type int",
	} {
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "0A000" {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	p.Must(t, "alter table orders rename column id to number")
	p.Must(t, "set weft.scatter = off")
	if got := cells(t, p.Must(t, "select number::text from orders where number = "+ids[5])); len(got) != 1 {
		t.Errorf("after RENAME: %s", got)
	}
	p.Must(t, "select weft.unshard_table('orders')")
	p.Must(t, fmt.Sprintf("update orders set customer_id = customer_id + 1 where number = %s", ids[5]))
}
