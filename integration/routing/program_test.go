package routing

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestPrograms compares what psql's \d family and pg_dump --schema-only print of a
// sharded database with what they print of a plain one.
func TestPrograms(t *testing.T) {
	db := database(t, "programs")
	p := newPair(t, db)
	for _, s := range pair.ReadScript(t, "shop") {
		for _, st := range s.Statements {
			switch s.Kind {
			case "setup":
				p.Both(t, st.Pos, st.SQL)
			case "weft":
				declare(t, p, st)
			}
		}
	}
	p.Both(t, "views", views)
	for _, call := range [][]string{
		{"psql", "-X", "-c", `\dt`},
		{"psql", "-X", "-c", `\d`},
		{"psql", "-X", "-c", `\d customers`},
		{"psql", "-X", "-c", `\d orders`},
		{"psql", "-X", "-c", `\d order_items`},
		{"psql", "-X", "-c", `\d products`},
		{"psql", "-X", "-c", `\d+ customer_orders`},
		{"psql", "-X", "-c", `\di`},
		{"psql", "-X", "-c", `\ds`},
		{"psql", "-X", "-c", `\dv`},
		{"psql", "-X", "-c", `\df`},
		{"psql", "-X", "-c", `\d customers_id_seq`},
		{"psql", "-X", "-c", `\dp`},
		{"psql", "-X", "-c", "select name from customers where id = 1007", "-c", "select * from products order by id"},
		{"psql", "-X", "-1", "-c", "update customers set name = 'psql' where id = 1007", "-c", "select name from customers where id = 1007"},
		{"pg_dump", "--schema-only", "--no-sync"},
		{"pg_dump", "--schema-only", "--no-sync", "-t", "orders"},
	} {
		t.Run(strings.Join(call[:min(len(call), 4)], " "), func(t *testing.T) {
			want, got := program(t, harness.Postgres(t), db, call), program(t, harness.Weft(t), db, call)
			if want != got {
				t.Errorf("PostgreSQL prints\n%s\nweft prints\n%s", want, got)
			}
		})
	}
}

var noise = regexp.MustCompile(`(?m)^\\(un)?restrict .*\n`)

func program(t *testing.T, target *harness.Target, db string, call []string) string {
	t.Helper()
	cmd := exec.Command(target.Home.Config().Install.Program(call[0]), call[1:]...)
	cmd.Env = append(target.Env(), "PGDATABASE="+db)
	out, err := cmd.CombinedOutput()
	text := noise.ReplaceAllString(string(out), "")
	if err != nil {
		text += err.Error()
	}
	return text
}
