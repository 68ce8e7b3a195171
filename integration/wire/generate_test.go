package wire_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// A dialogue is what one client says, in batches that each end with a Sync or a Query.
type dialogue [][]string

func (d dialogue) String() string {
	var b strings.Builder
	for _, batch := range d {
		b.WriteString(strings.Join(batch, "\n") + "\n\n")
	}
	return b.String()
}

// stmt is a text and what its parameters may be.
type stmt struct {
	text   string
	params []string // "i": a number, "t": text
}

// The tables: d is sharded by id, u too, with a lookup for e, r is a reference table, h is on the home shard.
var dialogueTables = []string{
	"create table u (id int primary key, e text unique, n int)",
	"create table d (id int primary key, g int, v text)",
	"create table r (id int primary key, v text)",
	"create table h (id int primary key, v text)",
}

// The functions: weft runs those over sharded tables itself.
var dialogueFunctions = []string{
	"create function above(i int) returns int language plpgsql as $$ declare n int; begin select count(*) into n from d where id > i; return n; end $$",
	"create function puts(i int) returns int language plpgsql as $$ begin insert into d values (i, 1, 'f'); insert into d values (i + 1, 1, 'f'); return i; end $$",
	"create function few(i int) returns table (a int, b text) language plpgsql as $$ begin return query select id, v from d where id < i order by id; end $$",
}

var dialogueRows = []string{
	"delete from d", "delete from u", "delete from r", "delete from h",
	"insert into u select i, 'e' || i, i from generate_series(1, 6) i",
	"insert into d select i, i % 3, 'v' || i from generate_series(1, 9) i",
	"insert into r select i, 'r' || i from generate_series(0, 2) i",
	"insert into h select i, 'h' || i from generate_series(1, 4) i",
}

