package integration

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// both runs a scenario against PostgreSQL, which proves the scenario, and
// against weft, which the scenario is to prove.
func both(t *testing.T, f func(t *testing.T, target *harness.Target)) {
	for _, get := range []struct {
		name   string
		target func(testing.TB) *harness.Target
	}{{"postgres", harness.Postgres}, {"weft", harness.Weft}} {
		t.Run(get.name, func(t *testing.T) {
			target := get.target(t)
			target.Reset(t)
			f(t, target)
		})
	}
}

// within is the context of a scenario that must not hang.
func within(t *testing.T, d time.Duration) context.Context {
	ctx, stop := context.WithTimeout(t.Context(), max(d, pgtest.Patience))
	t.Cleanup(stop)
	return ctx
}

// code returns the SQLSTATE of err, "" for nil and "?" for an error without one.
func code(err error) string {
	var pe *pgconn.PgError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &pe):
		return pe.Code
	default:
		return "?"
	}
}
