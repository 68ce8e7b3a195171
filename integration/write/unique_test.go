package writes

func (g *generator) email() string {
	return g.value("text", pick(g, []string{"m", "m", "u"})+pick(g, []string{"1", "2", "3", "5", "8", "13", "19", "21", "22"}))
}

func (g *generator) seat() string {
	return g.value("text", "s"+pick(g, []string{"1", "4", "9", "16", "25", "30", "31"}))
}

// unique is about tables with columns that are unique over all shards, though they are
// not the shard key. Values that rows hand on to each other have the row's id in them:
// otherwise it depends on the order in which rows are found whether they may.
func (g *generator) unique() string {
	return g.oneOf(g.uniqueInsert, g.uniqueInsert, g.uniqueUpdate, g.uniqueUpdate, g.uniqueDelete, g.uniqueRead, g.uniqueOther)
}

func (g *generator) uniqueInsert() string {
	return g.oneOf(
		func() string {
			return "insert into members (id, email, n) values " + g.rows(func() string {
				return g.number(40) + ", " + pick(g, []string{g.email(), g.email(), g.email(), "null"}) + ", " + g.number(9)
			}) + pick(g, []string{
				"", " on conflict do nothing", " on conflict do nothing", " on conflict (email) do nothing", " on conflict (id) do nothing",
				" on conflict (email) do update set n = members.n + excluded.n", " on conflict (email) do update set n = excluded.n, email = excluded.email where members.id < 15",
				" on conflict (id) do update set n = members.n + 1", " on conflict (id) do update set email = excluded.email",
				" on conflict on constraint members_email_key do update set handle = null",
			}) + g.returning("id, n", "email")
		},
		func() string {
			return "insert into members (id, team, handle) values " + g.rows(func() string {
				return g.number(60) + ", " + g.number(4) + ", " + pick(g, []string{"'h1'", "'h5'", "'h7'", "'x'", "null"})
			}) + pick(g, []string{"", " on conflict (team, handle) do nothing", " on conflict (handle, team) do update set n = 0", " on conflict do nothing"}) + g.returning("id, handle")
		},
		func() string {
			return "insert into seats values " + g.rows(func() string { return g.number(5) + ", " + g.seat() + ", " + g.number(9) }) +
				pick(g, []string{"", " on conflict do nothing", " on conflict (code) do nothing", " on conflict (code) do update set n = seats.n + excluded.n"}) + g.returning("team", "code, n")
		},
		func() string {
			return "insert into members (id, email) select id + 40, 'copy' || id from members where " + g.membersWhere() + g.returning("id")
		},
	)
}

func (g *generator) membersWhere() string {
	return g.oneOf(
		func() string { return "id = " + g.number(40) },
		func() string { return "email = " + g.email() },
		func() string { return "email in (" + g.email() + ", " + g.email() + ", " + g.email() + ")" },
		func() string { return "email = " + g.email() + " or id = " + g.number(20) },
		func() string {
			return "team = " + g.number(4) + " and handle = 'h" + pick(g, []string{"1", "5", "7", "x"}) + "'"
		},
		func() string { return "n < " + g.number(20) },
		func() string { return "id in (select n from seats where code = " + g.seat() + ")" },
	)
}

func (g *generator) uniqueUpdate() string {
	return g.oneOf(
		func() string {
			return "update members set email = " + g.email() + " where id = " + g.number(40) + g.returning("id, email")
		},
		func() string {
			return "update members set email = " + g.email() + " where email = " + g.email() + g.returning("id")
		},
		func() string {
			return "update members set email = " + pick(g, []string{"'u' || id || '-1'", "'u' || id", "null", "email"}) + ", n = n + 1 where " + g.membersWhere() + g.returning("id, email")
		},
		func() string {
			return "update members set handle = 'h' || id, team = id % 4 where " + g.membersWhere() + g.returning("id, handle")
		},
		func() string {
			return "update members set id = id + 100 where " + g.membersWhere() + g.returning("id, email")
		},
		func() string {
			return "update seats set code = " + g.seat() + " where code = " + g.seat() + g.returning("team")
		},
		func() string {
			return "update seats set team = " + g.number(5) + " where code = " + g.seat() + g.returning("team, code")
		},
		func() string {
			return "update seats set n = s.n from members s where s.email = " + g.email() + " and seats.code = " + g.seat() + g.returning("seats.n")
		},
	)
}

func (g *generator) uniqueDelete() string {
	return g.oneOf(
		func() string { return "delete from members where " + g.membersWhere() + g.returning("id, email") },
		func() string { return "delete from seats where code = " + g.seat() + g.returning("team") },
		func() string {
			return "delete from seats where team = " + g.number(5) + " and n > " + g.number(20) + g.returning("code")
		},
	)
}

func (g *generator) uniqueRead() string {
	return g.oneOf(
		func() string { return "select * from members where " + g.membersWhere() + " order by id" },
		func() string {
			return "select code, n from seats where code in (" + g.seat() + ", " + g.seat() + ") order by code"
		},
		func() string {
			return "select m.id, s.code from members m join seats s on s.n = m.id where m.email = " + g.email() + " order by 1, 2"
		},
		func() string { return "select id from members where email = " + g.email() + " for update" },
	)
}

func (g *generator) uniqueOther() string {
	return g.oneOf(
		func() string {
			return "merge into members m using (select i, 'u' || i as e from generate_series(" + g.number(10) + ", 24) i) s on m.id = s.i " +
				"when matched and m.n > 15 then delete when matched then update set email = s.e || '-m' when not matched then insert (id, email) values (s.i, s.e)"
		},
		func() string {
			return "with d as (delete from members where email = " + g.email() + " returning id, email) insert into seats (team, code) select id % 5, 'gone' || id from d"
		},
		func() string {
			return "with u as (update members set email = 'u' || id || '-w' where n < " + g.number(9) + " returning id) select count(*) from u"
		},
		func() string { return "truncate " + pick(g, []string{"seats", "members", "members, seats"}) },
	)
}
