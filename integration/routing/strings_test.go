package routing

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
	"weft/integration/pair"
)

func query(sql string) talk { return talk{&pgproto3.Query{String: sql}} }

// TestStrings changes how strings are read, in every way that there is. The text asks for
// one row or for another, on two shards, depending on it.
func TestStrings(t *testing.T) {
	db := database(t, "strings")
	p := newPair(t, db)
	for _, sql := range []string{
		"create table texts (k text primary key, v int not null)", "create table plain (k text)",
		`insert into texts select i || repeat(E'\\', n) || 'b', 10 * i + n from generate_series(0, 39) i, generate_series(1, 2) n`,
		"insert into plain select k from texts",
		"create function turn(t text) returns text language sql as $$ select set_config('standard_conforming_strings', t, false) $$",
		"create function turned() returns int language sql set standard_conforming_strings = off as $$ select 1 $$",
	} {
		p.Both(t, "schema", sql)
	}
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('texts', 'k')"})
	key := keyOfTwoShards(t, db)
	const off, on = "set standard_conforming_strings = off", "set standard_conforming_strings = on"
	const offLocal, onLocal = "set local standard_conforming_strings = off", "set local standard_conforming_strings = on"
	text := fmt.Sprintf(`select v from texts where k = '%s\\b'`, key)
	two := fmt.Sprintf(`update texts set v = v + 0 where k in (E'%s\\b', E'%[1]s\\\\b')`, key)
	q, begin, commit, rollback := query(text), query("begin"), query("commit"), query("rollback")
	for name, groups := range map[string][]talk{
		"session":         {q, query(off), q, query(on), q},
		"local":           {begin, query(offLocal), q, commit, q},
		"local, reversed": {query(off), begin, query(onLocal), q, rollback, q},
		"rolled back":     {begin, query(off), q, rollback, q},
		"failed":          {begin, query(off), q, query("selec"), rollback, q},
		"savepoint":       {begin, query("savepoint a"), query(off), q, query("savepoint b"), query(on), q, query("rollback to b"), q, query("rollback to a"), q, query(off), commit, q},
		"chained":         {begin, query(offLocal), q, query("commit and chain"), q, query(off), query("commit and chain"), q, commit, q},
		"two shards":      {begin, query(offLocal), query(two), q, commit, q, begin, query(off), query(two), q, commit, q},
		"set_config": {
			query("select set_config('standard_conforming_strings', 'off', false)"), q, begin,
			query("select set_config('standard_conforming_strings', 'on', true)"), q, commit, q,
		},
		"set_config over rows": {query("select count(set_config('standard_conforming_strings', 'off', false)) from texts"), q},
		"set_config of a row":  {query(`select set_config('standard_conforming_strings', 'off', false) from texts where k = E'` + key + `\\b'`), q},
		"reset":                {query(off), query("reset standard_conforming_strings"), q, query(off), query("reset all"), q, query(off), query("discard all"), q},
		"function":             {query("select turn('off')"), q, query("select turned()"), q, begin, query("select turn('on')"), q, rollback, q},
		"do":                   {query("do $$ begin perform set_config('standard_conforming_strings', 'off', false); end $$"), q, query("do $$ begin set standard_conforming_strings = on; end $$"), q},
		"text":                 {query(off + "; " + text), q, query(on), query("begin; " + off + "; " + text), q, rollback, q},
		"text of no table":     {query(off + `; select 'a\\b'`), query(`select 'a\\b'; ` + on), query(`select 'a\\b'; ` + off + `; select 'a\\b'; select 1 / 0`), q},
		"text in a block":      {begin, query(off + "; select 1"), q, query("rollback; " + text), q},
		"pipeline":             {all(x(off), x(text)), x(text), all(x(on), x(text)), x(text)},
		"pipeline, failed":     {all(x(off), x("select 1 / 0")), x(text), all(x(off), x(text), x("select 1 / 0")), x(text)},
		"pipeline, no table":   {all(x(off), x(`select 'a\\b'`)), all(x(on), x(`select 'a\\b'`), x("select k from plain where k = 'a\\b'"))},
		"pipeline, set_config": {all(x("select set_config($1, $2, false)", "standard_conforming_strings", "off"), x(text)), x(text)},
		"pipeline, function":   {all(x("select turn('off')"), x(text)), x(text)},
		"pipeline, block":      {all(x("begin"), x(offLocal), x(text), x("commit"), x(text)), x(text)},
		"pipeline, savepoint":  {all(x("begin"), x("savepoint a"), x(off), x(text), x("rollback to a"), x(text), x("commit")), x(text)},
		"pipeline, query":      {all(x(off), q), q},
		"pipeline, two shards": {all(x(two), x(off), x(text)), x(text)},
		"prepared":             {named("s", text), again("s"), query(off), again("s"), query(on), again("s")},
		"prepared, reversed":   {query(off), named("s", text), again("s"), query(on), again("s")},
		"prepared in a block":  {begin, query(offLocal), named("s", text), again("s"), commit, again("s"), query(off), again("s")},
		"prepared by SQL":      {query("prepare s as " + text), query("execute s"), query(off), query("execute s"), x("execute s"), query(on), query("execute s")},
		"prepared with values": {query("prepare s(text) as select v from texts where k = $1"), query(off), query(`execute s('` + key + `\\b')`), query(on), query(`execute s('` + key + `\\b')`)},
		"unnamed":              {bind(text, ""), query(off), talk{&pgproto3.Parse{Query: text}}, begin, query(onLocal), again(""), rollback},
		"portal":               {x("begin"), bind(text, "p"), x(off), execute("p"), bind(text, "o"), x(on), execute("o"), x("commit")},
		"portal, gathered":     {x("begin"), bind(`select v from texts where k like '`+key+`\\\\%'`, "p"), x(off), execute("p"), x("commit")},
		"cursor":               {begin, query("declare c cursor for " + text), query(off), query("fetch all from c"), query("declare d cursor for " + text), query(on), query("fetch all from d"), rollback},
		"gathered":             {query(`select v from texts where k like '` + key + `\\\\%' order by 1`), query(off), query(`select v from texts where k like '` + key + `\\\\%' order by 1`)},
		"written": {
			begin, query(off), query(`insert into texts values ('n\\b', -1), ('n\\\\b', -2)`), query(`update texts set v = v - 1 where k = 'n\\b'`), query(on),
			query(`select v from texts where k = 'n\\b'`), query(`delete from texts where k = 'n\b'`), rollback,
		},
		"quotes": {
			query("set escape_string_warning = off"), begin, query(offLocal), query(`select v, 'a\' or true' from texts where k = E'` + key + `\\b'`), commit,
			query(`select v, 'a\' from texts where k = E'` + key + `\\b'`),
		},
		"encoding": {query("set client_encoding = latin1; select length('\xc3\xa9')"), query("select length('\xc3\xa9')"), all(x("set client_encoding = utf8"), x("select length('\xc3\xa9')"))},
	} {
		t.Run(name, func(t *testing.T) {
			want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
			for i := range want {
				// Each shard that reads a text warns of its escapes.
				want[i], got[i] = strings.ReplaceAll(want[i], "22P06 ", ""), strings.ReplaceAll(got[i], "22P06 ", "")
				if want[i] == got[i] {
					continue
				}
				if at := strings.Index(got[i], "0A000"); at >= 0 && strings.HasPrefix(want[i], got[i][:at]) {
					t.Logf("group %d is refused, PostgreSQL says %q", i, want[i])
					return // what follows may differ
				}
				t.Errorf("group %d:\nPostgreSQL %q\nweft       %q", i, want[i], got[i])
			}
		})
	}
}

