package analytics

import (
	"os"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
)

func TestMain(m *testing.M) {
	harness.ShardCount = 4
	os.Exit(harness.Main(m))
}

// plain is the database of a suite on the plain server, loaded once.
var plain = struct {
	sync.Mutex
	databases map[string]string
}{databases: map[string]string{}}

func connectPlain(t testing.TB, s suite) *pgconn.PgConn {
	t.Helper()
	plain.Lock()
	defer plain.Unlock()
	target := harness.Postgres(t)
	if plain.databases[s.name] == "" {
		plain.databases[s.name] = s.load(t, target, "", 1, forward)
	}
	return dial(t, target.ConnString("postgres", "dbname="+plain.databases[s.name]))
}

// otherPlans make PostgreSQL answer by sorting where it would hash.
const otherPlans = "set enable_hashjoin = off; set enable_hashagg = off; set enable_material = off"

// TestPlain proves the questions on PostgreSQL alone. An answer must have
// something in it, and be the only one: rows in another order and other plans
// give the same.
func TestPlain(t *testing.T) {
	for _, s := range suites {
		t.Run(s.name, func(t *testing.T) {
			conn := connectPlain(t, s)
			target := harness.Postgres(t)
			other := dial(t, target.ConnString("postgres", "dbname="+s.load(t, target, "", 1, backward)))
			mustExec(t, other, otherPlans)
			for _, q := range s.queries(t) {
				t.Run(q.name, func(t *testing.T) {
					want, err := ask(conn, simple, q.sql)
					if err != nil {
						t.Fatalf("%s: %v", q.title, err)
					}
					if !telling(want) {
						t.Errorf("%s: nothing in %d rows", q.title, len(want.rows))
					}
					again, err := ask(other, simple, q.sql)
					if err != nil {
						t.Fatal(err)
					}
					if d := diff(want, again); d != "" {
						t.Errorf("%s: two answers are right: %s", q.title, d)
					}
				})
			}
		})
	}
}

// telling: every row has a value that is neither NULL nor zero.
func telling(a answer) bool {
	for _, row := range a.rows {
		empty := true
		for _, v := range row {
			empty = empty && (v == nil || string(v) == "0")
		}
		if empty {
			return false
		}
	}
	return len(a.rows) > 0
}

// TestLayouts asks weft what PostgreSQL was asked, in every layout and mode.
func TestLayouts(t *testing.T) {
	for _, s := range suites {
		for _, layout := range layouts {
			t.Run(s.name+"/"+layout, func(t *testing.T) {
				reference := connectPlain(t, s)
				target := harness.Weft(t)
				database := s.load(t, target, layout, 1, forward)
				for _, q := range s.queries(t) {
					t.Run(q.name, func(t *testing.T) {
						conn := dial(t, target.ConnString("postgres", "dbname="+database))
						for _, m := range modes[layout] {
							want, err := ask(reference, m, q.sql)
							if err != nil {
								t.Fatal(err)
							}
							got, err := ask(conn, m, q.sql)
							if err != nil {
								t.Errorf("%s: %s: %v", q.title, m, err)
								continue
							}
							if d := diff(want, got); d != "" {
								t.Errorf("%s: %s: %s", q.title, m, d)
							}
						}
					})
				}
			})
		}
	}
}
