package routing

import (
	"testing"

	"weft/integration/pair"
)

// TestCurrentOf: WHERE CURRENT OF runs on the shard of its cursor, and what needs more
// than that shard is refused.
func TestCurrentOf(t *testing.T) {
	t.Parallel()
	db := database(t, "current_of")
	p := newPair(t, db)
	for _, sql := range []string{
		`create table cu_rows (k int primary key, v int)`, `create table cu_copies (id int primary key, v int)`,
		`create table cu_home (id int primary key, v int)`, `create table cu_mails (k int primary key, mail text unique, v int)`,
		`insert into cu_rows select g, g from generate_series(1, 20) g`, `insert into cu_copies select g, g from generate_series(1, 9) g`,
		`insert into cu_home select g, g from generate_series(1, 9) g`, `insert into cu_mails select g, g::text, g from generate_series(1, 9) g`,
	} {
		p.Both(t, "setup", sql)
	}
	for _, sql := range []string{
		`select weft.shard_table('cu_rows', 'k')`, `select weft.shard_table('cu_mails', 'k')`, `select weft.reference_table('cu_copies')`,
	} {
		if a := p.Weft.Ask(pair.Simple, sql, nil, nil); a.Code != "" {
			t.Fatalf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	for _, c := range []struct {
		rows, sql string
		refused   bool
	}{
		{"cu_rows where k = 5", `update cu_rows set v = v + 1 where current of c returning v`, false},
		{"cu_rows where k = 5", `update cu_rows x set v = (select count(*) from cu_copies) where current of c returning x.v`, false},
		{"cu_rows where k = 5", `delete from cu_rows where current of c`, false},
		{"cu_rows where k = 5", `update cu_rows set k = 500 where current of c`, true},
		{"cu_rows where k = 5", `update cu_rows set v = (select count(*) from cu_rows) where current of c`, true},
		{"cu_copies order by id", `update cu_copies set v = 0 where current of c`, true},
		{"cu_copies order by id", `delete from cu_copies where current of c`, true},
		{"cu_home order by id", `update cu_home set v = 0 where current of c`, false},
		{"cu_home order by id", `update cu_home set v = (select count(*) from cu_rows) where current of c`, true},
		{"cu_mails where k = 5", `update cu_mails set v = 0 where current of c`, false},
		{"cu_mails where k = 5", `update cu_mails set mail = 'x' where current of c`, true},
	} {
		for _, mode := range []pair.Mode{pair.Simple, pair.Text, pair.Prepared} {
			p.Both(t, c.sql, `begin`)
			p.Both(t, c.sql, `declare c cursor for select * from `+c.rows)
			p.Both(t, c.sql, `fetch 1 from c`)
			wrong, _, got := p.Run(mode, c.sql, nil)
			if got.Refused() != c.refused || wrong != "" && !c.refused {
				t.Errorf("%s: %s: %s %s %s", mode, c.sql, got.Code, got.Message, wrong)
			}
			p.Both(t, c.sql, `rollback`)
			text := "begin; declare c cursor for select * from " + c.rows + "; fetch 1 from c; " + c.sql + "; rollback"
			if wrong, _, got := p.Run(pair.Simple, text, nil); got.Refused() != c.refused || wrong != "" && !c.refused {
				t.Errorf("%s: %s %s %s", text, got.Code, got.Message, wrong)
			}
			p.Both(t, text, `rollback`)
		}
	}
	pair.SameTables(t, db, nil)
}
