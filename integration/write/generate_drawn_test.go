package writes

import (
	"fmt"
	"strings"
)

// Tables with columns that sequences fill: lines (owner, pos, drawn, n, twice), tickets (owner,
// label, drawn, n) and posts (drawn, owner, body, n), whose ids are routed. What was
// drawn need not be the same on both sides, so the column is called drawn
// everywhere and never returned; values that statements give are.

// drawn makes statements about them.
func (g *generator) drawnRows() string {
	return g.oneOf(g.lines, g.tickets, g.posts, g.drawnFrom, g.drawnMerge, g.drawnChange)
}

func (g *generator) label() string { return g.value("text", fmt.Sprintf("l%d", g.IntN(8))) }

func (g *generator) lines() string {
	given := g.chance(40)
	cols, overriding := "owner, pos, n", ""
	if given {
		cols += ", drawn"
		overriding = pick(g, []string{"", "", " overriding system value", " overriding user value"})
	}
	row := func() string {
		r := g.number(12) + ", " + g.number(6) + ", " + pick(g, []string{"default", g.number(50), "null"})
		if given {
			r += ", " + pick(g, []string{"default", g.number(900), "1000 + " + g.number(9)})
		}
		return r
	}
	return "insert into lines (" + cols + ")" + overriding + " values " + g.rows(row) + pick(g, []string{
		"", " on conflict do nothing", " on conflict (owner, pos) do update set n = coalesce(excluded.n, 0) + lines.n",
		" on conflict (owner, pos) do update set n = excluded.n where lines.n < excluded.n or lines.n is null",
		" on conflict (owner, pos) do update set n = default where lines.pos > 2",
		" on conflict on constraint lines_pkey do update set (n) = row (lines.twice)",
	}) + g.returningOf("owner, pos, n", "twice", "pos * 2, twice + n as x")
}

// returningOf is returning for tables whose rows are not to be seen as a whole.
func (g *generator) returningOf(list ...string) string {
	if g.chance(50) {
		return ""
	}
	return " returning " + pick(g, list)
}

func (g *generator) tickets() string {
	given := g.chance(30)
	cols, overriding := "owner, label, n", ""
	if given {
		cols += ", drawn"
		overriding = pick(g, []string{"", " overriding system value", " overriding user value"})
	}
	row := func() string {
		r := g.number(12) + ", " + g.label() + ", " + g.number(9)
		if given {
			r += ", " + pick(g, []string{"default", g.number(900)})
		}
		return r
	}
	return "insert into tickets (" + cols + ")" + overriding + " values " + g.rows(row) + pick(g, []string{
		"", " on conflict do nothing", " on conflict (owner, label) do update set n = tickets.n + excluded.n where excluded.n > 3",
	}) + g.returningOf("owner, label", "n")
}

// id is one that a statement has given, perhaps: its last digits are its owner, for
// ids that clients choose are unique on their shard only.
func (g *generator) id() string {
	return g.value("int4", fmt.Sprint(1+g.IntN(12)+100*g.IntN(5)))
}

func (g *generator) posts() string {
	if g.chance(40) {
		return "insert into posts (drawn, owner, body) values " + g.rows(func() string {
			owner := 1 + g.IntN(12)
			return fmt.Sprintf("%d, %d, ", owner+100*g.IntN(5), owner) + g.word()
		}) + pick(g, []string{
			"", " on conflict do nothing", " on conflict (drawn) do nothing",
		}) + g.returningOf("owner, body", "drawn, owner")
	}
	return "insert into posts (owner, body, n) values " + g.rows(func() string {
		return g.number(12) + ", " + g.word() + ", " + pick(g, []string{"default", g.number(9)})
	}) +
		g.returningOf("owner, body", "n", "drawn > 0")
}

func (g *generator) drawnFrom() string {
	return g.oneOf(
		func() string {
			return "insert into lines (owner, pos, n) select owner, 10 + n, n from tickets where n < " + g.number(9) + " order by owner, label on conflict do nothing" + g.returningOf("owner, pos")
		},
		func() string {
			return "insert into tickets (owner, label, n) select customer_id, 'o' || id, id from orders" + g.where(g.ordersWhere) + pick(g, []string{"", " on conflict do nothing"}) + g.returningOf("owner, label")
		},
		func() string {
			return "insert into posts (owner, body) select id, name from customers" + g.where(g.customersWhere) + g.returningOf("owner, body")
		},
		func() string {
			return "insert into lines (owner, pos, n, drawn) overriding " + pick(g, []string{"system", "user"}) + " value select id, 20, id, id * 7 from log" + pick(g, []string{"", " on conflict do nothing"})
		},
	)
}

