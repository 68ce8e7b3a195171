package routing

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
	"weft/integration/pair"
)

// pipes are pipelines: statements, and "sync" where there is a Sync. There is one at
// the end anyway.
var pipes = []struct {
	name  string
	steps []string
}{
	{"one shard each", []string{
		"update pairs set n = 1 where k = 1", "update pairs set n = 1 where k = 2", "update pairs set n = 1 where k = 3", "update pairs set n = 1 where k = 4",
	}},
	{"one shard each, then an error", []string{
		"update pairs set n = 2 where k = 1", "update pairs set n = 2 where k = 2", "update pairs set n = 2 where k = 3", "select 1 / 0",
	}},
	{"an error of the last", []string{
		"update pairs set n = 3 where k = 1", "insert into pairs values (1, 0)",
	}},
	{"an error of the first", []string{"insert into pairs values (2, 0)", "update pairs set n = 3"}},
	{"all shards", []string{"update pairs set n = n + 10"}},
	{"all shards, then an error", []string{"update pairs set n = n + 1", "select 1 / 0"}},
	{"all shards, then a mistake", []string{"update pairs set n = n + 1", "select nothing from pairs"}},
	{"all shards, then a syntax error", []string{"update pairs set n = n + 1", "selec"}},
	{"an error on all shards", []string{"update pairs set n = 4 where k = 3", "update pairs set v = n / (k - 7)", "update pairs set n = 1"}},
	{"one shard, then all", []string{"update pairs set n = 5 where k = 5", "update pairs set n = n + 1", "select sum(n) from pairs", "select n from pairs where k = 5"}},
	{"reads see it", []string{"insert into pairs values (1001, 1)", "select count(*) from pairs", "delete from pairs where k = 1001", "select count(*) from pairs"}},
	{"several transactions", []string{
		"update pairs set n = n + 1", "sync", "update pairs set n = n + 1", "select 1 / 0", "update pairs set n = 0", "sync", "update pairs set n = n + 1 where k < 9",
	}},
	{"insert on all shards", []string{"insert into pairs select k, k from generate_series(2000, 2020) k", "delete from pairs where k > 2010"}},
	{"insert on all shards, twice", []string{"insert into pairs select k, k from generate_series(3000, 3020) k", "insert into pairs select k, k from generate_series(3020, 3040) k"}},
	{"returning", []string{"update pairs set n = 77 where k = 7 returning n", "update pairs set n = n + 1 where k in (7, 8) returning n - n", "select n from pairs where k = 7"}},
	{"begin in the middle", []string{"update pairs set n = 6 where k = 1", "update pairs set n = 6 where k = 2", "begin", "update pairs set n = 6 where k = 3", "sync", "update pairs set n = 6 where k = 4", "sync", "rollback"}},
	{"begin and commit in the middle", []string{"update pairs set n = n + 1", "begin", "update pairs set n = 6 where k = 3", "commit", "update pairs set n = 9 where k = 3", "select 1 / 0"}},
	{"commit without begin", []string{"update pairs set n = n + 1", "commit", "update pairs set n = n + 1", "select 1 / 0"}},
	{"rollback without begin", []string{"update pairs set n = n + 1", "rollback", "update pairs set n = n + 3 where k < 20"}},
	{"chain without begin", []string{"update pairs set n = n + 1", "commit and chain"}},
	{"savepoint without begin", []string{"update pairs set n = n + 1", "savepoint a", "update pairs set n = 8"}},
	{"deferred", []string{"insert into later select k, 0 from generate_series(1, 20) k", "insert into later values (30, 1)", "select count(*) from later"}},
	{"deferred, and wrong", []string{"insert into later select k, k from generate_series(100, 120) k", "select count(*) from later"}},
	{"deferred, and wrong by itself", []string{"insert into later select k, k from generate_series(200, 220) k"}},
	{"deferred, wrong on one shard of several", []string{"insert into later values (300, 0)", "insert into later values (301, 0)", "insert into later values (302, 5)"}},
	{"ddl", []string{"alter table pairs add x int", "update pairs set x = k", "select sum(x) from pairs"}},
	{"ddl, then an error", []string{"update pairs set n = n + 1 where k = 3", "alter table pairs add y int", "insert into pairs values (1)"}},
	{"ddl of what is there", []string{"update pairs set n = n + 1 where k = 3", "alter table pairs add x int", "select 1"}},
	{"settings", []string{"update pairs set n = n + 1", "set application_name = 'pipe'", "update pairs set n = n + 1 where k = 2", "show application_name"}},
	{"settings, undone", []string{"update pairs set n = n + 1", "set application_name = 'pipes'", "select 1 / 0", "sync", "show application_name"}},
	{"reads only", []string{"select v from pairs where k = 1", "select v from pairs where k = 2", "select sum(v) from pairs", "select v from pairs where k = 3"}},
	{"home table", []string{"insert into home values (1)", "update pairs set n = n + 1", "insert into home values (2)"}},
	{"home table, then an error", []string{"insert into home values (3)", "update pairs set n = n + 1 where k = 3", "insert into home values (1)"}},
	{"alone", []string{"update pairs set n = n + 1", "vacuum pairs"}},
	{"lock", []string{"update pairs set n = n + 1", "lock table pairs", "update pairs set n = n + 1 where k = 1"}},
}

