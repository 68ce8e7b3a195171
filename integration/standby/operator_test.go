package standby

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"

	"weft/auth"
	"weft/config"
)

// TestUserTarget: sessions of a user begin with the target that weft.yaml has for the user, others of the same role do not, and both can set another.
func TestUserTarget(t *testing.T) {
	w := newWorld(t, func(c *config.Config) {
		c.Auth.Users = append(c.Auth.Users, auth.User{Name: "reports", Role: "postgres", Target: "prefer-standby"})
		c.Pool.MaxPerStandby = 2
	})
	for range 2 { // the second time defaults are known
		far := w.connect("user=reports")
		w.follows(far)
		if got := w.value(far, "show weft.target"); got != "any" {
			t.Errorf("the user begins with %s", got)
		}
		w.refused(far, fmt.Sprintf("update t set v = 1 where k = %d", w.key[1]), "25006")
		near := w.connect()
		if got := w.value(near, "show weft.target") + w.value(near, where(w.key[1])); got != "primaryfalse" {
			t.Errorf("another user begins with %s", got)
		}
		w.must(far, "set weft.target = 'primary'")
		if got := w.value(far, where(w.key[1])); got != "false" {
			t.Errorf("a session that sets its target reads a standby: %s", got)
		}
		w.must(far, "reset weft.target")
		w.follows(far)
	}
	extended := w.connect("user=reports", "default_query_exec_mode=cache_statement")
	for range 3 { // prepared, and prepared before
		if got := w.value(extended, "select pg_is_in_recovery() from t where k = $1", w.key[1]); got != "true" {
			t.Errorf("a prepared statement: %s", got)
		}
	}
	for range 2 {
		var b pgx.Batch
		for range 5 {
			b.Queue("select pg_is_in_recovery() from t where k = $1", w.key[0])
		}
		r := extended.SendBatch(w.within(), &b)
		for range 5 {
			var far bool
			if err := r.QueryRow().Scan(&far); err != nil || !far {
				t.Errorf("in a pipeline: %v, %v", far, err)
			}
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestEject: a standby that an operator ejects is not read until it is admitted, and is shown as ejected.
func TestEject(t *testing.T) {
	w := newWorld(t)
	c, admin := w.connect("options='-c weft.target=any'"), w.connect("dbname=weft")
	w.follows(c)
	state := func() string {
		return w.value(c, "select state from weft.replicas where address = '"+w.standby[1].Addr()+"'")
	}
	w.must(admin, "EJECT "+w.standby[1].Addr())
	if got := w.value(c, where(w.key[1])) + w.value(c, where(w.key[0])) + state(); got != "falsetrueejected" {
		t.Errorf("after EJECT: %s", got)
	}
	only := w.connect("options='-c weft.target=standby -c weft.causal_wait=10'")
	w.refused(only, where(w.key[1]), "57P03")
	w.must(admin, "ADMIT "+w.standby[1].Addr())
	w.follows(c)
	if got := state(); got != "standby" {
		t.Errorf("after ADMIT: %s", got)
	}
	w.refused(admin, "EJECT "+w.primary[0].Addr(), "55000")
	w.refused(admin, "EJECT 10.9.8.7:1", "42704")
}
