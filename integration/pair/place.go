package pair

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/directory"
	"weft/integration/harness"
	"weft/pgserver"
	"weft/vindex"
)

// SameTables compares every table of a database with what the shards hold of
// it, past weft: nothing missing, nothing twice, each row where its key says.
func SameTables(t testing.TB, database string, mask map[string]bool) {
	t.Helper()
	x := OpenTables(t, database)
	defer x.Close()
	x.Same(t, mask)
}

// Tables are those of a database, for who compares them often: the connections past
// weft are kept.
type Tables struct {
	database string
	plain    *pgx.Conn
	shards   []*pgx.Conn
}

// OpenTables connects to all servers.
func OpenTables(t testing.TB, database string) *Tables {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	x := &Tables{database: database, plain: Dial(t, ctx, harness.Postgres(t).Home, database)}
	for _, s := range harness.Weft(t).Shards() {
		x.shards = append(x.shards, Dial(t, ctx, s, database))
	}
	return x
}

// Close closes the connections.
func (x *Tables) Close() {
	ctx, stop := context.WithTimeout(context.Background(), Patience)
	defer stop()
	for _, c := range append(x.shards, x.plain) {
		_ = c.Close(ctx)
	}
}

// Same compares the tables, but for the columns that mask names.
func (x *Tables) Same(t testing.TB, mask map[string]bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), 3*Patience)
	defer stop()
	defer harness.Still()()
	snapshot, database, plain, shards := harness.Snapshot(t).For(x.database), x.database, x.plain, x.shards
	for _, table := range userTables(t, ctx, plain) {
		columns := columnsOf(t, ctx, plain, table, mask)
		want := rowsOf(t, ctx, plain, table, columns, "0")
		i := slices.IndexFunc(snapshot.Tables, func(d directory.Table) bool {
			return d.Database == database && d.Schema == table.schema && d.Name == table.name
		})
		if i < 0 {
			samePlaced(t, table.String()+" at home", want, rowsOf(t, ctx, shards[0], table, columns, "0"))
			for n, shard := range shards[1:] {
				if exists(t, ctx, shard, table) {
					t.Errorf("%s is a home table, and shard %d has one too", table, n+1)
				}
			}
			continue
		}
		declared := snapshot.Tables[i]
		if declared.Kind == directory.Reference {
			for n, shard := range shards {
				samePlaced(t, fmt.Sprintf("reference table %s on shard %d", table, n), want, rowsOf(t, ctx, shard, table, columns, "0"))
			}
			continue
		}
		bucket := bucketOf(t, declared, snapshot)
		var got []row
		for n, shard := range shards {
			for _, r := range rowsOf(t, ctx, shard, table, columns, bucket) {
				if bucket != "0" && int(snapshot.Placement[r.bucket]) != n {
					t.Errorf("%s: row %s is on shard %d, its bucket %d belongs to %d", table, r.text, n, r.bucket, snapshot.Placement[r.bucket])
				}
				got = append(got, r)
			}
		}
		samePlaced(t, "sharded table "+table.String(), want, got)
		for _, c := range columnsOf(t, ctx, plain, table, nil) {
			if mask[c] && isUnique(t, ctx, plain, table, c) {
				unique(t, ctx, shards, table, c)
			}
		}
	}
}

// isUnique reports whether no two rows of a table have the same value in a column:
// statements may have given some.
func isUnique(t testing.TB, ctx context.Context, conn *pgx.Conn, table tableName, column string) (yes bool) {
	t.Helper()
	column = pgx.Identifier{column}.Sanitize()
	if err := conn.QueryRow(ctx, "select count("+column+") = count(distinct "+column+") from "+table.String()).Scan(&yes); err != nil {
		t.Fatal(err)
	}
	return yes
}