// TestImplicit compares pipelines without BEGIN with PostgreSQL's: what is answered,
// the state after each Sync, and all rows after each pipeline.
func TestImplicit(t *testing.T) {
	db, p := pairs(t, "implicit", 60)
	for _, sql := range []string{
		"create table later (k bigint primary key, sum bigint not null)",
		"create function right_sum() returns trigger language plpgsql as $$ begin if new.sum > 1 then raise exception 'wrong sum' using errcode = '23514'; end if; return null; end $$",
		"create constraint trigger checked after insert on later deferrable initially deferred for each row execute function right_sum()",
		"create table home (a int primary key)",
	} {
		p.Both(t, "schema", sql)
	}
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('later', 'k')"})
	for _, named := range []bool{false, true} {
		for i, pipe := range pipes {
			if named && strings.HasPrefix(pipe.name, "ddl") {
				continue // cached plans are another matter
			}
			t.Run(fmt.Sprintf("%s/named=%v", pipe.name, named), func(t *testing.T) {
				steps := pipe.steps
				want := implicit(t, p.Plain.Conn, steps, named, i)
				got := implicit(t, p.Weft.Conn, steps, named, i)
				if want != got {
					t.Errorf("PostgreSQL:\n%s\nweft:\n%s", want, got)
				}
				if !*undeclared {
					pair.SameTables(t, db, nil)
				}
			})
		}
	}
}

// implicit sends a pipeline and tells what was answered.
func implicit(t *testing.T, conn *pgconn.PgConn, steps []string, named bool, number int) string {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	pl := conn.StartPipeline(ctx)
	syncs := 1
	for i, sql := range steps {
		switch {
		case sql == "sync":
			syncs++
			if err := pl.Sync(); err != nil {
				t.Fatal(err)
			}
		case named:
			name := fmt.Sprintf("s%d_%d", number, i)
			pl.SendPrepare(name, sql, nil)
			pl.SendQueryPrepared(name, nil, nil, nil)
		default:
			pl.SendQueryParams(sql, nil, nil, nil, nil)
		}
	}
	if err := pl.Sync(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	failed := func(err error) {
		var pe *pgconn.PgError
		if !errors.As(err, &pe) {
			t.Fatalf("%v, after\n%s", err, said.String())
		}
		if pe.Code == "25001" {
			pe.Message = "" // to weft's shards it is a block, not a pipeline
		}
		fmt.Fprintf(&said, "%s %s\n", pe.Code, pe.Message)
	}
	for syncs > 0 {
		res, err := pl.GetResults()
		switch r := res.(type) {
		case *pgconn.ResultReader:
			for r.NextRow() {
				fmt.Fprintf(&said, "%s\n", r.Values())
			}
			tag, err := r.Close()
			if err != nil {
				failed(err)
				continue
			}
			fmt.Fprintln(&said, tag)
		case *pgconn.StatementDescription:
			fmt.Fprintln(&said, "prepared")
		case *pgconn.PipelineSync:
			syncs--
			fmt.Fprintf(&said, "ready %c\n", conn.TxStatus())
		default:
			if err == nil {
				t.Fatalf("%T after\n%s", res, said.String())
			}
			failed(err)
		}
	}
	if err := pl.Close(); err != nil {
		t.Fatal(err)
	}
	return said.String()
}

// TestImplicitRefused: a pipeline that the client wants on one shard is refused on
// the second, all of it; what was prepared before is still there.
func TestImplicitRefused(t *testing.T) {
	if *undeclared {
		t.Skip("nothing is refused without declared tables")
	}
	db, p := pairs(t, "implicit_refused", 60)
	conn := pair.Connect(t, harness.Weft(t), db, "postgres").Conn
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	for _, how := range []string{"set weft.commit = 'single'", "set weft.commit = 'atomic'; set default_transaction_isolation = 'repeatable read'"} {
		if err := conn.Exec(ctx, how).Close(); err != nil {
			t.Fatal(err)
		}
		name := "u" + fmt.Sprint(len(how))
		if _, err := conn.Prepare(ctx, name, "update pairs set n = n + 1 where k = $1", nil); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			pl := conn.StartPipeline(ctx)
			for k := range 8 {
				pl.SendQueryPrepared(name, [][]byte{[]byte(fmt.Sprint(k))}, nil, nil)
			}
			if err := pl.Sync(); err != nil {
				t.Fatal(err)
			}
			if code := firstError(t, pl); code != "0A000" {
				t.Errorf("%s: %q", how, code)
			}
			if err := pl.Close(); err != nil {
				t.Fatal(err)
			}
			if s := conn.TxStatus(); s != 'I' {
				t.Errorf("%s: status %c", how, s)
			}
		}
		if res := conn.ExecPrepared(ctx, name, [][]byte{[]byte("1")}, nil, nil).Read(); res.Err != nil {
			t.Errorf("%s: %v", how, res.Err)
		}
		p.Plain.Must(t, "update pairs set n = n + 1 where k = 1")
	}
	pair.SameTables(t, db, nil)
}

// firstError returns the SQLSTATE of what failed before the next Sync.
func firstError(t *testing.T, pl *pgconn.Pipeline) (code string) {
	t.Helper()
	for {
		res, err := pl.GetResults()
		if r, ok := res.(*pgconn.ResultReader); ok {
			_, err = r.Close()
		}
		if _, ok := res.(*pgconn.PipelineSync); ok {
			return code
		}
		var pe *pgconn.PgError
		if errors.As(err, &pe) && code == "" {
			code = pe.Code
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
