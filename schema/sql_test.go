package schema

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/catalog"
	"weft/pgerr"
	"weft/quote"
)

// TestSQLFiles: every file is run by some list, ends its last statement, and has lines that a
// screen can show.
func TestSQLFiles(t *testing.T) {
	used := strings.Join(slices.Concat(missing(0), lookupObjects, []string{guardObjects, sqlFile("own/00_own")}), "")
	err := fs.WalkDir(sqlFiles, "sql", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := sqlFiles.ReadFile(name)
		text := string(b)
		if !strings.Contains(used, text) {
			t.Errorf("%s is not installed", name)
		}
		if !strings.HasSuffix(text, ";\n") {
			t.Errorf("%s does not end with a statement", name)
		}
		for i, line := range strings.Split(text, "\n") {
			if n := len([]rune(strings.ReplaceAll(line, "\t", "    "))); n > 140 {
				t.Errorf("%s:%d has %d columns", name, i+1, n)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestLookupIndexIsTheCatalogs: the functions of lookup_index.sql ask what the catalog's queries ask.
func TestLookupIndexIsTheCatalogs(t *testing.T) {
	plain := func(s string) string {
		s = regexp.MustCompile(`'\s*\n\s*'`).ReplaceAllString(s, "") // a literal over two lines
		return regexp.MustCompile(`\s+`).ReplaceAllString(s, "")
	}
	text := plain(sqlFile("lookup_index"))
	if !strings.Contains(text, "WHERE"+plain(catalog.LookupIndex)+"$f$") {
		t.Error("the condition of weft.lookup_index is not catalog.LookupIndex")
	}
	for name, sql := range map[string]string{"IndexShape": catalog.IndexShape, "IndexUses": catalog.IndexUses, "IndexCause": catalog.IndexCause} {
		if !strings.Contains(text, "SELECT"+plain(sql)+"FROMpg_indexi") {
			t.Errorf("no function has the expression catalog.%s", name)
		}
	}
}

// shard is a database with what weft installs, on one server, and a connection to it.
type shard struct {
	*testing.T
	place
	own *Own
	pid int32
}

// installed runs all files twice in an empty database: whatever may be run again leaves it as it is.
func installed(t *testing.T) *shard {
	t.Helper()
	db := database(t)
	sh := &shard{T: t, place: on(t, "home", db)}
	for range 2 {
		sh.run(t, "SET client_min_messages = error; SET check_function_bodies = on")
		for _, text := range slices.Concat([]string{guardObjects, sqlFile("lookup_notes"), sqlFile("lookup_index"), sqlFile("lookup_make"), sqlFile("lookup_follow"), sqlFile("own/00_own")}, missing(0)) {
			sh.run(t, text)
		}
	}
	pid, err := strconv.Atoi(sh.get(t, "SELECT pg_backend_pid()"))
	if err != nil {
		t.Fatal(err)
	}
	sh.pid, sh.own = int32(pid), &Own{Key: sh.get(t, "SELECT key FROM weft.own")}
	return sh
}

// prove returns the proof of a call as a literal.
func (sh *shard) prove(call ...string) string { return quote.Literal(sh.own.Prove(sh.pid, call...)) }

// is compares the answer to a query, or the error it ends with: SQLSTATE and message.
func (sh *shard) is(sql, want string) {
	sh.Helper()
	rows, err := sh.exec(sh.T, sql)
	var lines []string
	for _, r := range rows {
		lines = append(lines, strings.Join(r, "|"))
	}
	got := strings.Join(lines, "; ")
	if err != nil {
		var e *pgerr.Error
		if !errors.As(err, &e) {
			sh.Fatalf("%s: %v", sql, err)
		}
		got = e.Code + " " + e.Message
		if _, err := sh.exec(sh.T, "ROLLBACK"); err != nil {
			sh.Fatal(err)
		}
	}
	if got != want {
		sh.Errorf("%s\n got %s\nwant %s", sql, got, want)
	}
}

const notProved = "42501 what weft keeps is changed by weft alone"

// TestOwnSQL: what the functions of own/*.sql do.
func TestOwnSQL(t *testing.T) {
	sh := installed(t)
	proof := sh.get(t, "SELECT weft.proof(key, 'g1') FROM weft.own")
	sh.is("INSERT INTO weft.decision (gid, participants, proof) VALUES ('g1', 'a@1', "+quote.Literal(proof)+")", "")
	sh.is("INSERT INTO weft.decision (gid, participants, proof) VALUES ('g1', 'a@1', left("+quote.Literal(proof)+", 16) || 'false')", "")
	sh.is("INSERT INTO weft.decision (gid, participants, proof) VALUES ('g2', 'a@1', 'other database')",
		`23514 new row for relation "decision" violates check constraint "decision_database"`)
	for _, level := range []string{"off", "local", "remote_write"} {
		sh.is("BEGIN; SET LOCAL synchronous_commit = "+level+"; INSERT INTO weft.decision (gid, participants, proof) VALUES ('g3', '', "+quote.Literal(proof)+"); SHOW synchronous_commit; ROLLBACK", "on")
	}
	sh.is("SELECT weft.server() ~ '^[0-9]+/[0-9A-F]{8}$'", "t")

	sh.is("SELECT weft.prove('a', "+sh.prove("a")+")", "")
	sh.is("SELECT weft.prove('b', "+sh.prove("a")+")", notProved)
	sh.is("SELECT weft.prove('a', NULL)", notProved)
	sh.is("BEGIN; SELECT weft.enter("+sh.prove("enter")+"); SELECT mode FROM pg_locks WHERE relation = 'weft_gate.gate'::regclass; ROLLBACK", "; RowExclusiveLock")
	sh.is("SELECT weft.enter('')", notProved)
	sh.is("INSERT INTO weft.gate DEFAULT VALUES", `23514 new row for relation "gate" violates check constraint "gate_empty"`)

	sh.is("SELECT * FROM weft.stats", "55000 the rows of weft.stats are known to weft alone")
	sh.is(`SET weft.rows = '{"stats": [{"proxy": "p", "kind": "select", "statements": 3, "seconds": 1.5}]}'; SELECT kind, statements, seconds FROM weft.stats; RESET weft.rows`, "select|3|1.5")

	sh.is("BEGIN; SELECT weft.pg_notify('c', 'now'); SELECT weft.notes(); ROLLBACK", "; ")
	sh.is("BEGIN; SET LOCAL weft.carry = on; SELECT weft.pg_notify('c', 'p1'); SAVEPOINT s; SELECT weft.pg_notify('c', 'p2'); ROLLBACK TO s; SELECT weft.pg_notify('d', ''); "+
		"SELECT regexp_replace(weft.notes(), '(^|\n)[0-9]{20}', '', 'g'); ROLLBACK", "; ; ;  63 7031 64 \n")
	sh.is("BEGIN; SET LOCAL weft.carry = on; SELECT weft.pg_notify('', 'p')", "22023 channel name cannot be empty")
	sh.is("BEGIN; SET LOCAL weft.carry = on; SELECT weft.pg_notify(repeat('c', 64), 'p')", "22023 channel name too long")
	sh.is("BEGIN; SET LOCAL weft.carry = on; SELECT weft.pg_notify('c', repeat('p', 8000))", "22023 payload string too long")
	sh.is("BEGIN; SET LOCAL weft.carry = on; SELECT weft.pg_notify('c', repeat('p', 7999)) FROM generate_series(1, 5); SELECT length(weft.notes()), current_setting('weft.noted'); ROLLBACK",
		"; ; ; ; ; 80115|3")
	sh.is("BEGIN; SELECT weft.tell('x 63 7031'); SELECT current_setting('weft.carry'); COMMIT", "; ")
}

// TestGuardSQL: a table has guards exactly while it has BEFORE triggers, and they find a changed key.
func TestGuardSQL(t *testing.T) {
	sh := installed(t)
	const guards = "SELECT string_agg(quote_ident(tgname) || tgenabled::text, ' ' ORDER BY tgname COLLATE \"C\") FROM pg_trigger WHERE tgrelid = 'public.t'::regclass AND tgname LIKE '%weft%'"
	sh.run(t, `CREATE TABLE public.t (id int, "K" text, v int); SELECT weft.guard_table('public.t', '{id,K}');
CREATE FUNCTION public.same() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.v := NEW.v + 1; RETURN NEW; END';
CREATE FUNCTION public.other() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.v > 9 THEN NEW."K" := NEW."K" || NEW.v; END IF; RETURN NEW; END';
CREATE FUNCTION public.deeper() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN IF NEW.v = 3 THEN INSERT INTO public.t VALUES (7, ''x'', 0); END IF; RETURN NEW; END'`)
	sh.is(guards, "")
	sh.run(t, "CREATE TRIGGER b BEFORE INSERT OR UPDATE ON public.t FOR EACH ROW EXECUTE FUNCTION public.same()")
	sh.is(guards, `" weft guard"A "~weft guard"A`)
	sh.run(t, `CREATE TRIGGER c BEFORE INSERT OR UPDATE ON public.t FOR EACH ROW EXECUTE FUNCTION public.other();
CREATE TRIGGER d BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.deeper()`)
	sh.is("INSERT INTO public.t VALUES (1, 'a', 0), (NULL, NULL, 2) RETURNING *", "1|a|1; ||3")
	sh.is("SELECT count(*) FROM public.t WHERE id = 7", "1")
	sh.is("INSERT INTO public.t VALUES (1, 'a', 9)", "0A000 a BEFORE trigger of t changes the shard key of a row")
	sh.is("SET session_replication_role = replica; UPDATE public.t SET v = 9; RESET session_replication_role; SELECT 1", "1")
	sh.run(t, "ALTER TABLE public.t ENABLE ALWAYS TRIGGER c")
	sh.is("SET session_replication_role = replica; UPDATE public.t SET v = 10", "0A000 a BEFORE trigger of t changes the shard key of a row")
	sh.run(t, "RESET session_replication_role")
	sh.is(`CREATE TRIGGER "~~" BEFORE INSERT ON public.t FOR EACH ROW EXECUTE FUNCTION public.same()`,
		`0A000 trigger "~~" of sharded table public.t would run before or after those that guard its shard key`)
	sh.run(t, `ALTER TABLE public.t DISABLE TRIGGER "~weft guard"`)
	sh.is(guards, `" weft guard"A "~weft guard"A`)
	sh.run(t, "DROP TRIGGER b ON public.t; DROP TRIGGER c ON public.t")
	sh.is(guards, `" weft guard"A "~weft guard"A`)
	sh.run(t, "ALTER TABLE public.t DISABLE TRIGGER d; DROP TRIGGER d ON public.t; CREATE TABLE public.u ()")
	sh.is(guards, "")
	sh.run(t, "CREATE TRIGGER b BEFORE INSERT OR UPDATE ON public.t FOR EACH ROW EXECUTE FUNCTION public.same(); SELECT weft.guard_table('public.t', NULL)")
	sh.is(guards+" UNION ALL SELECT count(*)::text FROM weft.guarded", "; 0")
}

// entry is how a row's values travel: bucket:id:value….
func entry(bucket, id int, values ...string) string {
	s := fmt.Sprintf("%d:%d", bucket, id)
	for _, v := range values {
		s += fmt.Sprintf(":%x", v)
	}
	return s
}

// TestLookupSQL: what the functions of lookup_*.sql do, on one shard.
func TestLookupSQL(t *testing.T) {
	sh := installed(t)
	sh.run(t, `CREATE TABLE public.people (id int PRIMARY KEY, mail text, kind int, CONSTRAINT mail UNIQUE (mail));
CREATE TABLE public.parts (id int, v text) PARTITION BY RANGE (id); CREATE TABLE public.low PARTITION OF public.parts FOR VALUES FROM (0) TO (10);
SELECT weft.lookup_add('m_1', 'public.people', '{mail}', '{id}', '{text}', true, 1, 'public', 'k1::int8', 'k1 % 7', '');
SELECT weft.lookup_add('k', 'public.people', '{kind,mail}', '{id}', '{int8,text}', false, 0, 'public', 'k1::int8', 'k1 % 7', '');
SELECT weft.lookup_add('p', 'public.parts', '{v}', '{id}', '{text}', false, 0, 'public', 'k1::int8', 'k1 % 7', '');
SELECT weft.lookup_make('m_1'), weft.lookup_make('k'), weft.lookup_make('p')`)
	sh.is("SELECT name, columns, keys, names, index::regclass FROM weft.lookup ORDER BY name", "k|{3,2}|{1}|{kind,mail,id}|-; m_1|{2}|{1}|{mail,id}|mail; p|{2}|{1}|{v,id}|-")

	drain := "SELECT lookup, gone, entries FROM weft.drain(9, " + sh.prove("drain") + ") ORDER BY 1, 2 DESC"
	changes := func(sql, want string) {
		t.Helper()
		sh.is("BEGIN; "+sql+"; "+drain+"; COMMIT", want)
	}
	// A transaction that leaves notes cannot commit, whatever session_replication_role is.
	sh.is("INSERT INTO public.people VALUES (8, 'a', 1)", "40001 lookup k has not followed what the transaction has changed")
	sh.is("SET session_replication_role = replica; INSERT INTO public.people VALUES (8, 'a', 1)", "40001 lookup k has not followed what the transaction has changed")
	sh.run(t, "RESET session_replication_role")
	sh.is("SELECT weft.drain(9, '')", notProved)
	changes("INSERT INTO public.people VALUES (8, 'a', 1), (9, NULL, 2), (10, 'b', NULL)",
		"k|f|"+entry(1, 8, "1", "a")+"; m_1|f|"+entry(1, 8, "a")+","+entry(3, 10, "b"))
	changes("UPDATE public.people SET kind = kind + 1", "k|t|"+entry(1, 8, "1", "a")+"; k|f|"+entry(1, 8, "2", "a"))
	changes("DELETE FROM public.people WHERE id = 10", "m_1|t|"+entry(3, 10, "b"))
	changes("INSERT INTO public.low VALUES (1, 'x')", "p|f|"+entry(1, 1, "x"))
	changes("UPDATE public.parts SET v = 'y'", "p|t|"+entry(1, 1, "x")+"; p|f|"+entry(1, 1, "y"))
	changes(`SELECT weft."p:fill"('public.low', true)`, "; p|t|"+entry(1, 1, "y"))
	sh.is(`CREATE TABLE public.mine (); CREATE TRIGGER mine AFTER INSERT ON public.mine FOR EACH STATEMENT EXECUTE FUNCTION weft."m_1:note"(); INSERT INTO public.mine SELECT`,
		`42501 this function is a trigger of another table`)

	call := func(function string, args ...string) string {
		name, _, _ := strings.Cut(function, "(")
		list := ""
		for _, a := range args {
			list += quote.Literal(a) + ", "
		}
		return "SELECT * FROM weft." + quote.Ident(name) + "(" + list + sh.prove(append([]string{name}, args...)...) + ")"
	}
	for _, f := range []string{"m_1:apply", "k:apply", "m_1:settle"} {
		sh.is("SELECT weft."+quote.Ident(f)+"('', '', 'x')", notProved)
	}
	for _, f := range []string{"m_1:find", "k:find", "m_1:claim"} {
		sh.is("SELECT weft."+quote.Ident(f)+"('', 'x')", notProved)
	}
	// A unique lookup: apply, find, claim, settle.
	sh.is(call("m_1:apply", "", entry(1, 8, "a")+","+entry(2, 9, "b")), "")
	sh.is(call("m_1:apply", entry(1, 8, "a"), entry(3, 10, "b")), `23505 duplicate key value violates unique constraint "m_1_pkey"`)
	sh.is(call("m_1:apply", entry(1, 8, "b")+","+entry(1, 8, "a"), entry(3, 10, "c")), "")
	sh.is("SELECT v1, id, claimed FROM weft.m_1 ORDER BY 1", "b|9|; c|10|")
	sh.is(call("m_1:find", fmt.Sprintf("%x,%x", "b", "z")), "9")
	sh.is(call("m_1:claim", entry(0, 20, "b")+","+entry(0, 20, "d")+","+entry(0, 21, "e")), "9; ; ")
	sh.is("SELECT v1, id, claimed FROM weft.m_1 ORDER BY 1", "b|9|; c|10|; d|20|t; e|21|t")
	sh.is(call("m_1:settle", entry(0, 21, "f"), "!"), "0A000 a BEFORE trigger changes a unique column that ON CONFLICT looks at over all shards")
	sh.is(call("m_1:settle", entry(0, 20, "d"), "!"), "")
	sh.is(call("m_1:settle", entry(0, 22, "g"), entry(0, 21, "e")), "")
	sh.is("SELECT v1, id, claimed FROM weft.m_1 ORDER BY 1", "b|9|; c|10|; d|20|; g|22|")
	// A lookup with equal entries loses one of them at a time.
	sh.is(call("k:apply", "", entry(1, 8, "1", "a")+","+entry(1, 8, "1", "a")+","+entry(1, 9, "1", "a")), "")
	sh.is(call("k:apply", entry(1, 8, "1", "a"), ""), "")
	sh.is("SELECT v1, v2, id FROM weft.k ORDER BY 3", "1|a|8; 1|a|9")
	sh.is(call("k:find", fmt.Sprintf("%x:%x", "1", "a"))+" ORDER BY 1", "8; 9")

	// An entry that a prepared transaction has stored goes too: its row may be seen before it is committed here.
	for _, of := range []struct{ lookup, entry string }{{"m_1", entry(1, 30, "w")}, {"k", entry(1, 30, "2", "w")}} {
		sh.run(t, "BEGIN; "+call(of.lookup+":apply", "", of.entry)+"; PREPARE TRANSACTION 'late'")
		done := make(chan error)
		go func() { done <- commitWhenAwaited(t.Context(), servers[sh.server].ConnString(sh.database)) }()
		sh.is(call(of.lookup+":apply", of.entry, ""), "")
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		sh.is("SELECT count(*) FROM weft."+of.lookup+" WHERE id = 30", "0")
	}

	// DDL: names are followed, types refused, triggers stay enabled, lookups go with what they are about.
	sh.run(t, `ALTER TABLE public.people RENAME mail TO "e-mail%s"; ALTER TABLE public.people DISABLE TRIGGER USER`)
	changes("INSERT INTO public.people VALUES (15, 'h', NULL)", "m_1|f|"+entry(1, 15, "h"))
	sh.is("ALTER TABLE public.people ALTER kind TYPE text", "0A000 column kind of people has a lookup and cannot change its type so")
	sh.run(t, "ALTER TABLE public.people ALTER kind TYPE bigint")
	sh.run(t, `CREATE UNIQUE INDEX second ON public.people ("e-mail%s") WHERE "e-mail%s" IS NOT NULL; CREATE UNIQUE INDEX partial ON public.people ("e-mail%s") WHERE kind > 0; ALTER TABLE public.people DROP CONSTRAINT mail`)
	sh.is("SELECT index::regclass FROM weft.lookup WHERE name = 'm_1'", "second")
	sh.run(t, "DROP INDEX public.second")
	sh.is("SELECT name FROM weft.lookup ORDER BY 1", "k; p")
	sh.is("SELECT to_regclass('weft.m_1'), to_regprocedure('weft.\"m_1:find\"(text, text)')", "|")
	sh.run(t, "ALTER TABLE public.people DROP COLUMN kind; DROP TABLE public.parts")
	sh.is("SELECT name FROM weft.lookup", "")

	// lookup_follow makes a lookup and notes the rows that are there.
	step := `{"do": "make", "name": "again", "table": "public.people", "columns": ["e-mail%s"], "keys": ["id"], "types": ["text"], "id": "k1::int8", "bucket": "0"}`
	sh.is("SELECT weft.lookup_follow("+quote.Literal(step)+", '')", notProved)
	changes("SELECT weft.lookup_follow("+quote.Literal(step)+", "+sh.prove("follow", step)+")", "; again|f|"+entry(0, 8, "a")+","+entry(0, 15, "h"))
	step = `{"do": "take", "name": "again", "table": "public.people"}`
	changes("SELECT weft.lookup_follow("+quote.Literal(step)+", "+sh.prove("follow", step)+")", "; again|t|"+entry(0, 8, "a")+","+entry(0, 15, "h"))
	sh.run(t, "SELECT weft.lookup_drop('again')")
	sh.is("SELECT count(*) FROM pg_trigger WHERE tgrelid = 'public.people'::regclass AND tgname LIKE 'weft %'", "0")
}

// commitWhenAwaited commits a prepared transaction when another session waits for it.
func commitWhenAwaited(ctx context.Context, conn string) error {
	c, err := pgx.Connect(ctx, conn)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for awaited := false; !awaited; {
		if err := c.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep')").Scan(&awaited); err != nil {
			return err
		}
	}
	_, err = c.Exec(ctx, "COMMIT PREPARED 'late'")
	return err
}

// TestLookupUpgrade: a shard with the texts of an older weft gets these, its lookups get their
// functions again, and a shard with those of a newer weft is left alone.
func TestLookupUpgrade(t *testing.T) {
	sh := installed(t)
	s, err := open(t.Context(), dialer{}, sh.server, sh.database, "postgres", "test")
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	sh.run(t, `CREATE TABLE public.people (id int PRIMARY KEY, mail text);
SELECT weft.lookup_add('m', 'public.people', '{mail}', '{id}', '{text}', false, 0, 'public', 'k1::int8', '0', ''); SELECT weft.lookup_make('m')`)
	const state = `SELECT weft.lookup_version(), (SELECT count(*) FROM pg_proc WHERE oid IN (to_regprocedure('weft.lookup_follow(text, text)'), to_regprocedure('weft."m:find"(text, text)')))`
	for older, want := range map[int]string{lookupVersion - 1: fmt.Sprintf("%d|2", lookupVersion), lookupVersion + 1: fmt.Sprintf("%d|0", lookupVersion+1)} {
		sh.run(t, fmt.Sprintf(`CREATE OR REPLACE FUNCTION weft.lookup_version() RETURNS int LANGUAGE sql AS 'SELECT %d'`, older))
		sh.run(t, `DROP FUNCTION IF EXISTS weft.lookup_follow(text, text), weft."m:find"(text, text)`)
		if err := upgradeLookups(s); err != nil {
			t.Fatal(err)
		}
		sh.is(state, want)
	}
}

// TestMissing: an install runs each text of the steps that a database lacks, once.
func TestMissing(t *testing.T) {
	for version := range len(ownSteps) + 1 {
		got, want := missing(version), map[string]bool{}
		for _, text := range slices.Concat(ownSteps[version:]...) {
			want[text] = true
		}
		if len(got) != len(want) {
			t.Errorf("version %d lacks %d texts, and %d are run", version, len(want), len(got))
		}
		for _, text := range got {
			delete(want, text)
		}
		if len(want) > 0 {
			t.Errorf("version %d: %d texts are left out", version, len(want))
		}
	}
}

// TestIndexCause: functions of lookups run as a superuser, and call nothing that another role has made.
func TestIndexCause(t *testing.T) {
	sh := installed(t)
	sh.run(t, "CREATE ROLE cause_owner; CREATE SCHEMA theirs AUTHORIZATION cause_owner; CREATE TABLE t (id int, a text, n int[]); "+
		"DO $$ BEGIN EXECUTE format('GRANT CREATE ON DATABASE %I TO cause_owner', current_database()); END $$")
	defer sh.run(t, "DROP OWNED BY cause_owner CASCADE; DROP ROLE cause_owner")
	cause := func(index, want string) {
		t.Helper()
		sh.run(t, "CREATE UNIQUE INDEX i ON t "+index)
		got := sh.get(t, "SELECT weft.index_cause('i'::regclass)")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("index %s: %q, want %q", index, got, want)
		}
		sh.run(t, "DROP INDEX i")
	}
	// The owner of a trusted extension adds a function, which stays its owner's.
	sh.run(t, "SET ROLE cause_owner; CREATE EXTENSION hstore SCHEMA theirs; CREATE FUNCTION theirs.mine(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT $1'; "+
		"ALTER EXTENSION hstore ADD FUNCTION theirs.mine(text); CREATE OPERATOR theirs.%% (LEFTARG = text, RIGHTARG = text, FUNCTION = texteq); ALTER EXTENSION hstore ADD OPERATOR theirs.%% (text, text); RESET ROLE")
	cause("(theirs.mine(a))", "what calls the function theirs.mine(text)")
	cause("(a) WHERE a OPERATOR(theirs.%%) 'x'", "what calls the operator theirs.%%(text,text)")
	cause("(theirs.fetchval(theirs.hstore(a, 'x'), a))", "")
	cause("((theirs.hstore(a, 'x') OPERATOR(theirs.->) a))", "")
	// Another function could be chosen in the place of one that takes any type.
	sh.run(t, "CREATE FUNCTION theirs.sort_of(anyelement) RETURNS text LANGUAGE sql IMMUTABLE AS $$SELECT 'x'$$; ALTER EXTENSION hstore ADD FUNCTION theirs.sort_of(anyelement)")
	cause("(theirs.sort_of(a))", "what calls the function theirs.sort_of(anyelement)")
	sh.run(t, `CREATE COLLATION loose (provider = icu, locale = 'und', deterministic = false)`)
	cause("(lower(a) COLLATE loose)", "a nondeterministic collation")
	cause("(lower(a) text_pattern_ops) WHERE array_length(n, 1) > 1", "")
	sh.run(t, "DROP EXTENSION hstore CASCADE")
}
