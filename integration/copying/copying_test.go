package copying

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

func TestMain(m *testing.M) {
	harness.ShardCount = 4
	os.Exit(harness.Main(m))
}

var itemSetup = []string{
	"create table items (k int, a text, b int check (b < 1000), c text default 'dflt', primary key (k))",
	"create table lone (k int primary key, a text)", // at home
}

// TestItems does everything that needs no more than a table.
func TestItems(t *testing.T) {
	w := newWorld(t, "items", itemSetup, "select weft.shard_table('items', 'k')")
	for _, c := range []struct {
		name string
		test func(*testing.T, *world)
	}{
		{"from", testFrom},
		{"first error", testFirstError},
		{"given up", testGivenUp},
		{"client gone", testClientGone},
		{"shard gone", testShardGone},
		{"cancelled", testCancelled},
		{"block", testBlock},
		{"extended", testExtended},
		{"syncs", testSyncs},
		{"piped", testPiped},
		{"shard crashed", testShardCrashed}, // the connections of the others end
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, w.anew(t)) })
	}
}

// testFrom copies good and bad data in all formats. In which pieces it comes must not
// matter; package copydata looks closer at that.
func testFrom(t *testing.T, w *world) {
	for i, c := range fromCases {
		told := w.both(t, c[0], c[1], []int{1, 7, 1 << 16}[i%3])
		w.same(t)
		if strings.HasPrefix(told, "COPY") {
			must(t, w.plain, "delete from items")
			must(t, w.weft, "delete from items")
		}
	}
}

func lines(n int, format func(i int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(format(i))
	}
	return b.String()
}

var hundred = lines(100, func(i int) string { return fmt.Sprintf("%d\tname %d\t%d\tx\n", i, i, i%7) })

