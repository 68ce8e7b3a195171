package security_test

import (
	"testing"
	"time"

	"weft/auth"
	"weft/pgserver/pgtest"
)

// TestDropDatabase: who may not drop a database does not make others leave it; who may
// sees, and with FORCE sends away, the sessions of all proxies.
func TestDropDatabase(t *testing.T) {
	users := []auth.User{{Name: "victim", Password: victimPassword}, {Name: "mallory", Password: malloryPassword}}
	here, there := start(t, users), start(t, users)
	admin := connect(t, here, "postgres", "")
	admin.must("CREATE DATABASE target OWNER victim")
	defer admin.say("DROP DATABASE IF EXISTS target WITH (FORCE)")
	near, far := connect(t, here, "victim", victimPassword, "dbname=target"), connect(t, there, "victim", victimPassword, "dbname=target")
	attacker, owner := connect(t, here, "mallory", malloryPassword), connect(t, here, "victim", victimPassword)
	for _, sql := range []string{"DROP DATABASE target WITH (FORCE)", "DROP DATABASE target", "ALTER DATABASE target RENAME TO mine", "CREATE DATABASE copy TEMPLATE target"} {
		began := time.Now()
		if got := attacker.say(sql); got != "42501" {
			t.Errorf("mallory: %s: %s", sql, got)
		}
		if d := time.Since(began); pgtest.Late(t, d, 4*time.Second) {
			t.Errorf("mallory: %s: others were waited for, %v", sql, d)
		}
	}
	for _, c := range []*client{near, far} {
		if got := c.say("SELECT 'here'"); got != "here" {
			t.Errorf("sent away by mallory: %s", got)
		}
	}
	// Somebody else's session is not the owner's to end.
	stranger := connect(t, there, "postgres", "", "dbname=target")
	if got := owner.say("DROP DATABASE target WITH (FORCE)"); got != "42501" {
		t.Errorf("FORCE with a superuser in it: %s", got)
	}
	if got := stranger.say("SELECT 'here'"); got != "here" {
		t.Errorf("the superuser was sent away: %s", got)
	}
	_ = stranger.conn.Close(t.Context())
	_ = near.conn.Close(t.Context())
	if got := owner.say("DROP DATABASE target"); got != "55006" {
		t.Errorf("DROP with a session of another proxy in it: %s", got)
	}
	if got := owner.say("DROP DATABASE target WITH (FORCE)"); got != "" {
		t.Errorf("FORCE by the owner: %s", got)
	}
	if got := far.say("SELECT 'here'"); got == "here" || got == "3D000" {
		t.Errorf("a session of another proxy lives on: %s", got)
	}
}