// TestPreparedInBlock prepares a statement under a setting of one transaction: a client who
// prepares the same text later, on the same backend, reads it under his own.
func TestPreparedInBlock(t *testing.T) {
	db, _ := pairs(t, "private", 50)
	const text = "select '01/02/2020'::date - '2020-01-01'::date from pairs where k = 0"
	for _, groups := range [][]talk{
		{query("begin"), query("set local datestyle = 'SQL, DMY'"), named("s", text), again("s"), query("commit")},
		{named("s", text), again("s")},
		{query("begin"), query("set local datestyle = 'SQL, DMY'"), query("prepare s as " + text), query("execute s"), query("commit")},
		{query("prepare s as " + text), query("execute s")},
	} {
		want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
		for i := range want {
			if want[i] != got[i] {
				t.Errorf("group %d:\nPostgreSQL %q\nweft       %q", i, want[i], got[i])
			}
		}
	}
}

// TestUnreadText sends texts that PostgreSQL 15 can read and weft cannot: they have keywords of
// later versions. One that neither can read has PostgreSQL's own error.
func TestUnreadText(t *testing.T) {
	db, _ := pairs(t, "unread", 50)
	const counts = "select count(*) from pairs, (select 1) as system_user"
	for name, groups := range map[string][]talk{
		"simple":            {query(counts), query("select 1")},
		"in a block":        {query("begin"), query("update pairs set n = 1 where k = 1"), query(counts), query("select 1"), query("commit"), query("select n from pairs where k = 1")},
		"extended":          {x(counts), x("select 1")},
		"in a pipeline":     {all(x("update pairs set n = 2 where k = 1"), x(counts), x("select 1")), query("select n from pairs where k = 1")},
		"prepared":          {named("s", counts), again("s")},
		"prepared by SQL":   {query("prepare s as " + counts), query("execute s")},
		"cursor":            {query("begin"), query("declare c cursor for " + counts), query("fetch all from c"), query("rollback")},
		"explained":         {query("explain " + counts)},
		"several":           {query("select 1; " + counts), query(counts + "; select 1")},
		"write":             {query("update pairs as system_user set n = 5"), query("select sum(n) from pairs")},
		"copy":              {query("copy (" + counts + ") to stdout")},
		"nothing":           {query("selec"), query("select 1 from"), query("select 'a"), query("select 1; selec"), x("selec"), x("select $"), query("begin"), query("selec"), query("selec"), query("rollback")},
		"nothing, prepared": {query("prepare s as selec"), query("begin"), named("s", "selec"), query("rollback"), all(x("select 1"), x("selec"), x("select 2"))},
	} {
		t.Run(name, func(t *testing.T) {
			want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
			refused := false
			for i := range want {
				if at := strings.Index(got[i], "0A000"); !refused && at >= 0 && !strings.HasPrefix(name, "nothing") && strings.HasPrefix(want[i], got[i][:at]) {
					refused = true
				} else if !refused && want[i] != got[i] {
					t.Errorf("group %d:\nPostgreSQL %q\nweft       %q", i, want[i], got[i])
				}
			}
			if !refused && !strings.HasPrefix(name, "nothing") {
				t.Errorf("not refused: %q", got)
			}
		})
	}
	if got := converse(t, harness.Weft(t), db, []talk{query("select count(*) from pairs where n = 5")}); !strings.Contains(got[0], `["0"]`) {
		t.Errorf("it has been written: %q", got)
	}
}

// keyOfTwoShards returns what the texts begin with whose rows are on two shards, neither of
// them the home shard.
func keyOfTwoShards(t *testing.T, db string) string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	seen := map[string]bool{}
	for _, shard := range harness.Weft(t).Shards()[1:] {
		conn, err := pgconn.Connect(ctx, shard.ConnString(db))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Exec(ctx, `select distinct split_part(k, E'\\', 1), count(*) over (partition by split_part(k, E'\\', 1)) from texts`).ReadAll()
		_ = conn.Close(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, row := range rows[0].Rows {
			key := string(row[0])
			if string(row[1]) == "1" && seen[key] {
				return key
			}
			seen[key] = string(row[1]) == "1"
		}
	}
	t.Fatal("no key has its rows on two shards")
	return ""
}
