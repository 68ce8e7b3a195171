package move

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// plain makes a database with tables that are not declared: cust, and ord and item, which foreign keys tie to
// it.
func plain(t *testing.T, db string, proxies int) *world {
	t.Helper()
	w := empty(t, db, proxies)
	w.fill(w.conn(0))
	return w
}

// fill makes the tables, none of them declared, with rows.
func (w *world) fill(c *pgx.Conn) {
	w.Helper()
	w.must(c, `create table cust (id bigint primary key, email text not null unique, balance bigint not null default 1000, touched int not null default 0);
		create table ord (cust bigint not null references cust on delete cascade, n bigint not null, body text, primary key (cust, n));
		create table item (cust bigint not null, ord bigint not null, n int not null, amount int not null default 1, primary key (cust, ord, n), foreign key (cust, ord) references ord on delete cascade);
		create table kind (id int primary key, name text); insert into kind select i, 'kind ' || i from generate_series(1, 10) i;
		create table alone (id bigint primary key, email text unique, n int not null default 0);`)
	w.must(c, fmt.Sprintf("insert into cust (id, email) select i, 'c' || i from generate_series(1, %d) i", accounts))
	w.must(c, fmt.Sprintf("insert into ord (cust, n) select i %% %d + 1, i from generate_series(1, 1000) i", accounts))
	w.must(c, "insert into item (cust, ord, n) select cust, n, 1 from ord")
	w.must(c, fmt.Sprintf("insert into alone (id, email) select i, 'a' || i from generate_series(1, %d) i", accounts))
}

// spread fails unless rows of a table are on all shards.
func (w *world) spread(table string) {
	w.Helper()
	for i, s := range w.proxies[0].Shards() {
		d, err := pgx.Connect(context.Background(), s.ConnString(w.db))
		if err != nil {
			w.Fatal(err)
		}
		if n := value[int](w, d, "select count(*) from "+table); n == 0 {
			w.Errorf("shard %d has no rows of %s", i, table)
		}
		_ = d.Close(context.Background())
	}
}

// TestPreparedBefore: a statement that was prepared when nothing was declared in the database goes to all shards
// as soon as something is, however it was declared.
func TestPreparedBefore(t *testing.T) {
	for _, how := range []string{"false", "true"} {
		w := plain(t, "prepared_"+how, 2)
		c := w.conn(0)
		var clients []*pgx.Conn
		for i := range w.proxies {
			clients = append(clients, w.conn(i))
		}
		ask := func() {
			t.Helper()
			for i, c := range clients {
				if n := value[int](w, c, "select count(*) from alone"); n != accounts {
					t.Errorf("online %s, proxy %d: %d rows", how, i, n)
				}
				for id := 1; id < 10; id++ {
					if n := value[int](w, c, "select id from alone where id = $1 and n = 0", id); n != id {
						t.Errorf("online %s, proxy %d: row %d is %d", how, i, id, n)
					}
				}
				if n := value[int](w, c, "select count(*) from alone where id in (3, 17, 20, 21)"); n != 4 {
					t.Errorf("online %s, proxy %d: %d rows by literals", how, i, n)
				}
			}
		}
		ask()
		w.must(c, "select weft.shard_table('alone', 'id', online => "+how+")")
		w.spread("alone")
		ask()
	}
}

// TestPreparedInsertBefore: an INSERT that leaves out a serial column gets its values from weft as soon as the table is
// declared, and from the server again when the declaration is taken back.
func TestPreparedInsertBefore(t *testing.T) {
	w := plain(t, "prepared_insert", 2)
	c := w.conn(0)
	w.must(c, "create table note (cust bigint not null, id bigserial, body text, primary key (cust, id))")
	var clients []*pgx.Conn
	for i := range w.proxies {
		clients = append(clients, w.conn(i))
	}
	seen := map[int]bool{}
	insert := func() {
		t.Helper()
		for i, c := range clients {
			for cust := range 10 {
				id := value[int](w, c, "insert into note (cust, body) values ($1, $2) returning id", cust, "text")
				if seen[id] {
					t.Errorf("proxy %d: id %d twice", i, id)
				}
				seen[id] = true
			}
		}
	}
	insert()
	for range 2 {
		w.must(c, "select weft.shard_table('note', 'cust')")
		insert()
		w.must(c, "select weft.unshard_table('note')")
		insert()
	}
	if n := value[int](w, c, "select count(*) from note"); n != len(seen) {
		t.Errorf("%d rows of %d", n, len(seen))
	}
}
