package selects

import (
	"context"
	"errors"
	"flag"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/integration/harness"
	"weft/integration/pair"
	"weft/pgserver"
)

var undeclared = flag.Bool("undeclared", false, "declare no table: every statement goes home, so that the tests themselves are tested")

// setting is what a world is made from: how many shards, and how text is ordered.
type setting struct {
	name    string
	weights []int // one per shard: how much of the rows it gets
	locale  string
}

// The settings: each number of shards and each collation once. Shard 2 of five has no rows
// of sharded tables, shard 4 most.
var settings = []setting{
	{"five", []int{2, 1, 0, 1, 5}, "locale_provider icu icu_locale 'en-US' locale 'C.UTF-8'"},
	{"four", []int{1, 1, 1, 1}, "locale 'C.UTF-8'"},
	{"two", []int{1, 3}, "locale 'en_US.UTF-8'"},
	{"one", []int{1}, "locale 'C.UTF-8'"},
}

// world is a cluster and PostgreSQL with the same tables in both.
type world struct {
	setting
	database string
	*pair.Pair
	turned *pair.Peer // PostgreSQL again, with the rows of all tables turned round
}

var (
	worldsMu sync.Mutex
	loaded   = map[string]error{} // by name: made, and how that went
)

// open connects to a world. The first one to do so makes it.
func open(t testing.TB, s setting) *world {
	t.Helper()
	weft := harness.Uneven(t, s.weights...)
	w := &world{setting: s, database: "w_" + s.name}
	worldsMu.Lock()
	defer worldsMu.Unlock()
	err, known := loaded[s.name]
	if !known {
		err = createDatabases(w.database, s.locale, weft.Shards(), harness.Postgres(t).Home)
		loaded[s.name] = err
	}
	if err != nil && strings.Contains(s.locale, "en_US") && strings.Contains(err.Error(), "invalid locale name") {
		t.Skip("this machine has no en_US.UTF-8 and no localedef to make it with")
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Pair = pair.New(t, harness.Postgres(t), weft, w.database)
	w.turned = pair.Connect(t, harness.Postgres(t), w.database+"_turned", "postgres")
	if !known {
		w.load(t, pair.ReadScript(t, "schema"))
		w.everywhere(t, "do $$ begin create role watched; exception when duplicate_object then null; end $$")
	}
	w.everywhere(t, "set statement_timeout = '10s'")
	return w
}

func createDatabases(name, locale string, shards []*pgserver.Temp, plain *pgserver.Temp) error {
	ctx, stop := context.WithTimeout(context.Background(), 3*pair.Patience)
	defer stop()
	create := func(s *pgserver.Temp, name string) error {
		conn, err := pgx.Connect(ctx, s.ConnString("postgres"))
		if err != nil {
			return err
		}
		defer conn.Close(ctx)
		_, err = conn.Exec(ctx, s.CreateDatabase(name, "template template0 encoding 'UTF8'", locale))
		return err
	}
	errs := make([]error, len(shards))
	var wg sync.WaitGroup
	for i, s := range shards {
		wg.Go(func() { errs[i] = create(s, name) })
	}
	wg.Wait()
	return errors.Join(append(errs, create(plain, name), create(plain, name+"_turned"))...)
}

// load runs a script's setup and declarations.
func (w *world) load(t testing.TB, script []pair.Section) {
	t.Helper()
	turn := false
	for _, s := range script {
		for _, st := range s.Statements {
			switch s.Kind {
			case "setup":
				w.everywhere(t, st.SQL)
				turn = true
			case "weft":
				if *undeclared {
					continue
				}
				if a := w.Weft.Ask(pair.Simple, st.SQL, nil, nil); a.Code != "" {
					t.Fatalf("%s: %s: %s %s", st.Pos, st.SQL, a.Code, a.Message)
				}
			}
		}
	}
	if turn {
		w.turned.Must(t, turnSQL)
	}
}

// everywhere runs statements that must succeed on all three.
func (w *world) everywhere(t testing.TB, sql string) {
	t.Helper()
	for _, p := range []*pair.Peer{w.Plain, w.turned, w.Weft} {
		p.Must(t, sql)
	}
}

// turnSQL writes every table's rows again in the opposite order: what depends on
// where rows lie comes out differently.
const turnSQL = `do $$
declare r regclass;
begin
	for r in select oid from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace and obj_description(oid) is null loop
		execute format('create temporary table turned on commit drop as select * from %s order by ctid desc', r);
		execute format('truncate %s', r);
		execute format('insert into %s select * from turned', r);
		drop table turned;
		execute format('comment on table %s is ''turned''', r);
	end loop;
end $$`
