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
	testWritten(t, w)
}

// testWritten copies what statements return that write.
func testWritten(t *testing.T, w *world) {
	for _, sql := range []string{
		"create table ids (id serial primary key, k int)", "create table tags (id int primary key, tag text)", "create table mails (k int primary key, mail text unique)",
	} {
		must(t, w.plain, sql)
		must(t, w.weft, sql)
	}
	for _, sql := range []string{"select weft.shard_table('ids', 'id')", "select weft.reference_table('tags')", "select weft.shard_table('mails', 'k')"} {
		must(t, w.weft, sql)
	}
	for _, sql := range []string{
		"copy (insert into items (k, a) values (2001, 'x'), (2002, E'a\\tb'), (2003, null), (2004, 'z') returning k, a, c) to stdout",
		"copy (insert into items (k, a) values (2001, 'y'), (2005, 'y') on conflict (k) do nothing returning k, a) to stdout",
		"copy (insert into items (k, a) select k + 5000, a from items where k < 20 returning *) to stdout (format csv, header, force_quote (a))",
		"copy (insert into items (k, a) select k + 6000, a from items where false returning *) to stdout csv header",
		"copy (insert into items (k) select b + 7000 from items where b is not null group by b returning k) to stdout binary",
		"copy (insert into ids (k) values (1), (2), (3), (4), (5) returning id, k) to stdout",
		"copy (insert into ids (k) values (6) returning id, k) to stdout",
		"copy (insert into tags values (1, 'one'), (2, 'two') returning *) to stdout",
		"copy (insert into lone select k, a from items where k < 5 returning *) to stdout",
		"copy (insert into mails values (1, 'a'), (2, 'b') returning *) to stdout",
		"copy (insert into mails values (3, 'b'), (4, 'c') returning *) to stdout",
		"copy (insert into mails values (3, 'c') returning *) to stdout",
		"copy (update mails set mail = mail || 'x' where k = 1 returning *) to stdout",
		"copy (update items set b = b + 1 where k < 30 returning k, b) to stdout",
		"copy (update items set b = b + 1 where k < 30 returning k, b) to stdout (format binary)",
		"copy (update items set b = 5 where k = 3 returning k, b) to stdout",
		"copy (update items set b = 6 where k in (3, 4, 5) returning k, b) to stdout csv",
		"copy (update items i set c = n.note from notes n where n.id = i.k + 1 returning i.k, n.note) to stdout",
		"copy (update items set k = k + 10000 where k between 10 and 12 returning k, a) to stdout",
		"copy (delete from items where k in (20, 21, 22) returning *) to stdout (format csv, force_quote *)",
		"copy (with d as (delete from items where k in (23, 24, 25) returning *) select d.k, t.tag from d, tags t) to stdout",
		"copy (with d as (delete from items where k in (26, 27) returning *) insert into lone select k, a from d returning k) to stdout",
		"copy (update items set b = 1 / (k - 30) where k > 20 returning k) to stdout",
		"copy (update items set b = 2000 where k > 20 returning k) to stdout",
		"copy (update items set b = 1) to stdout",
		"copy (update items set b = 1 returning nope) to stdout",
		"copy (update items set b = 1 returning k) to stdout (format csv, force_quote (nope))",
		"copy (update items set b = 1 returning k) to stdout (force_quote (k))",
		"copy (update items set b = 1 returning k) to stdout (format nope)",
		"copy (update items set b = 9 where false returning k) to stdout",
	} {
		want, wantErr := copyTo(w.plain, sql)
		got, gotErr := copyTo(w.weft, sql)
		if want != got || wantErr != gotErr {
			t.Errorf("%s\nPostgreSQL: %s %s\nweft:       %s %s", sql, wantErr, clip(want), gotErr, clip(got))
		}
	}
	// The same by the extended protocol, alone and in a block that is rolled back.
	for i, sql := range []string{
		"copy (update items set b = 7 where k < 40 returning k) to stdout", "copy (update items set b = 1 / (k - k) where k = 7 returning k) to stdout",
		"copy (insert into ids (k) values (7), (8), (9) returning id, k) to stdout",
	} {
		for _, block := range []bool{false, true} {
			j := &job{sql: sql, extended: true, early: i == 0}
			told := map[bool]string{}
			for _, c := range []*pgconn.PgConn{w.plain, w.weft} {
				if block {
					must(t, c, "begin")
				}
				a := j.run(c)
				rows := slices.Concat(a.data...)
				lines := strings.SplitAfter(string(rows), "\n")
				slices.Sort(lines)
				told[c == w.weft] = a.told + "\n" + strings.Join(lines, "")
				if block {
					must(t, c, "rollback")
				}
			}
			if told[false] != told[true] {
				t.Errorf("%s, in a block: %v\nPostgreSQL: %s\nweft:       %s", sql, block, told[false], told[true])
			}
		}
	}
	w.same(t)
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
