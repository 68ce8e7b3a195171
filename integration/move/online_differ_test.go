package move

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

// onlineReads and onlineWrites are statements about some customers: $a, $b, $c are numbers of customers, $n is a number that
// is used once.
var (
	onlineReads = []string{
		"select * from cust where id = $a",
		"select * from cust where id in ($a, $b, $c)",
		"select * from cust where email = 'c$a'",
		"select * from alone where email in ('a$a', 'a$b', 'new $c')",
		"select count(*), sum(balance), sum(touched), max(id) from cust",
		"select count(*), sum(n), min(email) from alone where id between $a and $b + 50",
		"select cust, count(*), sum(n) from ord group by cust having count(*) > 4",
		"select c.id, o.n, i.amount from cust c join ord o on o.cust = c.id join item i on i.cust = o.cust and i.ord = o.n where c.id = $a",
		"select c.id, count(*), sum(i.amount) from cust c join item i on i.cust = c.id group by c.id",
		"select c.id, a.n, a.email from cust c join alone a using (id) where c.balance <> 1000 or a.n > 0",
		"select a.id, o.n from alone a join ord o on o.cust = a.id where a.id in ($a, $b)",
		"select a.id from alone a where not exists (select from ord o where o.cust = a.id)",
		"select id, (select count(*) from ord where cust = id), (select max(n) from alone x where x.id = cust.id) from cust where id < $a",
		"select k.name, count(*) from kind k left join ord o on o.n % 10 + 1 = k.id group by k.name",
		"select cust, n, row_number() over (partition by cust order by n) from ord where cust in ($a, $b)",
		"select id from cust union select cust from item union all select id from alone where n > 1",
		"select distinct o.cust from ord o full join alone a on a.id = o.cust and a.n > 0 where o.cust is null or a.id is null",
		"with o as (select cust, count(*) as n from ord group by cust) select c.id, o.n from cust c left join o on o.cust = c.id order by o.n desc nulls last, c.id limit 20",
	}
	onlineWrites = []string{
		"update cust set balance = balance + 1 where id = $a",
		"update cust set balance = balance + case id when $a then 1 else -1 end where id in ($a, $b)",
		"update cust set touched = touched + 1 where balance % 7 = $a % 7",
		"insert into ord (cust, n, body) values ($a, $n, 'one'), ($b, $n + 1, 'two')",
		"insert into ord (cust, n) select id, $n from cust where id between $a and $a + 5",
		"insert into item (cust, ord, n) select cust, n, 7 from ord where cust = $a on conflict do nothing",
		"insert into item (cust, ord, n) values ($a, -1, 1)",
		"insert into ord (cust, n) values (100000 + $a, 1)",
		"delete from ord where cust = $a and n % 3 = 0",
		"delete from item where amount = 1 and cust in ($a, $b, $c)",
		"insert into alone (id, email) values ($a, 'x') on conflict (id) do update set n = alone.n + 1",
		"insert into alone (id, email) values (1000 + $n, 'new $a')",
		"update alone set n = n + 1 where email = 'a$a'",
		"update alone set email = 'a$a' where id = $b",
		"delete from alone where id > 1000 and n = 0 and id % 5 = $a % 5",
		"update alone a set n = a.n + 1 from cust c where c.id = a.id and c.id in ($a, $b)",
		"insert into cust (id, email) values (2000 + $n, 'k$n')",
		"delete from cust where id > 2000 and id % 3 = $a % 3",
		"update cust set email = 'c$b' where id = $a",
	}
)

