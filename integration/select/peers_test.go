package selects

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
)

// wrongAnswers are what other systems that shard PostgreSQL or MySQL have been
// seen to get wrong in reads, and statements that show it.
var wrongAnswers = []struct {
	name       string
	statements []string
}{
	{"LIMIT without ORDER BY per shard", []string{
		"select count(*) from (select id from a limit 7) s",
		"select count(*) from (select id from a where n is not null limit 11) s",
		"select (select count(*) from (select 1 from b limit 3) x), count(*) from (select 1 from b limit 100000) y",
	}},
	{"OFFSET per shard", []string{
		"select id from a order by id offset 5",
		"select id from a order by id limit 4 offset 3",
		"select count(*) from (select id from a offset 13) s",
		"select id from a order by n nulls first, id desc limit 9 offset 40",
		"select id from a order by id limit 5 offset 1000",
	}},
	{"LIMIT pushed below GROUP BY", []string{
		"select n, count(*) from a group by n order by count(*) desc, n limit 3",
		"select s, count(*), sum(x) from a group by s order by sum(x) desc nulls last, s limit 2 offset 1",
		"select n, max(id) from b group by n order by max(id) limit 4",
	}},
	{"ORDER BY a column that is not selected", []string{
		"select id from a order by ts, id",
		"select s from a order by x desc nulls last, id",
		"select n from q order by id desc limit 6",
	}},
	{"ORDER BY an expression", []string{
		"select id from a order by -id",
		"select id, n from a order by abs(coalesce(n, 100)), id",
		"select id from b order by length(s), id limit 10",
		"select id, n + 1 as m from a order by case when n > 3 then 0 else 1 end, id",
		"select upper(s) as s from a order by s, id",
	}},
	{"NULLS FIRST and NULLS LAST", []string{
		"select id, n from a order by n nulls first, id",
		"select id, n from a order by n desc nulls last, id",
		"select id, n from a order by n desc, id limit 12",
		"select n, s from a order by s nulls first, n desc nulls first, id",
	}},
	{"average of averages", []string{
		"select avg(n), avg(x), avg(f), avg(id) from a",
		"select s, avg(n), avg(x) from a group by s order by s",
		"select avg(n) filter (where k = 1) from a",
		"select avg(distinct n) from a",
		"select avg(v) from big where v <> 'NaN'",
	}},
	{"average rounded", []string{
		"select avg(x) from a where id < 4",
		"select avg(n * 1.000001), avg(n)::text, avg(x / 7)::text from a",
	}},
	{"DISTINCT per shard", []string{
		"select distinct n from a order by n",
		"select distinct s, b from a order by 1, 2",
		"select count(*) from (select distinct n from a) d",
	}},
	{"an expression over an aggregate per shard", []string{
		"select count(*) + 1 from a",
		"select sum(n) * 2 - count(*), max(id) - min(id) from a",
		"select case when count(*) > 20 then 'many' else 'few' end from a",
		"select coalesce(sum(n), 0) from e0",
	}},
	{"count(DISTINCT) added up", []string{
		"select count(distinct n), count(distinct s), count(distinct k) from a",
		"select b, count(distinct n) from a group by b order by b",
		"select sum(distinct n), count(*) from b",
	}},
	{"HAVING per shard", []string{
		"select n, count(*) from a group by n having count(*) > 4 order by n",
		"select s from a group by s having sum(n) > 10 and min(id) < 20 order by s",
		"select count(*) from a having count(*) > 30",
	}},
	{"UNION concatenated", []string{
		"select n from a union select n from b order by 1",
		"select s from a union all select s from b order by 1",
		"select n from a intersect select n from b order by 1",
		"select n from a except select n from q order by 1",
		"select k from a union select k from c union select k::int8 from q order by 1",
	}},
	{"key = 1 OR other = 7 routed to one shard", []string{
		"select id from a where k = 1 or n = 7 order by id",
		"select id from a where not (k <> 3 and n <> 4) order by id",
		"select id from a where k = 1 or k is null or s = 'zebra' order by id",
	}},
	{"key IN ($1, $2) routed to one shard", []string{
		"select id from a where k in (1, 2) order by id",
		"select id from a where k = any (array[3, 5, 8]) order by id",
		"select count(*) from a where k in (1, 2, 3, 4, 5, 6) and n > 0",
	}},
	{"LEFT JOIN ON key = 1 routed to one shard", []string{
		"select a.id, b.id from a left join b on b.k = a.k and a.k = 1 order by 1, 2",
		"select a.id, b.id from a left join b on b.k = 1 order by 1, 2 limit 40",
		"select r.id, a.id from r left join a on a.k = 1 and a.n = r.id order by 1, 2",
	}},
	{"reference LEFT JOIN sharded duplicates rows", []string{
		"select r.id, a.id from r left join a on a.n = r.id order by 1, 2",
		"select r.id, count(*) from r left join b on b.n = r.id and b.id < 5 group by r.id order by 1",
		"select count(*) from r left join a on false",
		"select r2.id, a.id from a right join r2 on r2.k = a.k order by 1, 2",
		"select r2.id, c.id from r2 full join c on r2.k = c.k order by 1, 2",
		"select r.id from r where not exists (select 1 from a where a.n = r.id) order by 1",
		"select count(*) from r, r2",
	}},
	{"timestamptz compared as text", []string{
		"set timezone = 'Europe/Berlin'", // its clocks go back while the rows go on
		"select k, ts from big order by ts, k",
		"select k, ts from big order by ts desc, k limit 9",
		"select min(ts), max(ts), count(distinct ts) from big",
		"select ts, count(*) from big group by ts order by ts",
		"reset timezone",
	}},
	{"numeric beyond 28 digits", []string{
		"select k, v from big order by v, k",
		"select k from big order by v desc nulls last, k limit 8",
		"select v, count(*) from big group by v order by v",
		"select min(v), max(v), sum(v) from big where v <> 'NaN'",
		"select count(distinct v) from big",
	}},
}

