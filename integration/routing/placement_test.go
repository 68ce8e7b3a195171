package routing

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestVerifyPlacement: rows that somebody has put where their keys do not belong are
// counted and shown, for every kind of vindex.
func TestVerifyPlacement(t *testing.T) {
	db := database(t, "verify_placement")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, `create table h (k int, n int); create table two (a int, b text, n int); create table r (k int, n int); create table tenants (t text, n int);
create table parts (k int, n int) partition by range (n); create table parts1 partition of parts for values from (0) to (10); create table parts2 partition of parts default`)
	p.Must(t, "select weft.shard_table('h', 'k')")
	p.Must(t, "select weft.shard_table('two', 'a, b')")
	p.Must(t, "select weft.shard_table('r', 'k', vindex => 'range', params => '{\"zones\": [{\"below\": 20, \"buckets\": \"0-15\"}, {\"below\": 30, \"buckets\": \"16-40\"}, {\"buckets\": \"41-63\"}]}')")
	p.Must(t, "select weft.shard_table('tenants', 't', vindex => 'lookup_unique', name => 'placement_dir')")
	p.Must(t, "select weft.shard_table('parts', 'k')")
	p.Must(t, "select weft.pin('placement_dir', 'acme', 'shard-2')")
	p.Must(t, "insert into h select i, i from generate_series(1, 40) i")
	p.Must(t, "insert into h values (null, 1), (null, 2)")
	p.Must(t, "insert into two select i % 5, 'b' || i, i from generate_series(1, 40) i")
	p.Must(t, "insert into two values (null, 'x', 1), (1, null, 1), (null, null, 1)")
	p.Must(t, "insert into r select i, i from generate_series(1, 40) i")
	p.Must(t, "insert into tenants select case when i = 7 then 'acme' else 't' || i end, i from generate_series(1, 40) i")
	p.Must(t, "insert into tenants values (null, 0)")
	p.Must(t, "insert into parts select i, i from generate_series(1, 40) i")
	placement := func(sql string) string {
		return strings.Join(cells(t, p.Must(t, sql)), "\n")
	}
	fine := "h | 42 | 0 | \nparts | 40 | 0 | \nr | 40 | 0 | \ntenants | 41 | 0 | \ntwo | 43 | 0 | "
	if got := placement("select * from weft.verify_placement()"); got != fine {
		t.Fatalf("%q", got)
	}
	for table, c := range map[string][2]string{
		"h":       {"insert into h select i, 0 from generate_series(1, 40) i", "(k)=("},
		"two":     {"insert into two select i, null, 0 from generate_series(1, 40) i", "NULL)"},
		"r":       {"insert into r select i, 0 from generate_series(1, 40) i", "(k)=("},
		"tenants": {"insert into tenants select case when i = 7 then 'acme' else 't' || i end, 0 from generate_series(1, 40) i", "(t)=(acme) is on shard-0 and belongs on shard-2"},
		"parts":   {"insert into parts2 select i, 90 from generate_series(1, 40) i", "(k)=("},
	} {
		onShard(t, 0, db, c[0])
		own := holdersCount(t, db, "select from "+table)
		got := placement("select * from weft.verify_placement('" + table + "')")
		f := strings.Split(got, " | ")
		if len(f) != 4 || f[1] != fmt.Sprint(own) || f[2] == "0" || f[2] == f[1] || !strings.Contains(f[3], c[1]) || !strings.Contains(f[3], "is on shard-0 and belongs on shard-") {
			t.Errorf("%s: %q", table, got)
		}
	}
	for _, name := range []string{"pg_class", "parts1"} {
		if a := p.Ask(pair.Simple, "select weft.verify_placement('"+name+"')", nil, nil); a.Code != "55000" {
			t.Errorf("%s: %s %s", name, a.Code, a.Message)
		}
	}
}

// holdersCount counts the rows of a query on all shards.
func holdersCount(t testing.TB, db, query string) (n int) {
	t.Helper()
	for _, s := range harness.Weft(t).Shards() {
		ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
		conn := pair.Dial(t, ctx, s, db)
		var own int
		err := conn.QueryRow(ctx, "select count(*) from ("+query+") q").Scan(&own)
		_ = conn.Close(ctx)
		stop()
		if err != nil {
			t.Fatal(err)
		}
		n += own
	}
	return n
}
