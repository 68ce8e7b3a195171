package catalog

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestBuiltinFunctions asks a server whether the list of functions is right.
func TestBuiltinFunctions(t *testing.T) {
	ctx := context.Background()
	srv := pgtest.Start(t, pgserver.Config{})
	c, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(ctx)
	results, err := c.PgConn().Exec(ctx, "SHOW server_version_num;\n"+builtinQuery).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if v := string(results[0].Rows[0][0]); !strings.HasPrefix(v, fmt.Sprint(builtinVersion)) {
		t.Skipf("the list is of PostgreSQL %d, this is %s", builtinVersion, v)
	}
	var list strings.Builder
	asked := map[string]Traits{}
	for _, r := range results[len(results)-1].Rows {
		fmt.Fprintf(&list, "%s: %s\n", r[0], r[1])
		if err := addTraits(asked, string(r[0]), string(r[1])); err != nil {
			t.Fatal(err)
		}
	}
	if f := flag.Lookup("rewrite"); f.Value.String() == "true" {
		if err := os.WriteFile("functions15.txt", []byte(list.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if list.String() != builtinList {
		t.Error("the list is not what the server has: run with -rewrite")
	}
	if len(asked) < 2000 {
		t.Errorf("%d functions", len(asked))
	}
}

// TestTraits: the worst of functions of one name counts, offline too, and a
// server of another version is asked for its own.
func TestTraits(t *testing.T) {
	offline, err := FromDump("")
	if err != nil {
		t.Fatal(err)
	}
	newer, err := Load(1, func(sql string) ([][]string, error) {
		if sql == builtinQuery {
			return [][]string{{"ia", "count sum"}, {"vr", "fresh"}}, nil
		}
		return [][]string{{"l", "t", "UTF8", "99"}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		schema *Schema
		name   string
		want   Traits
	}{
		{offline, "lower", Traits{Known: true, Volatility: 'i'}},
		{offline, "now", Traits{Known: true, Volatility: 's'}},
		{offline, "random", Traits{Known: true, Volatility: 'v'}},
		{offline, "count", Traits{Known: true, Aggregate: true, Volatility: 'i'}},
		{offline, "percentile_cont", Traits{Known: true, Aggregate: true, Volatility: 'i'}},
		{offline, "rank", Traits{Known: true, Aggregate: true, Window: true, Volatility: 'i'}},
		{offline, "row_number", Traits{Known: true, Window: true, Volatility: 'i'}},
		{offline, "generate_series", Traits{Known: true, SetReturning: true, Volatility: 's'}}, // over timestamptz
		{offline, "to_char", Traits{Known: true, Volatility: 's'}},
		{offline, "fresh", Traits{}},
		{newer, "fresh", Traits{Known: true, SetReturning: true, Volatility: 'v'}},
		{newer, "sum", Traits{Known: true, Aggregate: true, Volatility: 'i'}},
		{newer, "lower", Traits{}},
	} {
		if got := tc.schema.Builtin(tc.name); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
}

// TestBytewise proves on a server what Bytewise claims: each database's default
// collation, and those that every database has, against memcmp.
func TestBytewise(t *testing.T) {
	ctx := context.Background()
	srv := pgtest.Start(t, pgserver.Config{})
	admin, err := pgx.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer admin.Close(ctx)
	var version int
	if err := admin.QueryRow(ctx, "SELECT current_setting('server_version_num')::int").Scan(&version); err != nil {
		t.Fatal(err)
	}
	for _, db := range []struct {
		name, options string
		since         int // the server's version
		bytewise      bool
		encoding      string
		basic         string // ucs_basic is for UTF8 alone
	}{
		{"plain", "LOCALE 'C'", 0, true, "UTF8", "ucs_basic"},
		{"posix", "LC_COLLATE 'POSIX'", 0, true, "UTF8", "ucs_basic"},
		{"cutf8", "LOCALE 'C.UTF-8'", 0, false, "UTF8", "ucs_basic"},
		{"icu", "LOCALE_PROVIDER icu ICU_LOCALE 'en-US' LOCALE 'C'", 150000, false, "UTF8", "ucs_basic"},
		{"builtin", "LOCALE_PROVIDER builtin LOCALE 'C.UTF-8'", 170000, true, "UTF8", "ucs_basic"},
		{"latin", "LOCALE 'C' ENCODING 'LATIN1'", 0, true, "LATIN1", `"C"`},
	} {
		if version < db.since {
			continue
		}
		if _, err := admin.Exec(ctx, "CREATE DATABASE "+db.name+" TEMPLATE template0 "+db.options); err != nil {
			t.Fatal(err)
		}
		c, err := pgx.Connect(ctx, srv.ConnString(db.name))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close(ctx)
		if _, err := c.Exec(ctx, `CREATE TABLE t (a text, b text COLLATE "C", c text COLLATE "POSIX", d text COLLATE `+db.basic+`, e name, f integer, g varchar(9)[])`); err != nil {
			t.Fatal(err)
		}
		s := loadFrom(t, c)
		if s.Bytewise != db.bytewise || s.Encoding != db.encoding {
			t.Errorf("%s: %v %s", db.name, s.Bytewise, s.Encoding)
		}
		for col, want := range map[string]bool{"a": db.bytewise, "b": true, "c": true, "d": true, "e": true, "f": false, "g": db.bytewise} {
			if got := s.Relation(Name{"public", "t"}).Column(col).Bytewise; got != want {
				t.Errorf("%s: column %s: %v", db.name, col, got)
			}
		}
		for _, col := range []string{"a", "b", "c", "d"} {
			if !s.Relation(Name{"public", "t"}).Column(col).Bytewise {
				continue
			}
			ordered(t, c, db.name, col)
		}
	}

	dumped, err := FromDump("CREATE DATABASE x WITH TEMPLATE = template0 ENCODING = 'LATIN1' LOCALE_PROVIDER = libc LOCALE = 'C'; CREATE TABLE t (a text, b int)")
	if err != nil || !dumped.Bytewise || dumped.Encoding != "LATIN1" {
		t.Errorf("a dump: %v", err)
	} else if r := dumped.Relation(Name{"public", "t"}); !r.Columns[0].Bytewise || r.Columns[1].Bytewise {
		t.Errorf("a dump: %+v", r.Columns)
	}
	dumped, err = FromDump("CREATE DATABASE x LOCALE_PROVIDER = icu LOCALE = 'C' ICU_LOCALE = 'en'")
	if err != nil || dumped.Bytewise {
		t.Errorf("a dump: %v", err)
	}
}

func loadFrom(t *testing.T, c *pgx.Conn) *Schema {
	t.Helper()
	s, err := Load(1, func(sql string) ([][]string, error) {
		results, err := c.PgConn().Exec(context.Background(), sql).ReadAll()
		var rows [][]string
		for _, res := range results {
			for _, r := range res.Rows {
				row := make([]string, len(r))
				for i, v := range r {
					row[i] = string(v)
				}
				rows = append(rows, row)
			}
		}
		return rows, err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// ordered has PostgreSQL sort strings of all sorts by a column's collation.
func ordered(t *testing.T, c *pgx.Conn, database, col string) {
	t.Helper()
	ctx := context.Background()
	// Every character, and pairs that a dictionary would order otherwise.
	_, err := c.Exec(ctx, `TRUNCATE t; INSERT INTO t (`+col+`)
		SELECT chr(i) || suffix FROM generate_series(1, CASE getdatabaseencoding() WHEN 'UTF8' THEN 70000 ELSE 255 END) i, unnest(ARRAY['', 'a', 'B', ' -z']) suffix
		WHERE (i < 3000 OR i % 11 = 0) AND i NOT BETWEEN 55296 AND 57343`)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := c.Query(ctx, "SELECT convert_to("+col+", getdatabaseencoding()) FROM t ORDER BY "+col)
	if err != nil {
		t.Fatal(err)
	}
	values, err := pgx.CollectRows(rows, pgx.RowTo[[]byte])
	if err != nil || len(values) < 1000 {
		t.Fatal(len(values), err)
	}
	if !slices.IsSortedFunc(values, func(a, b []byte) int { return strings.Compare(string(a), string(b)) }) {
		t.Errorf("%s: column %s is not in the order of bytes", database, col)
	}
}