// Dial connects to a server past weft.
func Dial(t testing.TB, ctx context.Context, s *pgserver.Temp, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(ctx, s.ConnString(database))
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

type tableName struct{ schema, name string }

func (n tableName) String() string { return pgx.Identifier{n.schema, n.name}.Sanitize() }

func userTables(t testing.TB, ctx context.Context, conn *pgx.Conn) []tableName {
	t.Helper()
	rows, err := conn.Query(ctx, `select n.nspname, c.relname from pg_class c join pg_namespace n on n.oid = c.relnamespace
		where c.relkind in ('r', 'p') and not c.relispartition and c.relpersistence <> 't'
		and n.nspname !~ '^pg_' and n.nspname not in ('information_schema', 'weft', 'weft_gate') order by 1, 2`)
	if err != nil {
		t.Fatal(err)
	}
	names, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (n tableName, err error) {
		return n, r.Scan(&n.schema, &n.name)
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func columnsOf(t testing.TB, ctx context.Context, conn *pgx.Conn, table tableName, mask map[string]bool) []string {
	t.Helper()
	rows, err := conn.Query(ctx, "select attname from pg_attribute where attrelid = $1::regclass and attnum > 0 and not attisdropped order by attnum", table.String())
	if err != nil {
		t.Fatal(err)
	}
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(all, func(c string) bool { return mask[c] })
}

type row struct {
	bucket int64
	text   string
}

// rowsOf returns the rows of one server, each with the bucket that the
// expression gives.
func rowsOf(t testing.TB, ctx context.Context, conn *pgx.Conn, table tableName, columns []string, bucket string) []row {
	t.Helper()
	quoted := make([]string, len(columns))
	for i, c := range columns {
		quoted[i] = pgx.Identifier{c}.Sanitize()
	}
	rows, err := conn.Query(ctx, fmt.Sprintf("select (%s)::int8, row(%s)::text from %s", bucket, strings.Join(quoted, ", "), table))
	if err != nil {
		t.Errorf("%s: %v", table, err)
		return nil
	}
	out, err := pgx.CollectRows(rows, func(r pgx.CollectableRow) (v row, err error) { return v, r.Scan(&v.bucket, &v.text) })
	if err != nil {
		t.Errorf("%s: %v", table, err)
	}
	return out
}

func samePlaced(t testing.TB, what string, want, got []row) {
	t.Helper()
	left := map[string]int{}
	for _, r := range want {
		left[r.text]++
	}
	for _, r := range got {
		left[r.text]--
	}
	var missing, extra []string
	for text, n := range left {
		if n > 0 {
			missing = append(missing, fmt.Sprintf("%d × %s", n, text))
		} else if n < 0 {
			extra = append(extra, fmt.Sprintf("%d × %s", -n, text))
		}
	}
	if len(missing)+len(extra) > 0 {
		slices.Sort(missing)
		slices.Sort(extra)
		t.Errorf("%s:\n  missing %d:\n    %s\n  too many %d:\n    %s", what, len(missing), Excerpt(missing), len(extra), Excerpt(extra))
	}
}

// bucketOf is the SQL expression of a declared table's bucket; "0" if the key's
// place is kept elsewhere.
func bucketOf(t testing.TB, table directory.Table, snapshot *directory.Snapshot) string {
	t.Helper()
	v, err := table.NewVindex(snapshot.BucketCount)
	if err != nil {
		t.Fatalf("%s: %v", table.Name, err)
	}
	c, ok := v.(vindex.Computed)
	if !ok {
		return "0"
	}
	var columns []string
	for _, col := range table.Columns {
		columns = append(columns, pgx.Identifier{col.Name}.Sanitize())
	}
	sql, err := snapshot.BucketSQL(c, columns)
	if err != nil {
		t.Fatal(err)
	}
	return sql
}

// unique: what weft generates is never the same on two shards.
func unique(t testing.TB, ctx context.Context, shards []*pgx.Conn, table tableName, column string) {
	t.Helper()
	seen := map[string]int{}
	for n, shard := range shards {
		for _, r := range rowsOf(t, ctx, shard, table, []string{column}, "0") {
			if before, twice := seen[r.text]; twice {
				t.Errorf("%s: %s %s is on shard %d and on shard %d", table, column, r.text, before, n)
			}
			seen[r.text] = n
		}
	}
}

func exists(t testing.TB, ctx context.Context, conn *pgx.Conn, table tableName) (yes bool) {
	t.Helper()
	if err := conn.QueryRow(ctx, "select to_regclass($1) is not null", table.String()).Scan(&yes); err != nil {
		t.Fatal(err)
	}
	return yes
}
