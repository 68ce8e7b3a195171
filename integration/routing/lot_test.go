package routing

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/integration/pair"
)

// lotWorld is a table whose changes a trigger audits, with serial ids, behind two proxies.
type lotWorld struct {
	t       *testing.T
	a, b    *pair.Peer
	targets [2]*harness.Target
	db      string
}

func newLotWorld(t *testing.T, name string) *lotWorld {
	t.Helper()
	db := database(t, name)
	w := &lotWorld{t: t, targets: [2]*harness.Target{harness.Weft(t), harness.StartWeft(t, func(*config.Config) {})}, db: db}
	w.a, w.b = pair.Connect(t, w.targets[0], db, "postgres"), pair.Connect(t, w.targets[1], db, "postgres")
	for _, sql := range []string{
		"create table tasks (tenant int not null, id int, v int, primary key (tenant, id))", "create table audit (id bigserial primary key, tenant int not null, what text)",
		"select weft.shard_tables('tasks.tenant, audit.tenant')",
		"create function note() returns trigger language plpgsql as $$ begin insert into audit (tenant, what) values (coalesce(new.tenant, old.tenant), tg_op); return null; end $$",
		"create trigger note after insert or update or delete on tasks for each row execute function note()",
	} {
		w.a.Must(t, sql)
	}
	return w
}

// unique fails the test unless each of so many rows has an id of its own.
func (w *lotWorld) unique(rows int) {
	w.t.Helper()
	a := w.a.Ask(pair.Simple, "select count(*), count(*) - count(distinct id) from audit", nil, nil)
	if want := fmt.Sprintf("%d | 0 | ", rows); a.Code != "" || a.Results[0].Rows[0] != want {
		w.t.Errorf("rows and repeated ids: %v%v, want %s", a.Code, a.Results, want)
	}
}

// perLot is more rows than the first lot of a shard has values, and less than the second has.
const perLot = 12_000

// TestLotUsedUp: a statement that needs more ids than a shard has is carried out again with more. One in a block is
// not, and its client is asked to run its transaction again.
func TestLotUsedUp(t *testing.T) {
	for _, way := range []string{"simple", "prepared", "several shards", "several shards prepared", "copy", "block", "block of several shards"} {
		t.Run(way, func(t *testing.T) {
			w := newLotWorld(t, "lot_"+strings.ReplaceAll(way, " ", "_"))
			where, conn := "where tenant = 1", w.a.Conn
			if strings.Contains(way, "several") {
				where = ""
			}
			// 16 tenants have rows on every shard.
			w.a.Must(t, "alter table tasks disable trigger note")
			w.a.Must(t, fmt.Sprintf("insert into tasks select 1, g, 0 from generate_series(1, %d) g", perLot))
			w.a.Must(t, "insert into tasks select g, 0, 0 from generate_series(2, 17) g")
			w.a.Must(t, "alter table tasks enable trigger note")
			rows, update := perLot, "update tasks set v = v + 1 "+where
			if where == "" {
				rows += 16
			}
			switch {
			case way == "copy":
				var data strings.Builder
				for i := range perLot {
					fmt.Fprintf(&data, "1\t%d\t0\n", perLot+1+i)
				}
				_, err := conn.CopyFrom(t.Context(), strings.NewReader(data.String()), "copy tasks from stdin")
				var e *pgconn.PgError
				if home := err == nil; !home && (!errors.As(err, &e) || e.Code != "40001") {
					t.Fatal(err)
				} else if !home { // the tenant is not on the home shard, where the sequence itself is
					if _, err = conn.CopyFrom(t.Context(), strings.NewReader(data.String()), "copy tasks from stdin"); err != nil {
						t.Fatal(err)
					}
				}
			case strings.HasPrefix(way, "block"):
				w.a.Must(t, "begin")
				if a := w.a.Ask(pair.Simple, update, nil, nil); a.Code == "40001" {
					w.a.Must(t, "rollback")
					w.a.Must(t, "begin")
					w.a.Must(t, update)
				} else if a.Code != "" {
					t.Fatal(a.Code, a.Message)
				}
				w.a.Must(t, "commit")
			case strings.HasSuffix(way, "prepared"):
				if a := w.a.Ask(pair.Prepared, update, nil, nil); a.Code != "" {
					t.Fatal(a.Code, a.Message)
				}
			default:
				w.a.Must(t, update)
			}
			w.unique(rows)
			w.a.Must(t, "update tasks set v = v + 1 where tenant = 2")
			w.b.Must(t, "update tasks set v = v + 1 where id = 0")
			w.unique(rows + 1 + 16)
		})
	}
}

// TestLotsBeside: two proxies give lots while clients draw everywhere. In between the sequence is set to the largest id,
// as many tools do. No id comes twice.
func TestLotsBeside(t *testing.T) {
	w := newLotWorld(t, "lots_beside")
	const clients, rounds = 4, 10
	var conns []*pgx.Conn
	for c := range clients {
		conns = append(conns, w.targets[c%2].Connect(t, "postgres", "dbname="+w.db))
	}
	sum := 0
	for phase, between := range []string{
		"select setval('audit_id_seq', (select max(id) from audit))", "select setval(pg_get_serial_sequence('audit', 'id'), coalesce(max(id), 1)) from audit",
		"truncate audit, tasks restart identity", "alter sequence audit_id_seq restart with 1000000", "update tasks set v = 1",
	} {
		rows := make([]int, clients)
		var wg sync.WaitGroup
		for c := range clients {
			wg.Go(func() {
				for i := range rounds {
					n, err := runAudited(t, conns[c], phase*100_000+c*10_000+i*100, i)
					if err != nil {
						t.Errorf("phase %d, client %d, round %d: %v", phase, c, i, err)
						return
					}
					rows[c] += n
				}
			})
		}
		wg.Wait()
		for _, n := range rows {
			sum += n
		}
		w.unique(sum)
		[]*pair.Peer{w.a, w.b}[phase%2].Must(t, between)
		if strings.HasPrefix(between, "truncate") {
			sum = 0
		}
	}
	if a := w.b.Must(t, "select * from weft.schema_diff()"); len(a.Results[0].Rows) > 0 {
		t.Errorf("drift: %v", a.Results[0].Rows)
	}
}