// TestDeclareDiffers: while tables with rows are declared, and their declarations are taken back, every statement through one of
// two proxies has the effect and the answer that one PostgreSQL gives.
func TestDeclareDiffers(t *testing.T) {
	w := plain(t, "online_differs", 2)
	one := harness.Postgres(t)
	one.CreateDatabase(t, w.db)
	p := one.Connect(t, "postgres", "dbname="+w.db)
	w.fill(p)
	w.differ(p, onlineReads, onlineWrites, []string{
		"select weft.reference_table('kind')",
		"select weft.shard_table('alone', 'id', online => true)",
		"select weft.isolate('alone', '17', '" + names(t)[1] + "')",
		"select weft.shard_table('ord', 'cust', cascade => true)",
		"select weft.unshard_table('alone', online => true)",
		"select weft.unshard_table('item', cascade => true)",
		"select weft.shard_tables('cust.id, ord.cust, item.cust, alone.id')",
	})
	for _, table := range []string{"cust", "ord", "item", "alone", "kind"} {
		w.equal(p, table)
	}
}

// equal compares a table with that of one PostgreSQL.
func (w *world) equal(p *pgx.Conn, table string) {
	w.Helper()
	if got, want := w.lines(w.conn(0), "select * from "+table), w.lines(p, "select * from "+table); !slices.Equal(got, want) {
		w.Errorf("%s has %d rows, and %d in PostgreSQL, or they differ", table, len(got), len(want))
	}
}

// differ has random statements answered by one of two proxies and by one PostgreSQL, and compares the answers, while steps are
// taken one after the other, each with the jobs that it begins.
func (w *world) differ(p *pgx.Conn, reads, writes, steps []string) {
	t := w.T
	t.Helper()
	admin, clients := w.conn(1), []*pgx.Conn{w.conn(0), w.conn(1)}
	done := make(chan error, 1)
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), 4*time.Minute)
		defer stop()
		for _, sql := range steps {
			if _, err := admin.Exec(ctx, sql); err != nil {
				done <- fmt.Errorf("%s: %w", sql, err)
				return
			}
			for n := 1; n > 0; {
				if err := admin.QueryRow(ctx, "select count(*) from weft.moves where state not in ('done', 'cancelled')").Scan(&n); err != nil {
					done <- err
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
			time.Sleep(300 * time.Millisecond)
		}
		done <- nil
	}()

	r := rand.New(rand.NewPCG(15, 49))
	asked := map[string]int{}
	again, differ := 0, 0
	for n, over := 0, false; !over || n%len(reads) != 0; n++ {
		select {
		case err := <-done:
			if over = true; err != nil {
				t.Fatal(err)
			}
		default:
		}
		from, kind := reads, "read"
		if r.IntN(2) == 0 {
			from, kind = writes, "write"
		}
		sql := from[r.IntN(len(from))]
		for _, name := range []string{"$a", "$b", "$c"} {
			sql = strings.ReplaceAll(sql, name, fmt.Sprint(1+r.IntN(accounts)))
		}
		sql = strings.ReplaceAll(sql, "$n", fmt.Sprint(10*n+10000))
		i := r.IntN(2)
		got := w.told(clients[i], sql)
		for slices.Contains([]string{"40001", "40P01"}, got[0]) {
			if again++; again > 50 {
				t.Fatalf("%s: %s, again and again", sql, got)
			}
			got = w.told(clients[i], sql)
		}
		if want := w.told(p, sql); !slices.Equal(got, want) {
			t.Errorf("statement %d, through proxy %d: %s\n  got  %d %.400v\n  want %d %.400v", n, i, sql, len(got), got, len(want), want)
			if differ++; differ > 10 {
				t.Fatal("and so on")
			}
		}
		asked[kind]++
		time.Sleep(2 * time.Millisecond)
	}
	w.settled(admin)
	t.Logf("%v, %d again", asked, again)
}

// told is what a client is told: an SQLSTATE, or the tag and the rows, sorted.
func (w *world) told(c *pgx.Conn, sql string) []string {
	w.Helper()
	tag, list, err := asked(c, sql)
	var e *pgconn.PgError
	switch {
	case errors.As(err, &e) && e.Code != "0A000":
		return []string{e.Code}
	case err != nil:
		return []string{err.Error()}
	}
	return append([]string{tag}, list...)
}