var (
	// reads of one shard, of several, of the home shard, of no table.
	readTexts = []stmt{
		{"select v from d where id = $1", []string{"i"}},
		{"select id, v from d where id = 3", nil},
		{"select id, v from d order by id", nil},
		{"select count(*), sum(g) from d", nil},
		{"select id from d where id in ($1, $2) order by id", []string{"i", "i"}},
		{"select g, count(*) from d where id > $1 group by g order by g", []string{"i"}},
		{"select d.id, r.v from d join r on r.id = d.g where d.id < $1 order by d.id", []string{"i"}},
		{"select d.id, h.v from d join h on h.id = d.id order by d.id", nil},
		{"select v || $2 from d where g = $1 order by id limit 2", []string{"i", "t"}},
		{"select * from r order by id", nil},
		{"select v from r where id = $1", []string{"i"}},
		{"select v from h where id = $1", []string{"i"}},
		{"select * from h order by id", nil},
		{"select 1", nil},
		{"select $1::int + 1, $2::text", []string{"i", "t"}},
		{"select $1", []string{"t"}},
		{"select current_setting('statement_timeout'), $1::int", []string{"i"}},
		{"select id from d order by id for update", nil},
		{"values (1, 'a'), (2, 'b')", nil},
		{"select generate_series(1, $1)", []string{"i"}},
	}
	writeTexts = []stmt{
		{"insert into d values ($1, 1, $2)", []string{"i", "t"}},
		{"insert into d values (20, 1, 'x'), (21, 2, 'y'), (22, 3, 'z')", nil},
		{"insert into d values (23, 1, 'x'), (24, 2, $1)", []string{"t"}},
		{"insert into d (id, v) values ($1, $2) returning id, v", []string{"i", "t"}},
		{"insert into d values ($1, 1, 'q') on conflict (id) do update set v = excluded.v", []string{"i"}},
		{"update d set v = $2 where id = $1", []string{"i", "t"}},
		{"update d set v = v || 'x'", nil},
		{"update d set g = g + 1 where g = $1", []string{"i"}},
		{"update d set v = 'one' where id = 1 returning id, v", nil},
		{"delete from d where id = $1", []string{"i"}},
		{"delete from d where g = 2", nil},
		{"insert into r values ($1, $2)", []string{"i", "t"}},
		{"update r set v = v || '!'", nil},
		{"insert into h values ($1, $2) returning *", []string{"i", "t"}},
		{"update h set v = 'u' where id = $1", []string{"i"}},
		{"delete from h", nil},
		{"insert into d select id + 40, 1, v from h", nil},
	}
	blockTexts = []stmt{
		{"begin", nil},
		{"begin", nil},
		{"begin", nil},
		{"start transaction", nil},
		{"begin isolation level repeatable read", nil},
		{"begin read only", nil},
		{"commit", nil},
		{"commit", nil},
		{"commit", nil},
		{"end", nil},
		{"rollback", nil},
		{"rollback", nil},
		{"abort", nil},
		{"savepoint a", nil},
		{"rollback to a", nil},
		{"release a", nil},
		{"savepoint b", nil},
		{"rollback to savepoint b", nil},
		{"set transaction read only", nil},
		{"commit and chain", nil},
	}
	sessionTexts = []stmt{
		{"set statement_timeout = 50000", nil},
		{"set local statement_timeout = 40000", nil},
		{"show statement_timeout", nil},
		{"reset statement_timeout", nil},
		{"set application_name = 'x'", nil},
		{"select set_config('application_name', $1, false)", []string{"t"}},
		{"set search_path = nowhere, public", nil},
		{"reset all", nil},
		{"declare c cursor for select id, v from d order by id", nil},
		{"declare k cursor for select * from h order by id", nil},
		{"fetch 2 from c", nil},
		{"fetch all c", nil},
		{"close c", nil},
		{"move 1 in k", nil},
		{"fetch k", nil},
		{"prepare q (int) as select v from d where id = $1", nil},
		{"prepare w as select count(*) from d", nil},
		{"prepare h (int) as select v from h where id = $1", nil},
		{"execute h(2)", nil},
		{"execute q(2)", nil},
		{"execute w", nil},
		{"deallocate q", nil},
		{"deallocate all", nil},
		{"discard all", nil},
		{"lock table d", nil},
		{"lock table h in share mode", nil},
		{"listen l", nil},
		{"notify l, 'p'", nil},
		{"unlisten *", nil},
		{"create temp table tt (x int)", nil},
		{"insert into tt values (1)", nil},
		{"select * from tt", nil},
		{"drop table tt", nil},
		{"set constraints all deferred", nil},
	}
	wrongTexts = []stmt{
		{"selec 1", nil},
		{"select * from nothing", nil},
		{"select 1/0", nil},
		{"select nothing from d", nil},
		{"insert into d values (1, 1, 'twice')", nil},
		{"insert into r values (0, 'twice')", nil},
		{"update d set g = 1 / (id - 3)", nil},
		{"", nil},
		{";", nil},
		{"/* nothing */", nil},
		{"select $2::int", []string{"i", "i"}},
		{"insert into d values (null, 1, 'x')", nil},
		{"select v from d where id = 'x'", nil},
		{"select 1 +", nil},
		{"select nofunction($1)", []string{"i"}},
		{"select id from d where id = 1 group by v", nil},
		{"savepoint", nil},
	}
	copyTexts = []string{
		"copy d from stdin", "copy h from stdin", "copy r from stdin", "copy d (id, v) from stdin",
		"copy (select id, v from d order by id) to stdout", "copy (select * from h order by id) to stdout", "copy nothing from stdin",
	}
	severalTexts = []string{
		"select 1; select 2", "insert into d values (30, 1, 'm'); select count(*) from d", "begin; insert into h values (30, 'm'); commit",
		"insert into d values (31, 1, 'm'), (32, 1, 'm'); select 1/0", "select 1; begin; select 2", "begin; select v from d where id = 2",
		"insert into h values (33, 'm'); commit; select 1/0", "; select 1;", "select 1; selec 2", "select v from d where id = 1; select v from d where id = 2",
		"update d set v = 'n' where id = 1; update d set v = 'n' where id = 2; rollback", "set local statement_timeout = 30000; show statement_timeout",
	}
)