// runAudited does something that the trigger notes, with keys from the given one on, and returns how many rows audit has more. A client
// that is asked to do so runs its transaction again.
func runAudited(t *testing.T, conn *pgx.Conn, key, round int) (rows int, err error) {
	for {
		switch round % 3 {
		case 0:
			rows = 10
			_, err = conn.Exec(t.Context(), "insert into tasks select $1::int + g, g, 0 from generate_series(1, 10) g", key)
		case 1:
			rows = 1
			_, err = conn.Exec(t.Context(), "insert into tasks values ($1, 1, 0)", key)
		case 2:
			rows = 3
			err = pgx.BeginFunc(t.Context(), conn, func(tx pgx.Tx) error {
				_, err := tx.Exec(t.Context(), "insert into tasks values ($1, 1, 0), ($1 + 1, 1, 0)", key)
				if err == nil {
					_, err = tx.Exec(t.Context(), "insert into audit (tenant, what) values ($1, 'by hand')", key)
				}
				return err
			})
		}
		var e *pgconn.PgError
		if !errors.As(err, &e) || e.Code != "40001" {
			return rows, err
		}
	}
}

// TestLotRefused: what shards cannot be given values of is refused before anything has happened.
func TestLotRefused(t *testing.T) {
	w := newLotWorld(t, "lot_refused")
	refused := func(sql, code, message string) {
		t.Helper()
		if a := w.a.Ask(pair.Simple, sql, nil, nil); a.Code != code || !strings.Contains(a.Message, message) {
			t.Errorf("%s: %s %s", sql, a.Code, a.Message)
		}
	}
	const insert = "insert into tasks select g, 1, 0 from generate_series(1, 20) g"
	w.a.Must(t, "alter sequence audit_id_seq cycle")
	refused(insert, "0A000", "counts down or cycles")
	w.a.Must(t, "alter sequence audit_id_seq no cycle")
	w.a.Must(t, insert)
	w.unique(20)
	// The end of the sequence is the end.
	w.a.Must(t, "alter sequence audit_id_seq maxvalue 20000 restart 19990")
	w.a.Must(t, "truncate audit")
	w.a.Must(t, "delete from tasks where tenant = 1")
	for range 20 { // at first there are some values left
		if a := w.a.Ask(pair.Simple, "update tasks set v = 1", nil, nil); a.Code != "40001" {
			break
		}
	}
	refused("update tasks set v = 1", "2200H", "")
	w.a.Must(t, "alter sequence audit_id_seq no maxvalue")
	w.a.Must(t, "update tasks set v = 1")
	// What this transaction has made is not seen by whoever would give values of it.
	w.a.Must(t, "begin")
	w.a.Must(t, "alter table audit drop column id")
	w.a.Must(t, "alter table audit add column id bigserial")
	refused("update tasks set v = 1", "0A000", "that this transaction has made or set")
	w.a.Must(t, "rollback")
	if a := w.a.Ask(pair.Simple, "update tasks set v = 1", nil, nil); a.Code != "" && a.Code != "40001" {
		t.Error(a.Code, a.Message)
	}
	w.b.Must(t, "update tasks set v = 1 where tenant = 2")
}

// TestLotsAfterDDL: commands that make sequences, or let them start again, leave nothing on the shards that gives a value twice.
func TestLotsAfterDDL(t *testing.T) {
	w := newLotWorld(t, "lots_ddl")
	w.a.Must(t, "insert into tasks select g, 1, 0 from generate_series(1, 20) g")
	for _, sql := range []string{
		"alter table audit drop column id; alter table audit add column id bigserial", "begin; alter table audit drop column id; alter table audit add column id serial; commit",
		"alter table audit alter column id drop default; alter table audit alter column id add generated by default as identity (start with 100000)",
		"alter table audit alter column id restart with 200000", "alter table audit alter column id set generated always", "alter table audit alter column id set start with 300000 restart",
		"alter table audit drop column id; alter table audit add column id int generated always as identity", "alter sequence audit_id_seq restart 500000", "alter table audit alter column id type bigint",
		"drop table audit; create table audit (tenant int not null, id bigint generated by default as identity, what text); select weft.shard_table('audit', 'tenant')",
		"truncate audit restart identity", "alter sequence audit_id_seq rename to numbers", "truncate audit; alter table audit alter column id drop identity; drop sequence if exists numbers; create sequence numbers owned by audit.id; alter table audit alter column id set default nextval('numbers')",
	} {
		for i, statement := range strings.Split(sql, "; ") {
			a := w.a.Ask([]pair.Mode{pair.Simple, pair.Prepared}[i%2], statement, nil, nil)
			if a.Code != "" {
				t.Fatalf("%s: %s %s", statement, a.Code, a.Message)
			}
		}
		for _, p := range []*pair.Peer{w.a, w.b} {
			p.Must(t, "update tasks set v = v + 1")
			p.Must(t, "insert into audit (tenant, what) select g, 'by hand' from generate_series(1, 8) g")
			p.Must(t, "update tasks set v = v + 1 where tenant in (3, 4)")
		}
		a := w.b.Must(t, "select count(*) - count(distinct id) from audit")
		if got := a.Results[0].Rows[0]; got != "0 | " {
			t.Errorf("%s: %sids come twice", sql, got)
		}
	}
}