// TestWrongAnswersOfPeers plays them in every world.
func TestWrongAnswersOfPeers(t *testing.T) {
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			w := open(t, s)
			for _, c := range wrongAnswers {
				t.Run(c.name, func(t *testing.T) {
					for _, m := range []pair.Mode{pair.Simple, pair.Binary} {
						for i, sql := range c.statements {
							if strings.HasPrefix(sql, "set ") || strings.HasPrefix(sql, "reset ") {
								w.everywhere(t, sql)
								continue
							}
							w.expect(t, "route", fmt.Sprintf("statement %d, %s", i, m), question{mode: m, sql: sql})
						}
					}
				})
			}
			t.Run("LIMIT without ORDER BY", func(t *testing.T) { limitAlone(t, w) })
		})
	}
}

// limitAlone: which rows is open, how many is not, and each is one of the table's.
func limitAlone(t *testing.T, w *world) {
	all := w.Plain.Must(t, "select id, s from a").Results[0].Rows
	for _, m := range pair.Modes {
		for _, n := range []int{0, 1, 5, 17, 60, 61} {
			a := w.Weft.Ask(m, fmt.Sprintf("select id, s from a limit %d", n), nil, nil)
			if a.Code != "" {
				t.Errorf("limit %d: %s %s", n, a.Code, a.Message)
				continue
			}
			rows := a.Results[0].Rows
			if want := min(n, len(all)); len(rows) != want || a.Results[0].Tag != fmt.Sprintf("SELECT %d", want) {
				t.Errorf("limit %d, %s: %d rows, %s", n, m, len(rows), a.Results[0].Tag)
			}
			if m == pair.Binary {
				continue // other spellings of the same
			}
			seen := map[string]bool{}
			for _, r := range rows {
				if !slices.Contains(all, r) || seen[r] {
					t.Errorf("limit %d, %s: row %s is not in the table, or twice", n, m, r)
				}
				seen[r] = true
			}
		}
	}
}

// TestMissingShard: a scatter over an incomplete set of shards must fail, not
// give the rows that are left.
func TestMissingShard(t *testing.T) {
	weft := harness.Uneven(t, 1, 1, 1, 1)
	const db = "w_missing"
	if err := createDatabases(db, "", weft.Shards(), harness.Postgres(t).Home); err != nil {
		t.Fatal(err)
	}
	p := pair.Connect(t, weft, db, "postgres")
	p.Must(t, "create table m (k int8 primary key, v int4)")
	p.Must(t, "insert into m select i, i from generate_series(1, 100) i")
	p.Must(t, "select weft.shard_table('m', 'k')")
	reads := []string{
		"select count(*) from m", "select k from m", "select k from m order by k limit 3", "select v, count(*) from m group by v",
		"select sum(x.v) from m x join m y on x.v = y.v", "select * from m x where exists (select 1 from m y where y.v = x.k)",
	}
	for _, sql := range reads {
		p.Must(t, sql)
	}
	lost := weft.Shards()[2]
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	conn, err := pgx.Connect(ctx, lost.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(ctx, "alter database "+db+" with allow_connections false"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(ctx, "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = $1", db); err != nil {
		t.Fatal(err)
	}
	for _, m := range pair.Modes {
		for _, sql := range reads {
			if a := p.Ask(m, sql, nil, nil); a.Code == "" {
				t.Errorf("%s, %s: answered without a shard: %v", m, sql, a.Results)
			} else if a.Refused() || a.Code == "?????" || strings.HasPrefix(a.Code, "XX") {
				t.Errorf("%s, %s: %s %s", m, sql, a.Code, a.Message)
			}
		}
	}
	if _, err := conn.Exec(ctx, "alter database "+db+" with allow_connections true"); err != nil {
		t.Fatal(err)
	}
	q := pair.Connect(t, weft, db, "postgres")
	for _, sql := range reads {
		q.Must(t, sql)
	}
}