var (
	// lookupTexts go by a lookup, or change what is in one.
	lookupTexts = []stmt{
		{"select id, n from u where e = $1", []string{"t"}},
		{"select n from u where e = 'e3'", nil},
		{"select * from u order by id", nil},
		{"insert into u values ($1, 'x' || $1, 1)", []string{"i"}},
		{"insert into u values (41, 'e41', 1), (42, 'e42', 2), (43, 'e43', 3)", nil},
		{"insert into u values (44, 'e2', 1)", nil},
		{"insert into u values (44, 'e2', 1) on conflict do nothing", nil},
		{"update u set e = 'a' where id = $1", []string{"i"}},
		{"update u set e = e || 'z'", nil},
		{"update u set e = 'e1' where id = 2", nil},
		{"update u set id = 900 where id = 3", nil},
		{"update u set n = n + 1 where e = 'e4'", nil},
		{"delete from u where e = 'e5'", nil},
		{"delete from u", nil},
		{"update d set id = 300 where id = $1", []string{"i"}},
		{"update d set id = id + 100", nil},
		{"truncate u", nil},
	}
	// schemaTexts change schemas, or make something that lasts as long as the session.
	schemaTexts = []stmt{
		{"alter table d add column z int default 7", nil},
		{"update d set z = id where id < 4", nil},
		{"select z from d where id = 2", nil},
		{"alter table d drop column z", nil},
		{"create table nn (a int)", nil},
		{"insert into nn values (1), (2)", nil},
		{"select * from nn order by a", nil},
		{"drop table nn", nil},
		{"create index dgx on d (g)", nil},
		{"drop index dgx", nil},
		{"alter table h add column z int", nil},
		{"select z from h where id = 1", nil},
		{"create temp table h (id int)", nil},
		{"select count(*) from h", nil},
		{"drop table pg_temp.h", nil},
		{"create view vv as select id, g from d where g = 1", nil},
		{"select * from vv order by id", nil},
		{"drop view vv", nil},
		{"create index concurrently dgc on d (g)", nil},
		{"vacuum h", nil},
		{"vacuum d", nil},
		{"create table nn as select id, g from d", nil},
		{"select count(*) from nn", nil},
		{"comment on table d is 'x'", nil},
	}
	// textTexts are for texts of several statements above all.
	textTexts = []stmt{
		{"begin", nil},
		{"begin", nil},
		{"commit", nil},
		{"commit", nil},
		{"rollback", nil},
		{"begin isolation level repeatable read", nil},
		{"start transaction read only", nil},
		{"begin read only", nil},
		{"set transaction isolation level repeatable read", nil},
		{"commit and chain", nil},
		{"rollback and chain", nil},
		{"savepoint a", nil},
		{"release a", nil},
		{"rollback to a", nil},
		{"", nil},
		{"/* ; */", nil},
		{"set local application_name = 'l'", nil},
		{"set application_name = 'y'", nil},
		{"show application_name", nil},
		{"reset application_name", nil},
		{"set search_path = pg_catalog", nil},
		{"set search_path = public", nil},
		{"set role pg_monitor", nil},
		{"reset role", nil},
		{"select current_user", nil},
		{"select set_config('my.x', 'v', true)", nil},
		{"select set_config('my.x', 'w', false)", nil},
		{"select current_setting('my.x', true)", nil},
		{"select now() = statement_timestamp() or true", nil},
		{"select pg_advisory_xact_lock(5)", nil},
		{"do $$ begin perform 1; end $$", nil},
		{"do $$ begin raise notice 'n'; end $$", nil},
		{"discard all", nil},
		{"declare c cursor for select id, v from d order by id", nil},
		{"declare c cursor for select v from d where id = 2", nil},
		{"declare k cursor with hold for select * from h order by id", nil},
		{"fetch 2 from c", nil},
		{"fetch c", nil},
		{"fetch k", nil},
		{"close c", nil},
		{"close all", nil},
	}
)

// talker makes up dialogues.
type talker struct {
	*rand.Rand
	// texts by name, as far as the talker knows: so that most Binds fit.
	texts map[string]stmt
}

func oneOf[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

func (g *talker) text() stmt {
	switch n := g.IntN(100); {
	case n < 32:
		return oneOf(g.Rand, readTexts)
	case n < 54:
		return oneOf(g.Rand, writeTexts)
	case n < 60:
		return oneOf(g.Rand, lookupTexts)
	case n < 80:
		return oneOf(g.Rand, blockTexts)
	case n < 92:
		return oneOf(g.Rand, sessionTexts)
	default:
		return oneOf(g.Rand, wrongTexts)
	}
}

func (g *talker) statementName() string { return oneOf(g.Rand, []string{"", "", "", "s", "s2"}) }
func (g *talker) portalName() string    { return oneOf(g.Rand, []string{"", "", "", "p", "p2"}) }

func message(kind string, fields map[string]any) string {
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err)
	}
	return kind + " " + string(text)
}