var fromCases = [][2]string{
	{"copy items from stdin", hundred},
	{"copy items from stdin", ""},
	{"copy items (k, a) from stdin", "1\tx\n2\t\\N\n3\t\\\\N\n4\ta\\tb\\nc\\x41\\101\\q\n"},
	{"copy items (a, k) from stdin", "x\t1\ny\t 2\nz\t+3\n\\N\t4"},
	{"copy items (k, a) from stdin", "1\tx\r\n2\ty\r\n3\tz\r\n"},
	{"copy items (k, a) from stdin", "1\tx\r2\ty\r3\tz\r"},
	{"copy items (k, a) from stdin", "1\tx\r\n2\ty\n3\tz\r\n"},
	{"copy items (k, a) from stdin", "1\tx\n2\ty\r\n3\tz\n"},
	{"copy items (k, a) from stdin", "1\tx\r2\ty\n3\tz\r"},
	{"copy items (k, a) from stdin", "1\tx\n2\ty\\\nz\n3\tz\n"},
	{"copy items (k, a) from stdin", "1\tx\n2\ty\n\\.\n3\tz\n"},
	{"copy items (k, a) from stdin", "1\tx\n2\ty\\.\n3\tz\n"},
	{"copy items (k, a) from stdin", "1\tx\n2\ty\n\\."},
	{"copy items (k, a) from stdin", "1\tx\n2\ty\n\\.x\n"},
	{"copy items (k, a) from stdin", "1\tx\r\n2\ty\r\n\\.\n"},
	{"copy items (k, a) from stdin", "1\tx\r\n2\ty\r\n\\.\r\n9\tz\r\n"},
	{"copy items (k, a) from stdin", "1\tx\n2\n3\tz\n"},
	{"copy items (k, a) from stdin", "1\tx\n2\ty\tz\n3\tz\n"},
	{"copy items (k, a) from stdin", "1\tx\nbad\ty\n3\tz\n"},
	{"copy items (k, a) from stdin", "1\tx\n\n3\tz\n"},
	{"copy items (a) from stdin", "1\tx\n"},
	{"copy items (a) from stdin", "x\ny\n"},
	{"copy items (k, a) from stdin", "1\tx\n99999999999\ty\n3\tz\n"},
	{"copy items (k, b) from stdin", lines(50, func(i int) string { return fmt.Sprintf("%d\t%d\n", i, i*25) })},
	{"copy items (k, b) from stdin", lines(300, func(i int) string { return fmt.Sprintf("%d\t1\n", i%250) })},
	{"copy items (k, b) from stdin", lines(50, func(i int) string { return fmt.Sprintf("%d\t%s\n", i, map[bool]string{true: "x", false: "1"}[i == 33]) })},
	{"copy items (k, b) from stdin where b > 3", lines(50, func(i int) string { return fmt.Sprintf("%d\t%d\n", i, i%10) })},
	{"copy items (k, a) from stdin delimiter ',' null 'nil'", "1,nil\n2,x\\,y\nnil,z\n"},
	{"copy items (k, a) from stdin with (delimiter '|', null '')", "1|\n2|\\|\n3|x\n"},
	{"copy items (k, a) from stdin with (header)", "k\ta\n1\tx\n2\ty\n"},
	{"copy items (k, a) from stdin with (header match)", "k\ta\n1\tx\n2\ty\n"},
	{"copy items (k, a) from stdin with (header match)", "k\tb\n1\tx\n2\ty\n"},
	{"copy items (k, a) from stdin with (header match)", "k\n1\tx\n2\ty\n"},
	{"copy items (k, a) from stdin with (header match)", "k\t\\N\n1\tx\n2\ty\n"},
	{"copy items (k, a) from stdin with (header match)", ""},
	{"copy items (k, a) from stdin with (header)", "k\ta\n1\tx\nbad\ty\n"},
	{"copy items (k, a) from stdin csv", "1,x\n2,\"y\ny\"\n3,\"\"\n4,\n5,\"a\"\"b\"\n6,z"},
	{"copy items (k, a) from stdin csv", "1,x\n2,\"y\ny\"\n\"3\",\"\"\nbad,\n5,\"a\"\"b\"\n6,z"},
	{"copy items (k, a) from stdin csv", "1,\"x\n\n\"\n2,\"y\ny\"\n\"3\",\"\"\n4,\nbad,\"a\"\"b\"\n6,z"},
	{"copy items (k, a) from stdin csv", "1,\"x\r\n\"\r\n2,\"y\ny\"\r\n\"3\",\"\"\r\n4,\r\nbad,\"a\"\"b\"\r\n6,z"},
	{"copy items (k, a) from stdin csv", "1,x\n2,\"unterminated\n3,z\n"},
	{"copy items (k, a) from stdin csv", "1,x\n2,\\.\n\\.x,3\n"},
	{"copy items (k, a) from stdin csv", "1,x\n2,\\.\n\\.\n3,x\n"},
	{"copy items (k, a) from stdin csv", "1,x\n2,y\n3,x\rz\n"},
	{"copy items (k, a) from stdin csv", "1,x\r\n2,y\r\n3,x\nz\r\n"},
	{"copy items (k, a) from stdin csv header", "k,\"a\nb\"\n1,x\n2,y\n"},
	{"copy items (k, a) from stdin (format csv, header match)", "k,\"a\"\n1,x\n2,y\n"},
	{"copy items (k, a) from stdin (format csv, header match)", "k,\"a\nb\"\n1,x\n2,y\n"},
	{"copy items (k, a) from stdin (format csv, quote '''', escape '\\')", "1,'x\\'y'\n2,'a\\\\'\n3,'a,b'\n4,a\\b\n"},
	{"copy items (k, a) from stdin (format csv, null 'n', force_not_null (a))", "1,n\n2,\"n\"\n3,x\n"},
	{"copy items (k, a) from stdin (format csv, null 'n', force_null (a))", "1,n\n2,\"n\"\n3,x\n"},
	{"copy items (k, a) from stdin (format csv, null 'n', force_null (k))", "1,n\n\"n\",\"n\"\n3,x\n"},
	{"copy items (k, a) from stdin (format csv, delimiter ';')", "1;x\n2;\"a;b\"\n"},
	{"copy items (k, a) from stdin (format csv, delimiter ';', delimiter ',')", "1;x\n"},
	{"copy items (k, a) from stdin (format csv, delimiter 'ab')", "1;x\n"},
	{"copy items (k, a) from stdin (format nope)", "1;x\n"},
	{"copy items (k, a) from stdin (format binary, header)", "1;x\n"},
	{"copy items (k, a) from stdin (format binary)", "1;x\n"},
	{"copy items (k, a) from stdin (format binary)", ""},
	{"copy items (k, a) from stdin (quote 'x')", "1;x\n"},
	{"copy items (k, nope) from stdin", "1;x\n"},
	{"copy items (k, k) from stdin", "1;x\n"},
	{"copy items (k, a) from stdin (freeze)", "1\tx\n"},
	{"copy items (k, a) from stdin (encoding 'latin1')", "1\tx\n2\tgr\xfc\xdfe\n"},
	{"copy items (k, a) from stdin", "1\tx\n2\tgr\xfc\xdfe\n3\ty\n"},
	{"copy items (k, a) from stdin (format csv, default 'D')", "1,D\n"},
}

