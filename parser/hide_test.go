package parser

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

// TestHide asks a server as pg_dump does, with something in the database that is weft's.
func TestHide(t *testing.T) {
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, pgtest.Start(t, pgserver.Config{}).ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	exec := func(sql string) {
		t.Helper()
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatal(err)
		}
	}
	exec(`CREATE SCHEMA weft; CREATE TABLE t (i int);
		CREATE FUNCTION weft.note() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE FUNCTION weft.altered() RETURNS event_trigger LANGUAGE plpgsql AS 'BEGIN END';
		CREATE FUNCTION mine() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
		CREATE TRIGGER mine AFTER INSERT ON t EXECUTE FUNCTION mine(); CREATE TRIGGER "weft note" AFTER INSERT ON t EXECUTE FUNCTION weft.note();
		CREATE EVENT TRIGGER weft_altered ON ddl_command_end EXECUTE FUNCTION weft.altered()`)
	ask := func(sql string) string {
		t.Helper()
		edits, err := HideEdits(sql, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Query(ctx, edits.Apply(sql))
		if err != nil {
			t.Fatal(err)
		}
		names, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatalf("%s: %v", edits.Apply(sql), err)
		}
		return strings.Join(names, " ")
	}
	const (
		schemas  = `SELECT n.nspname FROM pg_namespace n LEFT JOIN pg_init_privs p ON n.oid = p.objoid AND p.classoid = n.tableoid ORDER BY 1`
		pattern  = `SELECT n.nspname FROM pg_catalog.pg_namespace n WHERE n.nspname OPERATOR(pg_catalog.~) '^(weft)$'`
		triggers = `SELECT t.tgname FROM unnest('{t}'::regclass[]) AS src(tbloid) JOIN pg_catalog.pg_trigger t ON (src.tbloid = t.tgrelid)
			LEFT JOIN pg_catalog.pg_trigger u ON (u.oid = t.tgparentid) WHERE ((NOT t.tgisinternal AND t.tgparentid = 0) OR t.tgenabled != u.tgenabled) ORDER BY 1`
		events = `SELECT evtname FROM pg_event_trigger ORDER BY pg_event_trigger.tableoid`
	)
	for _, own := range []bool{false, true} { // without weft.own the schema is somebody's
		want := map[string]string{
			schemas:  "information_schema pg_catalog pg_toast public weft",
			pattern:  "weft",
			triggers: "mine weft note",
			events:   "weft_altered",
		}
		if own {
			exec("CREATE TABLE weft.own (version int)")
			want[schemas], want[triggers], want[events] = "information_schema pg_catalog pg_toast pg_weft public", "mine", ""
		}
		for sql, names := range want {
			if got := ask(sql); got != names {
				t.Errorf("own %v: %s\n%s, want %s", own, sql, got, names)
			}
		}
	}
	if edits, err := HideEdits("SELECT 'pg_trigger'::regclass FROM public.pg_trigger", Options{}); err != nil || len(edits) > 0 {
		t.Errorf("somebody's own table: %v, %v", edits, err)
	}
}