// dialogue makes one up.
func (g *talker) dialogue() dialogue {
	g.texts = map[string]stmt{}
	var d dialogue
	for range 1 + g.IntN(7) {
		d = append(d, g.batch())
	}
	return d
}

func (g *talker) batch() []string {
	switch n := g.IntN(10); {
	case n < 3:
		return g.simple()
	case n < 7:
		return append(g.straight(), "Sync")
	}
	var lines []string
	for range 1 + g.IntN(6) {
		switch n := g.IntN(20); {
		case n < 8:
			lines = append(lines, g.straight()...)
		case n < 18:
			lines = append(lines, g.single())
		case n < 19:
			lines = append(lines, "Sync")
		default:
			lines = append(lines, g.simple()...)
		}
	}
	lines = append(lines, "Sync")
	kept := lines[:0]
	for i, line := range lines { // see Dialogue
		if i == 0 || !strings.HasPrefix(line, "Close ") || !strings.HasPrefix(lines[i-1], "Close ") {
			kept = append(kept, line)
		}
	}
	return kept
}

// simple is a simple query.
func (g *talker) simple() []string {
	switch n := g.IntN(10); {
	case n < 1:
		return append([]string{message2("Query", oneOf(g.Rand, severalTexts))}, g.copied("")...)
	case n < 2:
		text := oneOf(g.Rand, copyTexts)
		return append([]string{message2("Query", text)}, g.copied(text)...)
	case n < 6:
		return g.several()
	}
	t := g.text()
	if g.IntN(8) > 0 {
		t = g.filled(t)
	}
	return []string{message2("Query", t.text)}
}

// filled has values in the place of parameters.
func (g *talker) filled(t stmt) stmt {
	for i, p := range t.params {
		t.text = strings.ReplaceAll(t.text, fmt.Sprintf("$%d", i+1), map[string]string{"i": fmt.Sprint(1 + g.IntN(12)), "t": "'t'"}[p])
	}
	return stmt{text: t.text}
}

// several is a text of several statements.
func (g *talker) several() []string {
	var texts, data []string
	for range 2 + g.IntN(6) {
		switch n := g.IntN(100); {
		case n < 6:
			text := oneOf(g.Rand, copyTexts)
			texts, data = append(texts, text), append(data, g.copied(text)...)
		case n < 12:
			texts = append(texts, oneOf(g.Rand, schemaTexts).text)
		case n < 30:
			texts = append(texts, oneOf(g.Rand, textTexts).text)
		case n < 45:
			texts = append(texts, g.filled(oneOf(g.Rand, lookupTexts)).text)
		default:
			t := g.text()
			if slices.Contains(notInTexts, t.text) {
				t = stmt{text: "select 2"}
			}
			texts = append(texts, g.filled(t).text)
		}
	}
	return append([]string{message2("Query", strings.Join(texts, oneOf(g.Rand, []string{"; ", ";", " ;\n", "; -- ü\n"})))}, data...)
}

// notInTexts would keep the whole text from being parsed: one such text in many is enough.
var notInTexts = []string{"selec 1", "select 1 +", "savepoint"}

func message2(kind, text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return kind + " " + string(b)
}

// copied is the data of a COPY FROM.
func (g *talker) copied(text string) []string {
	if !strings.Contains(text, "from stdin") {
		return nil
	}
	rows := "50\t1\ta\n51\t2\tb\n52\t3\tc\n"
	if !strings.Contains(text, "copy d from") {
		rows = "50\ta\n51\tb\n52\tc\n"
	}
	var lines []string
	switch g.IntN(5) {
	case 0:
		lines = []string{message2("CopyData", rows), "CopyFail \"enough\""}
	case 1:
		lines = []string{message2("CopyData", rows+"1\tx\ty\tz\n"), "CopyDone"}
	case 2:
		lines = []string{message2("CopyData", rows[:7]), message2("CopyData", rows[7:]), "CopyDone"}
	case 3:
		lines = []string{"CopyDone"}
	default:
		lines = []string{message2("CopyData", rows), "CopyDone"}
	}
	return lines
}

