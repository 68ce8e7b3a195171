package routing

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

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

// TestStrayIDs: an id that names another bucket than its row's is stored like any
// other, however it comes, and found afterwards; ids that are made from then on
// are routed again.
func TestStrayIDs(t *testing.T) {
	db := database(t, "stray_ids")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, "create table parcels (id bigserial primary key, customer_id bigint not null, v text)")
	p.Must(t, "select weft.shard_table('parcels', 'customer_id', ids => 'routed')")
	made := func() int64 {
		t.Helper()
		id, err := strconv.ParseInt(cells(t, p.Must(t, "insert into parcels (customer_id, v) values (77, 'made') returning id::text"))[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return id
	}
	// anew begins with the first limit.
	anew := func() {
		t.Helper()
		p.Must(t, "select weft.unshard_table('parcels')")
		p.Must(t, "truncate parcels")
		p.Must(t, "select weft.shard_table('parcels', 'customer_id', ids => 'routed')")
	}
	// routed reports whether an id alone leads to one shard.
	routed := func(id int64) bool {
		p.Must(t, "set weft.scatter = off")
		defer p.Must(t, "set weft.scatter = on")
		return p.Ask(pair.Simple, fmt.Sprintf("select v from parcels where id = %d", id), nil, nil).Code == ""
	}
	// stray is the id that another bucket's row would have had next.
	stray := func() int64 { return made() + 4096*1000 + 1 }
	check := func(id int64, v string) {
		t.Helper()
		if got := cells(t, p.Must(t, fmt.Sprintf("select v from parcels where id = %d", id))); len(got) != 1 || got[0] != v {
			t.Errorf("id %d: %s, not %s", id, got, v)
		}
	}
	for i, sql := range []string{
		"insert into parcels (id, customer_id, v) values ($1, 5, 'stored')",
		"insert into parcels (id, customer_id, v) values ($1, 5, 'stored'), (1, 6, 'low') on conflict do nothing",
		"insert into parcels (id, customer_id, v) select $1::int8, 5, 'stored'",
		"insert into parcels values ($1, 5, 'stored') returning v",
		"merge into parcels p using (select 5 as k) s on p.customer_id = s.k when not matched then insert (id, customer_id, v) values ($1::int8, s.k, 'stored')",
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			// Each raises the limit, which can be done a few times.
			anew()
			for _, m := range pair.Modes[:3] {
				id := stray()
				text := strconv.FormatInt(id, 10)
				if !routed(id) {
					t.Fatalf("id %d is not routed before", id)
				}
				p.Must(t, "delete from parcels where customer_id = 5")
				if a := p.Ask(m, sql, []pair.Param{{Type: "int8", Text: &text}}, nil); a.Code != "" {
					t.Fatalf("%s: %s %s", m, a.Code, a.Message)
				}
				check(id, "stored")
				if routed(id) {
					t.Errorf("%s: id %d is routed", m, id)
				}
				if next := made(); !routed(next) {
					t.Errorf("%s: id %d is not routed", m, next)
				}
			}
		})
	}
	again := func(t *testing.T, begin, sql string) {
		t.Helper()
		for try := 0; ; try++ {
			p.Must(t, begin)
			a := p.Ask(pair.Simple, sql, nil, nil)
			if a.Code == "" {
				p.Must(t, "commit")
				return
			}
			p.Must(t, "rollback")
			if a.Code != "40001" || try == 4 {
				t.Fatalf("%s: %s %s", sql, a.Code, a.Message)
			}
		}
	}
	t.Run("block", func(t *testing.T) {
		anew()
		id := stray()
		sql := fmt.Sprintf("insert into parcels (id, customer_id, v) values (%d, 8, 'in a block')", id)
		p.Must(t, "begin")
		p.Must(t, "insert into parcels (customer_id, v) select i, 'undone' from generate_series(1, 20) i")
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "40001" {
			t.Errorf("%s %s", a.Code, a.Message)
		}
		if a := p.Ask(pair.Simple, "select 1", nil, nil); a.Code != "25P02" {
			t.Errorf("after it: %s %s", a.Code, a.Message)
		}
		p.Must(t, "rollback")
		if got := cells(t, p.Must(t, "select count(*)::text from parcels where v = 'undone'")); got[0] != "0" {
			t.Errorf("%s rows are left", got[0])
		}
		again(t, "begin", sql)
		check(id, "in a block")
	})
	t.Run("text", func(t *testing.T) {
		anew()
		id := stray()
		sql := fmt.Sprintf("insert into parcels (id, customer_id, v) values (%d, 9, 'in a text'); select 1", id)
		if a := p.Ask(pair.Simple, sql, nil, nil); a.Code != "40001" {
			t.Errorf("%s %s", a.Code, a.Message)
		}
		p.Must(t, sql)
		check(id, "in a text")
	})
	t.Run("move", func(t *testing.T) {
		anew()
		for key := range 3 {
			id := made()
			p.Must(t, fmt.Sprintf("update parcels set customer_id = %d, v = 'moved' where id = %d", 1000+key, id))
			check(id, "moved")
		}
		if next := made(); !routed(next) {
			t.Errorf("id %d is not routed", next)
		}
		id := made()
		for key := range 8 {
			p.Must(t, fmt.Sprintf("update parcels set customer_id = %d, v = 'moved' where customer_id in (77, %d) and id = %d", 2000+key, 1999+key, id))
			check(id, "moved")
		}
	})
	t.Run("copy", func(t *testing.T) {
		anew()
		ctx, stop := context.WithTimeout(t.Context(), pair.Patience)
		defer stop()
		id := stray()
		var rows strings.Builder
		for i := range int64(50) {
			fmt.Fprintf(&rows, "%d\t%d\tcopied\n", id+i, 3000+i)
		}
		for try := 0; ; try++ {
			_, err := p.Conn.CopyFrom(ctx, strings.NewReader(rows.String()), "copy parcels (id, customer_id, v) from stdin")
			if err == nil {
				break
			}
			if e := (*pgconn.PgError)(nil); try == 4 || !errors.As(err, &e) || e.Code != "40001" {
				t.Fatal(err)
			}
		}
		for i := range int64(50) {
			check(id+i, "copied")
		}
		// Those that it leaves out are routed.
		if _, err := p.Conn.CopyFrom(ctx, strings.NewReader("4000\tmade\n4001\tmade\n"), "copy parcels (customer_id, v) from stdin"); err != nil {
			t.Fatal(err)
		}
		got := cells(t, p.Must(t, "select id::text from parcels where customer_id in (4000, 4001)"))
		for _, text := range got {
			if id, err := strconv.ParseInt(text, 10, 64); err != nil || !routed(id) {
				t.Errorf("id %s is not routed", text)
			}
		}
		if len(got) != 2 {
			t.Errorf("%d rows", len(got))
		}
	})
	t.Run("last", func(t *testing.T) {
		// Beyond what a double holds nothing is routed, and everything goes on.
		p.Must(t, "insert into parcels (id, customer_id, v) values (9000000000000000001, 1, 'far')")
		check(9000000000000000001, "far")
		if id := made(); routed(id) {
			t.Errorf("id %d is routed", id)
		}
		p.Must(t, "insert into parcels (id, customer_id, v) values (9000000000000000003, 1, 'far'), (8000000000000000003, 2, 'far')")
		check(8000000000000000003, "far")
	})
	p.Must(t, "select weft.unshard_table('parcels')")
}
