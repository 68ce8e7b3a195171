package move

import (
	"strings"
	"testing"

	"weft/integration/harness"
)

const rekeyTables = `create table doc (id bigint primary key, owner int not null, region int not null, title text, n int not null default 0);
	create table part (region int not null, id int not null, n int not null default 0, primary key (region, id));
	create table piece (region int not null, id int not null, part int not null, n int not null default 0, primary key (region, part, id), foreign key (region, part) references part on delete cascade);
	insert into doc select i, i % 60 + 1, i % 25 + 1, 'doc ' || i from generate_series(1, 600) i;
	insert into part select i % 25 + 1, i from generate_series(1, 400) i;
	insert into piece select region, 7, id from part`

var (
	rekeyReads = []string{
		"select * from doc where id = $a",
		"select * from doc where owner = $a % 60 + 1",
		"select * from doc where region = $a % 25 + 1 and n > 0",
		"select owner, count(*), sum(n) from doc group by owner",
		"select count(*), sum(n), max(id) from doc",
		"select d.id, e.id from doc d join doc e on e.region = d.region and e.id > d.id where d.id in ($a, $b)",
		"select d.owner, count(*) from doc d join part p on p.region = d.region group by d.owner",
		"select p.region, p.id, x.id from part p join piece x on x.region = p.region and x.part = p.id where p.id in ($a, $b, $c)",
		"select count(*), sum(p.n), sum(x.n) from part p left join piece x on x.region = p.region and x.part = p.id",
		"select region, (select count(*) from piece x where x.region = p.region and x.part = p.id) from part p where p.id < $a",
	}
	rekeyWrites = []string{
		"update doc set n = n + 1 where id = $a",
		"update doc set n = n + 1 where owner = $a % 60 + 1",
		"update doc set n = n + 1 where region in ($a % 25 + 1, $b % 25 + 1)",
		"insert into doc (id, owner, region) values (1000 + $n, $a % 60 + 1, $b % 25 + 1)",
		"insert into doc (id, owner, region) values ($a, 1, 1)",
		"delete from doc where id > 1000 and n = 0 and region = $a % 25 + 1",
		"update part set n = n + 1 where id = $a",
		"update part set n = n + 1 where region = $a % 25 + 1",
		"insert into piece values ($a % 25 + 1, $n, $a)",
		"insert into piece values ($a % 25 + 1, $n, $a + 5000)",
		"delete from piece where id > 7 and part in ($a, $b)",
		"insert into part values ($a % 25 + 1, 1000 + $n)",
		"delete from part where id > 1000 and region = $a % 25 + 1",
	}
)

// TestAlterShardKey: tables get another key while clients use them, alone and with those that foreign keys tie to them. Every
// statement meanwhile has the effect and the answer that one PostgreSQL gives.
func TestAlterShardKey(t *testing.T) {
	w := plain(t, "online_rekey", 2)
	one := harness.Postgres(t)
	one.CreateDatabase(t, w.db)
	p, c := one.Connect(t, "postgres", "dbname="+w.db), w.conn(0)
	w.must(p, rekeyTables)
	w.must(c, rekeyTables)
	w.must(c, "select weft.shard_table('doc', 'owner')")
	w.must(c, "select weft.shard_tables('part.id, piece.part')")
	w.must(c, "select weft.reference_table('kind')")

	// What does not fit is refused before anything moves.
	w.refused(c, "select weft.alter_shard_key('alone', 'email')", "(55000|42704|42809)", "not declared|no declared|not a declared|is not")
	w.refused(c, "select weft.alter_shard_key('kind', 'name')", "42809", "reference table")
	w.refused(c, "select weft.alter_shard_key('doc', 'owner')", "42710", "sharded by owner already")
	w.refused(c, "select weft.alter_shard_key('doc', 'nobody')", "42703", "nobody")
	w.refused(c, "select weft.alter_shard_key('doc', 'region', online => false)", "0A000", "online")
	w.refused(c, "select weft.alter_shard_key('piece', 'id')", "42830", "would cross shards")
	w.refused(c, "select weft.alter_shard_key('part', 'n', cascade => true)", "42830", "by other columns")
	w.refused(c, "select weft.alter_shard_key('part', 'region')", "(42830|0A000|55006)", "piece")
	w.refused(c, "select alter_distributed_table('doc', distribution_column => 'region', shard_count => 8)", "0A000", "shard_count")
	if n := value[int](w, c, "select count(*) from weft.moves where kind = 'undeclare'"); n != 0 {
		t.Errorf("%d jobs of what was refused", n)
	}

	w.differ(p, rekeyReads, rekeyWrites, []string{
		"select weft.alter_shard_key('doc', 'region')",
		"select weft.alter_shard_key('part', 'region', cascade => true)",
		"select alter_distributed_table('doc', distribution_column => 'id')",
	})
	for _, table := range []string{"doc", "part", "piece"} {
		w.equal(p, table)
		w.spread(table)
	}
	if keys := w.lines(c, "select name || '.' || columns[1] from weft.tables where name in ('doc', 'part', 'piece')"); strings.Join(keys, " ") != "[doc.id] [part.region] [piece.region]" {
		t.Errorf("the keys are %s", keys)
	}
	w.settled(c)
	if diff := w.dump(c, "select * from weft.schema_diff()"); diff != "[] <nil>" {
		t.Errorf("the shards differ: %s", diff)
	}
}
