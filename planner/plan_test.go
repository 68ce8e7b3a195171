package planner_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/jackc/pgx/v5"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/pgserver"
	"weft/plan"
	"weft/planner"
)

// planOf plans a text as a session would.
func planOf(env *planner.Env, sql string, params ...uint32) *plan.Plan {
	var s parser.Scanner
	s.Scan([]byte(sql), env.Options)
	return planner.Plan(env, sql, s.Literals, params)
}

// connect opens a connection that ends with the test.
func connect(t testing.TB, srv *pgserver.Temp, database string) *pgx.Conn {
	t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	c, err := pgx.Connect(ctx, srv.ConnString(database))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

// load reads the schema of a real database.
func load(t testing.TB, c *pgx.Conn) *catalog.Schema {
	t.Helper()
	s, err := catalog.Load(1, func(sql string) ([][]string, error) {
		results, err := c.PgConn().Exec(context.Background(), sql).ReadAll()
		if err != nil {
			return nil, err
		}
		var rows [][]string
		for _, res := range results {
			for _, r := range res.Rows {
				var row []string
				for _, v := range r {
					row = append(row, string(v))
				}
				rows = append(rows, row)
			}
		}
		return rows, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestPlan holds the golden plans: testdata/*, each with a schema and
// declarations of its own.
//
//	schema            SQL that makes the schema
//	declare           sharded TABLE COLUMN[,COLUMN] | reference TABLE, a line each
//	plan [params=(oid,…)] [path=(schema,…)] [temp=(name,…)]   statements, separated by lines with ---
//	gather            the same, to see how they are answered over several shards
//	whole             the same for queries that run in one piece
func TestPlan(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		if strings.Contains(path, "fuzz") {
			return
		}
		env := &planner.Env{Database: "app", Path: []string{"pg_catalog", "public"}, Home: "shard-0"}
		snap := directory.New(64, "shard-0", []directory.Shard{{Name: "shard-0"}, {Name: "shard-1"}})
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "schema":
				schema, err := catalog.FromDump(d.Input)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				env.Schema = schema
				env.Tables = planner.NewTables(snap, "app")
				return ""
			case "declare":
				for _, line := range strings.Split(d.Input, "\n") {
					planner.Declare(t, snap, env.Schema, line)
				}
				env.Tables = planner.NewTables(snap, "app")
				return ""
			case "plan":
				return goldenPlans(t, env, d, func(env *planner.Env, sql string, params []uint32) string {
					checkShapes(t, env, sql, params)
					return "=> " + planOf(env, sql, params...).String()
				})
			case "gather":
				return goldenPlans(t, env, d, func(env *planner.Env, sql string, params []uint32) string {
					p := planOf(env, sql, params...)
					if p.Gather() == nil {
						return "=> " + p.String()
					}
					return p.Gather().String()
				})
			case "whole":
				return goldenPlans(t, env, d, func(env *planner.Env, sql string, params []uint32) string {
					var s parser.Scanner
					s.Scan([]byte(sql), env.Options)
					g, exact, why := planner.Whole(env, sql, s.Literals, params)
					switch {
					case g == nil:
						return "  not in one piece: " + why + "\n"
					case exact:
						return g.String() + "  exact\n"
					}
					return g.String()
				})
			}
			d.Fatalf(t, "unknown command %s", d.Cmd)
			return ""
		})
	})
}

// checkShapes makes all plans of a text and looks for parts that cannot be together.
func checkShapes(t *testing.T, env *planner.Env, sql string, params []uint32) {
	t.Helper()
	var s parser.Scanner
	s.Scan([]byte(sql), env.Options)
	for name, make := range map[string]func(*planner.Env, string, []parser.Literal, []uint32) *plan.Plan{
		"Plan": planner.Plan, "PlanLater": planner.PlanLater, "PlanGathered": planner.PlanGathered, "PlanTimed": planner.PlanTimed,
	} {
		if wrong := invalid(make(env, sql, s.Literals, params)); wrong != "" {
			t.Errorf("%s of %s: %s", name, sql, wrong)
		}
	}
}

// invalid says which parts of a plan cannot be together, or returns "".
func invalid(p *plan.Plan) string {
	switch {
	case p.Across != nil && p.Route != plan.Keyed && p.Route != plan.Gathered && !(p.Write() != nil && p.Timed):
		return "a way over several shards on route " + p.Route.String()
	case (p.Route == plan.Gathered) && (p.Across == nil || p.IsPostponed()):
		return "nothing to gather"
	case (p.Lookups || p.Strays) && p.Route == plan.Keyed && p.Gather() != nil:
		return "a query whose changes lookups follow"
	case (p.Function != nil) != (p.Route == plan.Call):
		return "a function without a call, or a call without a function"
	case p.Route == plan.Refused && p.Refusal == nil:
		return "refused for no reason"
	case (p.Unread || p.Waits) && p.Route != plan.Refused:
		return "not refused"
	}
	return ""
}

func goldenPlans(t *testing.T, env *planner.Env, d *datadriven.TestData, plan func(*planner.Env, string, []uint32) string) string {
	with := *env
	var params []uint32
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "params":
			for _, v := range arg.Vals {
				n, err := strconv.Atoi(v)
				if err != nil {
					d.Fatalf(t, "%v", err)
				}
				params = append(params, uint32(n))
			}
		case "path":
			with.Path = append([]string{"pg_catalog"}, arg.Vals...)
		case "temp":
			with.Temporary = map[string]bool{}
			for _, name := range arg.Vals {
				with.Temporary[name] = true
			}
		case "nonstandard":
			with.Options.NonStandardStrings = true
		default:
			d.Fatalf(t, "unknown argument %s", arg.Key)
		}
	}
	var b strings.Builder
	for _, sql := range strings.Split(d.Input, "\n---\n") {
		fmt.Fprintf(&b, "%s\n%s", sql, plan(&with, sql, params))
	}
	return b.String()
}
