package routing

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestFramedTexts: one text opens a block, says what belongs to it, and may end it. Drivers open transactions
// of a level in this way, and tools send whole migrations so.
func TestFramedTexts(t *testing.T) {
	db, _ := pairs(t, "framed", 50)
	sameTexts(t, db,
		"begin; set transaction isolation level repeatable read",
		"select count(*), sum(v) from pairs", "update pairs set n = n + 1 where k in (1, 2, 3, 4, 5, 6)", "show transaction_isolation", "commit",
		"begin; update pairs set n = 7 where k = 1; update pairs set n = 8 where k = 2; update pairs set n = 9 where k = 3; commit",
		"select k, n from pairs where k < 8 order by k",
		"start transaction read only; select count(*) from pairs", "update pairs set n = 0", "rollback",
		"begin; savepoint s; update pairs set n = 0; rollback to s; select sum(n) from pairs; commit",
		"begin; update pairs set n = 0; select 1/(k-k) from pairs; commit", "select 1", "commit",
		"begin; alter table pairs add column extra int default 3; update pairs set extra = k where k > 40; commit",
		"select sum(extra), count(*) from pairs",
		"begin; create table other (k bigint primary key); insert into other values (1); commit", "select * from other",
		"begin; insert into pairs (k, v) values (100, 1), (101, 2), (102, 3); insert into pairs (k, v) values (1, 1); commit", "rollback",
		"begin; ; commit", "begin; commit", "begin; select 2; end", "begin isolation level serializable; select 3; commit",
		"begin; select 5; rollback", "begin; select 6; commit; select 7",
		"select count(*), sum(n) from pairs",
	)
}

// sameTexts sends simple queries to both sides, and compares every message.
func sameTexts(t *testing.T, db string, texts ...string) {
	t.Helper()
	var groups []talk
	for _, sql := range texts {
		groups = append(groups, talk{&pgproto3.Query{String: sql}})
	}
	want, got := converse(t, harness.Postgres(t), db, groups), converse(t, harness.Weft(t), db, groups)
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("%s\nPostgreSQL %q\nweft       %q", groups[i][0].(*pgproto3.Query).String, want[i], got[i])
		}
	}
}

// TestDrawnOnce: a text of several statements draws one value of a sequence for each row it
// writes, however it is carried out.
func TestDrawnOnce(t *testing.T) {
	db, p := pairs(t, "drawnonce", 5)
	p.Both(t, "schema", "create sequence few maxvalue 4")
	p.Both(t, "schema", "create table drawn (id bigint not null default nextval('few'), k int primary key)")
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('drawn', 'k')"})
	sameTexts(t, db,
		"insert into drawn (k) values (1); insert into drawn (k) values (2); insert into drawn (k) values (3); insert into drawn (k) values (4)",
		"select count(*), count(distinct id), min(id), max(id) from drawn",
		"insert into drawn (k) values (5); select 1",
	)
}
