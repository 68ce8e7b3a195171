package wire_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
)

// TestSettingsWithParameters sets what policies read, with parameters, in a transaction
// that several shards take part in: all of them must know it, whenever they join.
func TestSettingsWithParameters(t *testing.T) {
	p := newPair(t)
	modes := map[string]pgx.QueryExecMode{
		"exec": pgx.QueryExecModeExec, "cached": pgx.QueryExecModeCacheStatement, "described": pgx.QueryExecModeDescribeExec,
	}
	for name, mode := range modes {
		t.Run(name, func(t *testing.T) {
			var said [2][]string
			for i := range p.targets {
				p.run(i, dialogueRows)
				said[i] = p.settings(t, i, mode)
			}
			if got, want := fmt.Sprint(said[1]), fmt.Sprint(said[0]); got != want {
				t.Errorf("weft says\n%s\nPostgreSQL\n%s", got, want)
			}
		})
	}
}

func (p *pair) settings(t *testing.T, i int, mode pgx.QueryExecMode) (said []string) {
	ctx := context.Background()
	tx, err := p.targets[i].Connect(t, "postgres").Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(ctx) // the test keeps nothing
	ask := func(sql string, args ...any) {
		var v string
		if err := tx.QueryRow(ctx, sql, append([]any{mode}, args...)...).Scan(&v); err != nil {
			v = err.Error()
		}
		said = append(said, v)
	}
	ask("select set_config('app.tenant', $1, true)", `it's a \ ü`)
	for id := range 6 {
		ask("select current_setting('app.tenant') || count(*) from d where id = $1", id)
	}
	ask("select set_config($1, $2, $3)", "app.tenant", "two", true)
	ask("select set_config('app.place', $1 || $2, $3)", "a", "b", false)
	ask("select string_agg(current_setting('app.tenant') || current_setting('app.place') || v, ',' order by id) from d")
	ask("select set_config('app.tenant', $1::int::text, true)", 7)
	ask("select string_agg(current_setting('app.tenant') || v, ',' order by id) from d")
	return said
}
