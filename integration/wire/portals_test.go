package wire_test

import (
	"fmt"
	"strings"
)

// portalTexts are the statements of portals, by kind: so that each kind is as likely as the others.
var portalTexts = [][]stmt{
	{ // reads
		{"select v from d where id = $1", []string{"i"}},
		{"select v from d where id = 3", nil},
		{"select id, v from d where id = 4 for update", nil},
	}, {
		{"select id, v from d order by id", nil},
		{"select id, v from d order by id", nil},
		{"select count(*) from d where id > $1", []string{"i"}},
		{"select id from d where id in ($1, $2) order by id", []string{"i", "i"}},
		{"select id, v || $1 from d order by id", []string{"t"}},
		{"select id from d order by id for update", nil},
	}, {
		{"select * from h order by id", nil},
		{"select * from r order by id", nil},
		{"select generate_series(1, 4)", nil},
		{"select $1::int + 1", []string{"i"}},
		{"values (1, 'a'), (2, 'b')", nil},
	}, { // writes
		{"update d set v = 'k' where id = $1", []string{"i"}},
		{"update d set v = v || 'k' where id = 3", nil},
		{"insert into d values ($1, 1, 'k')", []string{"i"}},
		{"delete from d where id = 5 returning id, v", nil},
		{"insert into d (id, v) values (31, 'k') returning id, v", nil},
	}, {
		{"update d set v = v || 's'", nil},
		{"insert into d values (20, 1, 'x'), (21, 2, 'y'), (22, 3, 'z') returning id", nil},
		{"insert into d values (23, 1, 'x'), (24, 2, $1), (25, 2, $1)", []string{"t"}},
		{"with w as (delete from d where g = 2 returning id, v) select * from w order by id", nil},
		{"insert into d select id + 40, 1, v from h", nil},
		{"insert into u values (41, 'e41', 1), (42, 'e42', 2), (43, 'e43', 3)", nil},
		{"update u set e = e || 'z'", nil},
	}, {
		{"insert into h values ($1, $2) returning *", []string{"i", "t"}},
		{"update r set v = v || '!'", nil},
		{"insert into r values ($1, 'n')", []string{"i"}},
		{"update h set v = v || '.'", nil},
	}, { // blocks
		{"begin", nil},
		{"begin", nil},
		{"begin isolation level repeatable read", nil},
		{"commit", nil},
		{"commit", nil},
		{"rollback", nil},
		{"commit and chain", nil},
		{"rollback and chain", nil},
	}, {
		{"savepoint a", nil},
		{"savepoint a", nil},
		{"savepoint b", nil},
		{"rollback to a", nil},
		{"rollback to a", nil},
		{"rollback to b", nil},
		{"release a", nil},
	}, { // what is for all shards, or for the session
		{"create table nn (a int)", nil},
		{"drop table nn", nil},
		{"alter table d add column z int default 7", nil},
		{"create index dgx on d (g)", nil},
		{"comment on table d is 'x'", nil},
		{"truncate u", nil},
		{"create temp table tt (x int)", nil},
		{"select pg_current_xact_id_if_assigned() is null", nil},
		{"discard all", nil},
	}, {
		{"set statement_timeout = 50000", nil},
		{"set local application_name = 'l'", nil},
		{"set application_name = 'y'", nil},
		{"reset application_name", nil},
		{"show application_name", nil},
		{"select set_config('my.x', $1, true)", []string{"t"}},
		{"select current_setting('my.x', true), current_setting('application_name')", nil},
		{"set transaction read only", nil},
		{"listen l", nil},
		{"notify l, 'p'", nil},
	}, { // cursors
		{"declare c cursor for select id, v from d order by id", nil},
		{"declare c cursor for select id, v from d where id = 3", nil},
		{"declare k cursor for select * from h order by id", nil},
		{"declare w cursor with hold for select id, v from d order by id", nil},
		{"fetch 2 from c", nil},
		{"fetch c", nil},
		{"fetch all w", nil},
		{"fetch k", nil},
		{"move 1 in c", nil},
		{"close c", nil},
		{"close w", nil},
		{"close all", nil},
	}, { // programs
		{"select above($1)", []string{"i"}},
		{"select above(3)", nil},
		{"select puts($1)", []string{"i"}},
		{"select * from few($1)", []string{"i"}},
		{"do $$ begin update d set v = v || 'd' where g = 1; end $$", nil},
	}, { // what fails
		{"select 1/0", nil},
		{"insert into d values (1, 1, 'twice')", nil},
		{"update d set g = 1 / (id - 3)", nil},
		{"", nil},
	}, { // copies
		{"copy (select id, v from d order by id) to stdout", nil},
		{"copy (select * from h order by id) to stdout", nil},
		{"copy (insert into d values (26, 1, 'x'), (27, 2, 'y') returning id) to stdout", nil},
		{"copy (update d set g = 1 / (id - id) returning id) to stdout", nil},
		{"copy d from stdin", nil},
		{"copy h from stdin", nil},
	}, { // prepared statements in SQL
		{"prepare q (int) as select v from d where id = $1", nil},
		{"prepare w as select count(*) from d", nil},
		{"execute q(2)", nil},
		{"execute w", nil},
		{"deallocate q", nil},
	},
}

