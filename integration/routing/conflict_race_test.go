package routing

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"weft/config"
	"weft/integration/harness"
	"weft/integration/pair"
)

// conflictLoad is what clients do at once: for three seconds they insert a few values with ON CONFLICT, delete them and change them. Every id and
// every value that an UPDATE stores is new, so PostgreSQL has no reason for 23505. It returns how often each SQLSTATE came up.
func conflictLoad(t *testing.T, clients []*pgx.Conn, arbiter, where string) map[string]int {
	t.Helper()
	var mu sync.Mutex
	var next atomic.Int64
	codes := map[string]int{}
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Second)
	defer stop()
	var wg sync.WaitGroup
	for n, c := range clients {
		wg.Go(func() {
			g := rand.New(rand.NewPCG(7, uint64(n)))
			run := func(block bool) string {
				email := string("aAbBcC"[g.IntN(6)]) + "@x"
				fresh := next.Add(1)
				statements := []string{
					fmt.Sprintf("insert into users (id, email) values (%d, '%s') on conflict %s do update set n = users.n + 1", fresh, email, arbiter),
					fmt.Sprintf("insert into users (id, email) values (%d, '%s') on conflict %s do nothing returning id", fresh, email, arbiter),
					fmt.Sprintf("insert into users (id, email) values (%d, '%s'), (%d, 'own%d') on conflict %s do nothing", fresh, email, next.Add(1), fresh, arbiter),
					fmt.Sprintf("insert into users (id, email) values (%d, '%s') on conflict %s do update set email = 'new%d'", fresh, email, arbiter, fresh),
					fmt.Sprintf("update users set email = 'new%d' where %s", fresh, fmt.Sprintf(where, email)),
					fmt.Sprintf("delete from users where %s", fmt.Sprintf(where, email)),
					fmt.Sprintf("update users set id = %d where %s", fresh, fmt.Sprintf(where, email)),
					fmt.Sprintf("insert into users (id, email, code) values (%d, '%s', 'c%d') on conflict do nothing", fresh, email, fresh),
					fmt.Sprintf("with w as (delete from users where %s returning id) select count(*) from w", fmt.Sprintf(where, email)),
				}
				texts := []string{statements[g.IntN(len(statements))]}
				if block {
					texts = []string{"begin", texts[0], statements[5], "commit"}
				}
				for _, sql := range texts {
					var args []any
					if g.IntN(2) == 0 {
						args = append(args, pgx.QueryExecModeSimpleProtocol)
					}
					_, err := c.Exec(context.Background(), sql, args...)
					var e *pgconn.PgError
					if errors.As(err, &e) {
						if !block || e.Code != "40P01" && e.Code != "40001" {
							t.Errorf("%s: %s %s %s", sql, e.Code, e.Message, e.Detail)
						}
						if block {
							_, _ = c.Exec(context.Background(), "rollback")
						}
						return e.Code
					}
					if err != nil {
						t.Errorf("%s: %v", sql, err)
						return "lost"
					}
				}
				return "ok"
			}
			for i := 0; ctx.Err() == nil; i++ {
				block := i%3 == 2
				code := run(block)
				if block {
					code += " in a block"
				}
				mu.Lock()
				codes[code]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return codes
}

// TestConflictRace: ON CONFLICT on a unique column that is not the shard key never says that a value exists already. A client of a block may have to
// run it again, one of a statement alone need not.
func TestConflictRace(t *testing.T) {
	other := harness.StartWeft(t, func(*config.Config) {})
	for _, kind := range []struct{ name, index, arbiter, where string }{
		{"column", "(email)", "(email)", "email = '%s'"},
		{"derived", "(lower(email)) where gone is null", "(lower(email)) where gone is null", "lower(email) = lower('%s') and gone is null"},
	} {
		t.Run(kind.name, func(t *testing.T) {
			db := database(t, "conflict_race_"+kind.name)
			p := newPair(t, db)
			p.Both(t, "setup", "create table users (id int primary key, email text, n int default 0, gone date, code text unique)")
			p.Both(t, "setup", "create unique index users_email on users "+kind.index)
			p.Weft.Must(t, "select weft.shard_table('users', 'id')")
			for _, at := range [][]*harness.Target{{harness.Postgres(t)}, {harness.Weft(t), other}} {
				var clients []*pgx.Conn
				for n := range 8 {
					clients = append(clients, at[n%len(at)].Connect(t, "postgres", "dbname="+db))
				}
				codes := conflictLoad(t, clients, kind.arbiter, kind.where)
				if codes["ok"] == 0 || codes["ok in a block"] == 0 {
					t.Error("the clients have shown nothing")
				}
				t.Log(codes)
			}
			pair.Verified(t, harness.Weft(t).Connect(t, "postgres", "dbname="+db).PgConn())
		})
	}
}

// TestConflictGone: the row in the way of an INSERT goes while the INSERT waits for it. The new row is stored, where it belongs, in PostgreSQL as
// through weft, and the client gets one row of RETURNING.
func TestConflictGone(t *testing.T) {
	for _, kind := range []struct{ name, index, arbiter, goes string }{
		{"column", "(email)", "(email)", "delete from users where id = 1"},
		{"derived", "(lower(email)) where gone is null", "(lower(email)) where gone is null", "update users set gone = '2026-01-01' where id = 1"},
		{"other", "(email)", "(email)", "update users set email = 'other' where id = 1"},
	} {
		db := database(t, "conflict_gone_"+kind.name)
		p := newPair(t, db)
		p.Both(t, "setup", "create table teams (id int primary key)")
		p.Both(t, "setup", "create table users (team int references teams, id int, email text, n int default 0, gone date, primary key (team, id))")
		p.Both(t, "setup", "create unique index users_email on users "+kind.index)
		p.Weft.Must(t, "select weft.shard_table('teams', 'id')")
		p.Weft.Must(t, "select weft.shard_table('users', 'team')")
		p.Both(t, "setup", "insert into teams select generate_series(1, 5)")
		p.Both(t, "setup", "insert into users values (1, 1, 'a'), (2, 2, 'b')")
		other := pair.New(t, harness.Postgres(t), harness.Weft(t), db)
		actions := []string{" do nothing"}
		if kind.arbiter != "" {
			actions = append(actions, " do update set n = users.n + 1")
		}
		for _, action := range actions {
			for team := 1; team <= 5; team++ {
				for i, sql := range []string{
					"insert into users values (%d, 9, 'a') on conflict %s%s",
					"insert into users values (%d, 9, 'a') on conflict %s%s returning team, id, email, n",
					"insert into users values (%d, 9, 'a'), (2, 8, 'b') on conflict %s%s returning team, id, email, n",
				} {
					sql = fmt.Sprintf(sql, team, kind.arbiter, action)
					mode := []pair.Mode{pair.Simple, pair.Text, pair.Binary, pair.Prepared, pair.Portions}[(team+i)%5]
					var answers []string
					for _, peers := range [][2]*pair.Peer{{p.Plain, other.Plain}, {p.Weft, other.Weft}} {
						// DO NOTHING waits for the row that goes, DO UPDATE for its lock.
						first, then := kind.goes, "select"
						if strings.Contains(action, "update") {
							first, then = "select from users where id = 1 for update", kind.goes
						}
						peers[0].Must(t, "begin")
						peers[0].Must(t, first)
						told := make(chan pair.Answer, 1)
						go func() { told <- peers[1].Ask(mode, sql, nil, nil) }()
						select {
						case a := <-told:
							t.Fatalf("%s: does not wait: %s %s", sql, a.Code, a.Message)
						case <-time.After(50 * time.Millisecond):
						}
						peers[0].Must(t, then)
						peers[0].Must(t, "commit")
						a := <-told
						said := a.Code + " " + a.Message
						for _, r := range a.Results {
							said += fmt.Sprint(r.Rows, r.Tag)
						}
						rows := peers[0].Must(t, "select team, id, email, n from users order by 1, 2").Results[0].Rows
						answers = append(answers, fmt.Sprint(said, rows))
						for _, s := range []string{"delete from users where email in ('a', 'other')", "insert into users values (1, 1, 'a')"} {
							peers[0].Must(t, s)
						}
					}
					if answers[0] != answers[1] {
						t.Errorf("%s, %s\n got %s\nwant %s", mode, sql, answers[1], answers[0])
					}
				}
			}
		}
		pair.Verified(t, harness.Weft(t).Connect(t, "postgres", "dbname="+db).PgConn())
	}
}