func (g *generator) drawnMerge() string {
	sources := []string{
		"(values " + g.rows(func() string { return g.number(12) + ", " + g.number(6) + ", " + g.number(40) }) + ") s (owner, pos, n)",
		"(select distinct on (owner) owner, 1 as pos, n from tickets order by owner, label) s",
		"(select i as owner, 2 as pos, i * 2 as n from generate_series(" + g.number(9) + ", 12) i) s",
		"(select id as owner, 3 as pos, length(what) as n from log) s",
		"(select customer_id as owner, 4 as pos, count(*)::int as n from orders group by 1) s",
	}
	var when []string
	for range 1 + g.IntN(4) {
		and := pick(g, []string{"", " and s.n > " + g.number(30), " and s.owner % 2 = 0", " and s.pos is not null"})
		switch g.IntN(7) {
		case 0:
			when = append(when, "when matched"+and+" then delete")
		case 1:
			when = append(when, "when matched"+and+" then do nothing")
		case 2, 3:
			when = append(when, "when matched"+and+" then update set "+pick(g, []string{"n = s.n", "n = l.n + s.n", "n = default", "(n) = row (s.n * 2)", "n = (select count(*) from log)"}))
		case 4:
			when = append(when, "when not matched"+and+" then do nothing")
		default:
			when = append(when, "when not matched"+and+" then insert (owner, pos, n, drawn) overriding system value values (s.owner, s.pos, "+pick(g, []string{"s.n", "default", "1"})+", s.owner * 3)")
		}
	}
	return "merge into lines l using " + pick(g, sources) + " on l.owner = s.owner and l.pos = s.pos " + strings.Join(when, " ")
}

func (g *generator) drawnChange() string {
	return g.oneOf(
		func() string {
			return "update lines set n = " + pick(g, []string{"n + 1", "default", "twice", "(select max(n) from tickets)"}) + pick(g, []string{"", " where owner = " + g.number(12), " where n > " + g.number(40), " where twice in (select n from tickets)"}) + g.returningOf("owner, pos, n, twice")
		},
		func() string {
			return "update lines set drawn = " + pick(g, []string{"default", g.number(99)}) + " where owner = " + g.number(12) + g.returningOf("pos")
		},
		func() string { return "update tickets set drawn = default" + g.returningOf("owner, label") },
		func() string { return "update tickets set drawn = 5 where owner = " + g.number(12) },
		func() string { return "update lines set twice = 4" },
		func() string {
			return "update lines set twice = default where owner in (" + g.number(12) + ", " + g.number(12) + ")" + g.returningOf("twice")
		},
		func() string {
			return "update tickets set owner = owner + 20 where n = " + g.number(9) + g.returningOf("owner")
		},
		func() string {
			return "update posts set body = body || '!' where drawn " + pick(g, []string{"= " + g.id(), "in (" + g.id() + ", " + g.id() + ")", "= any (array[" + g.id() + ", 7])", "< 300"}) + g.returningOf("drawn, body", "n")
		},
		func() string {
			return "delete from posts where drawn " + pick(g, []string{"= " + g.id(), "in (" + g.id() + ", " + g.id() + ")", "< 50"}) + g.returningOf("drawn, owner")
		},
		func() string { return "delete from posts where owner = " + g.number(12) + " and n is null" },
		func() string {
			return "with a as (delete from tickets where n = " + g.number(9) + " returning owner, label, n), b as (insert into lines (owner, pos, n) select owner, 30 + n, n from a on conflict do nothing returning owner, pos) " +
				"insert into posts (owner, body) select owner, 'p' || pos from b returning owner, body"
		},
		func() string {
			return "with a as (update lines set n = n + 1 where pos = " + g.number(6) + " returning owner, n), b as (delete from posts p using a where a.owner = p.owner returning p.owner), c as (insert into log select 3000 + owner, 'c', sum(n) from a group by owner on conflict do nothing returning id) " +
				"select (select count(*) from a), (select count(*) from b), (select count(*) from c)"
		},
		func() string {
			return "select owner, body, n from posts where drawn = " + g.id() + " or owner = " + g.number(12) + " order by owner, body, n"
		},
		func() string { return "select owner, count(*), sum(n), sum(twice) from lines group by 1 order by 1" },
	)
}