// portalOf is a portal as far as the talker knows.
type portalOf struct {
	name string
	text stmt
}

// portals is a dialogue about portals: bound now and executed later, in another order, twice, in portions, or never.
func (g *talker) portals() dialogue {
	var d dialogue
	var open []portalOf
	kinds := make([]int, 2+g.IntN(4))
	for i := range kinds {
		kinds[i] = g.IntN(len(portalTexts))
	}
	pick := func() stmt { return oneOf(g.Rand, portalTexts[oneOf(g.Rand, kinds)]) }
	names := []string{"", "p", "p2", "p3"}[:2+g.IntN(3)]
	block := g.IntN(2) == 0
	for range 1 + g.IntN(4) {
		if block && g.IntN(2) == 0 {
			d = append(d, []string{message2("Query", oneOf(g.Rand, []string{"begin", "begin", "begin", "savepoint a", "rollback to a", "commit", "rollback"}))})
		}
		var lines []string
		for range 2 + g.IntN(8) {
			switch n := g.IntN(100); {
			case n < 42:
				lines, open = g.bindPortal(lines, open, oneOf(g.Rand, names), pick())
			case n < 46 && len(open) > 0: // a statement is prepared anew while portals of the old one are open
				lines = append(lines, g.plainParse(oneOf(g.Rand, []string{"", "s"}), pick()))
			case n < 82 && len(open) > 0:
				lines = g.executePortal(lines, oneOf(g.Rand, open))
			case n < 86 && len(open) > 0:
				lines = append(lines, strings.TrimSpace("Describe P "+oneOf(g.Rand, open).name))
			case n < 89 && len(open) > 0:
				lines = closePortal(lines, oneOf(g.Rand, open).name)
			case n < 92:
				lines = append(lines, "Flush")
			case n < 94:
				lines = append(lines, "Sync")
			case n < 97:
				t := g.filled(pick())
				lines = append(lines, message2("Query", t.text))
				lines = append(lines, g.copied(t.text)...)
			}
		}
		d = append(d, append(lines, "Sync"))
	}
	return append(d, []string{message2("Query", "commit")}, []string{message2("Query", "select count(*) from pg_class where relname in ('nn', 'dgx', 'dgc')")})
}

func (g *talker) bindPortal(lines []string, open []portalOf, name string, t stmt) ([]string, []portalOf) {
	statement := oneOf(g.Rand, []string{"", "", "s"})
	if statement == "s" && g.IntN(3) > 0 {
		lines = closeStatement(lines, "s")
	}
	lines = append(lines, g.plainParse(statement, t))
	if name != "" && g.IntN(4) > 0 {
		lines = closePortal(lines, name)
	}
	lines = append(lines, g.bindTo(name, statement, t))
	if g.IntN(4) == 0 {
		lines = append(lines, strings.TrimSpace("Describe P "+name))
	}
	open = append(open, portalOf{name, t})
	if g.IntN(2) == 0 {
		lines = g.executePortal(lines, open[len(open)-1])
	}
	return lines, open
}

func closePortal(lines []string, name string) []string {
	return apart(lines, strings.TrimSpace("Close P "+name))
}

func closeStatement(lines []string, name string) []string { return apart(lines, "Close S "+name) }

// apart adds a Close, of which no two may follow each other: see Dialogue.
func apart(lines []string, line string) []string {
	if n := len(lines); n > 0 && strings.HasPrefix(lines[n-1], "Close ") {
		return lines
	}
	return append(lines, line)
}

func (g *talker) executePortal(lines []string, p portalOf) []string {
	m := map[string]any{}
	if p.name != "" {
		m["Portal"] = p.name
	}
	if g.IntN(3) == 0 {
		m["MaxRows"] = 1 + g.IntN(3)
	}
	return append(append(lines, message("Execute", m)), g.copied(p.text.text)...)
}

func (g *talker) plainParse(name string, t stmt) string {
	m := map[string]any{"Query": t.text}
	if name != "" {
		m["Name"] = name
	}
	if g.IntN(3) == 0 {
		types := make([]int, len(t.params))
		for i, p := range t.params {
			types[i] = map[string]int{"i": 23, "t": 25}[p]
		}
		m["Types"] = types
	}
	return message("Parse", m)
}

func (g *talker) bindTo(portal, statement string, t stmt) string {
	m := map[string]any{}
	if portal != "" {
		m["Portal"] = portal
	}
	if statement != "" {
		m["Statement"] = statement
	}
	binary := g.IntN(6) == 0
	params := []any{}
	for _, kind := range t.params {
		switch {
		case kind == "i" && binary:
			params = append(params, map[string]any{"hex": fmt.Sprintf("%08x", 1+g.IntN(12))})
		case kind == "i":
			params = append(params, fmt.Sprint(1+g.IntN(12)))
		case g.IntN(8) == 0: // larger than what is collected
			params = append(params, map[string]any{"repeat": "x", "times": 70000})
		default:
			params = append(params, oneOf(g.Rand, []string{"t", "", "ü"}))
		}
	}
	if len(params) > 0 {
		m["Params"] = params
	}
	if binary {
		m["Formats"] = []int{1}
	}
	switch g.IntN(8) {
	case 0:
		m["Results"] = []int{1}
	case 1:
		m["Results"] = []int{0}
	}
	return message("Bind", m)
}