// TestTo reads what both sides make of COPY TO.
func TestTo(t *testing.T) {
	w := newWorld(t, "to", append(slices.Clone(itemSetup), "create table notes (id int primary key, note text)"),
		"select weft.shard_table('items', 'k')", "select weft.shard_table('notes', 'id')")
	w.both(t, "copy items from stdin", hundred, 4096)
	w.both(t, "copy items (k, a, b, c) from stdin", "1000\t\\N\t1\ta\\tb\\\\c\\nd\n1001\t\"q\"\t2\ta,b\n1002\t\\\\.\t\\N\t\\N\n1003\t\t\\N\t;\\r\n", 4096)
	w.both(t, "copy notes from stdin", "1\tone\n50\tfifty\n", 4096)
	for _, sql := range []string{
		"copy items to stdout",
		"copy items (c, k) to stdout",
		"copy items to stdout csv",
		"copy items to stdout csv header",
		"copy items to stdout (format csv, header, force_quote *)",
		"copy items (a, k) to stdout (format csv, force_quote (a), null 'NULL', delimiter ';', quote '''')",
		"copy items (a) to stdout csv",
		"copy items to stdout (header)",
		"copy items to stdout (delimiter '|', null '?')",
		"copy items to stdout (format binary)",
		"copy items to stdout (delimiter '\x01')",
		"copy (select b, count(*) from items group by b order by b) to stdout (format csv, header on)",
		"copy (select b, count(*) from items group by b order by b) to stdout (format csv, header off, delimiter E'\\x01')",
		"copy (select k, a from items where k = 7) to stdout",
		"copy (select k, a from items order by k desc limit 10) to stdout csv header",
		"copy (select b, count(*), sum(k) from items group by b order by b nulls last) to stdout csv header",
		"copy (select k, n.note from items i join notes n on n.id = i.k order by 1) to stdout",
		"copy (select k, n.note, row_number() over (order by k) from items i left join notes n on n.id = i.k order by 1) to stdout (format binary)",
		"copy (select from items where k < 3) to stdout",
		"copy (select k / (k - 7) from items) to stdout",
		"copy (select nope from items) to stdout",
		"copy items (nope) to stdout",
		"copy items to stdout (format nope)",
		"copy (select k from items where false) to stdout csv header",
		"copy (select k from items where false) to stdout binary",
	} {
		want, wantErr := copyTo(w.plain, sql)
		got, gotErr := copyTo(w.weft, sql)
		if want != got || wantErr != gotErr {
			t.Errorf("%s\nPostgreSQL: %s %s\nweft:       %s %s", sql, wantErr, clip(want), gotErr, clip(got))
		}
	}
}

// copyTo returns the data, its lines in order unless the statement says one.
func copyTo(c *pgconn.PgConn, sql string) (data, told string) {
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	var b bytes.Buffer
	tag, err := c.CopyTo(ctx, &b, sql)
	told = outcome(tag, err)
	if err != nil {
		told = told[:strings.Index(told, "\nDETAIL")]
		return "", told
	}
	if strings.Contains(sql, "order by") {
		return b.String(), told
	}
	if strings.Contains(sql, "binary") {
		rows := binaryRows(b.Bytes())
		slices.SortFunc(rows[1:], slices.Compare)
		return string(slices.Concat(rows...)), told
	}
	head, rest := "", b.String()
	if strings.Contains(sql, "header") {
		head, rest, _ = strings.Cut(rest, "\n")
	}
	rows := strings.SplitAfter(rest, "\n")
	slices.Sort(rows)
	return head + "\n" + strings.Join(rows, ""), told
}