// straight is a statement through the extended protocol, as drivers do it.
func (g *talker) straight() []string {
	if g.IntN(25) == 0 {
		text := oneOf(g.Rand, copyTexts)
		lines := []string{message("Parse", map[string]any{"Query": text}), "Bind {}", "Execute {}"}
		return append(lines, g.copied(text)...)
	}
	name, t := g.statementName(), g.text()
	known, again := g.texts[name]
	var lines []string
	if again && name != "" && g.IntN(4) > 0 {
		t = known
	} else {
		lines = append(lines, g.parse(name, t))
	}
	if g.IntN(3) == 0 {
		lines = append(lines, strings.TrimSpace("Describe S "+name))
	}
	portal := g.portalName()
	lines = append(lines, g.bind(portal, name, t))
	if g.IntN(2) == 0 {
		lines = append(lines, strings.TrimSpace("Describe P "+portal))
	}
	return append(lines, g.execute(portal))
}

func (g *talker) parse(name string, t stmt) string {
	if _, again := g.texts[name]; !again || name == "" {
		g.texts[name] = t
	}
	m := map[string]any{"Query": t.text}
	if name != "" {
		m["Name"] = name
	}
	switch n := g.IntN(12); {
	case n < 4:
		types := make([]int, len(t.params))
		for i, p := range t.params {
			types[i] = map[string]int{"i": 23, "t": 25}[p]
		}
		m["Types"] = types
	case n < 5:
		m["Types"] = []int{oneOf(g.Rand, []int{0, 20, 23, 25, 705, 1043, 17})}
	case n < 6:
		m["Types"] = []int{23, 25, 23}
	}
	return message("Parse", m)
}

func (g *talker) bind(portal, name string, t stmt) string {
	m := map[string]any{}
	if portal != "" {
		m["Portal"] = portal
	}
	if name != "" {
		m["Statement"] = name
	}
	count := len(t.params)
	if g.IntN(30) == 0 && portal == "" {
		count += g.IntN(3) - 1
	}
	binary := g.IntN(6) == 0
	params := []any{}
	for i := range count {
		kind := "i"
		if i < len(t.params) {
			kind = t.params[i]
		}
		switch n := g.IntN(20); {
		case n == 0:
			params = append(params, nil)
		case n == 1:
			params = append(params, "x")
		case kind == "i" && binary:
			params = append(params, map[string]any{"hex": fmt.Sprintf("%08x", 1+g.IntN(30))})
		case kind == "i":
			params = append(params, fmt.Sprint(1+g.IntN(30)))
		default:
			params = append(params, oneOf(g.Rand, []string{"t", "", "a'b", "ü"}))
		}
	}
	if len(params) > 0 {
		m["Params"] = params
	}
	if binary {
		m["Formats"] = []int{1}
	}
	switch g.IntN(12) {
	case 0:
		m["Results"] = []int{1}
	case 1:
		m["Results"] = []int{0, 1}
	case 2:
		m["Results"] = []int{0}
	}
	return message("Bind", m)
}

func (g *talker) execute(portal string) string {
	m := map[string]any{}
	if portal != "" {
		m["Portal"] = portal
	}
	if g.IntN(4) == 0 {
		m["MaxRows"] = 1 + g.IntN(3)
	}
	return message("Execute", m)
}

// single is one message on its own.
func (g *talker) single() string {
	switch n := g.IntN(20); {
	case n < 4:
		return g.parse(g.statementName(), g.text())
	case n < 8:
		name := g.statementName()
		return g.bind(g.portalName(), name, g.texts[name])
	case n < 13:
		return g.execute(g.portalName())
	case n < 15:
		return strings.TrimSpace("Describe P " + g.portalName())
	case n < 16:
		return strings.TrimSpace("Describe S " + g.statementName())
	case n < 17:
		return strings.TrimSpace("Close P " + g.portalName())
	case n < 18:
		return strings.TrimSpace("Close S " + g.statementName())
	case n < 19:
		return "Flush"
	default:
		return "CopyDone"
	}
}
