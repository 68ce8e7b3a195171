package security_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"weft/auth"
	"weft/config"
	"weft/pgserver/pgtest"
)

// TestPasswordChanges: whoever is in goes on with the connections there are, as
// with PostgreSQL; new ones need somebody who has proved the new password.
func TestPasswordChanges(t *testing.T) {
	w := start(t, nil, func(c *config.Config) { c.Auth.AuthQuery, c.Auth.AuthQueryTTL = "default", time.Millisecond })
	admin := connect(t, w, "postgres", "", "dbname="+vault)
	admin.must("CREATE ROLE rotated LOGIN PASSWORD 'marked-old'; GRANT SELECT ON mine TO rotated")
	defer func() {
		admin.must("REVOKE ALL ON mine FROM rotated")
		admin.must("DROP ROLE rotated")
	}()
	const question = "SELECT count(*) >= 20 FROM mine"
	one, two := connect(t, w, "rotated", "marked-old", "dbname="+vault), connect(t, w, "rotated", "marked-old", "dbname="+vault)
	one.must(question)
	admin.must("ALTER ROLE rotated PASSWORD 'marked-new' VALID UNTIL 'infinity'")
	for _, c := range []*client{one, two} {
		if got := c.say(question); got != "t" {
			t.Errorf("with a connection that was there: %s", got)
		}
	}
	one.must("BEGIN; " + question)
	if got := two.say(question); got != "28000" {
		t.Errorf("with a new connection and the old proof: %s", got)
	}
	try(t, w, "rotated", "marked-old") // the answer of the question before may still be known
	if got := try(t, w, "rotated", "marked-old"); got != "28P01" {
		t.Errorf("a new client with the old password: %s", got)
	}
	if got := try(t, w, "rotated", "marked-new"); got != "" {
		t.Errorf("a new client with the new password: %s", got)
	}
	if got := two.say(question); got != "t" {
		t.Errorf("after somebody has logged in anew: %s", got)
	}
	one.must("COMMIT")
	// A role that may not log in any more is out with its next transaction.
	admin.must("ALTER ROLE rotated NOLOGIN")
	if got := two.say(question); got != "28000" {
		t.Errorf("NOLOGIN: %s", got)
	}
}

// TestAuthQueryWithoutShards: any shard knows the passwords, so logins need one that answers, and
// none in particular. What was known before is good until its time is over.
func TestAuthQueryWithoutShards(t *testing.T) {
	shards(t)
	if len(world.target.Shards()) < 2 {
		t.Fatal("no shard beside home")
	}
	query := func(ttl time.Duration) func(*config.Config) {
		return func(c *config.Config) { c.Auth.AuthQuery, c.Auth.AuthQueryTTL = "default", ttl }
	}
	long, short := start(t, nil, query(time.Hour)), start(t, nil, query(time.Millisecond))
	for _, w := range []struct {
		name string
		say  func() string
	}{
		{"long", func() string { return try(t, long, "mallory", malloryPassword) }},
		{"short", func() string { return try(t, short, "mallory", malloryPassword) }},
	} {
		if got := w.say(); got != "" {
			t.Fatalf("%s: %s", w.name, got)
		}
	}
	stopped(t, 1, func() {
		began := time.Now()
		if got := try(t, short, "mallory", malloryPassword); got != "" {
			t.Errorf("without another shard: %s", got)
		}
		if got := try(t, short, "mallory", "wrong"); got != "28P01" {
			t.Errorf("a wrong password without another shard: %s", got)
		}
		if d := time.Since(began); pgtest.Late(t, d, 10*time.Second) {
			t.Errorf("another shard's absence took %v", d)
		}
	})
	stopped(t, 0, func() {
		began := time.Now()
		if got := try(t, short, "mallory", malloryPassword); got != "" {
			t.Errorf("without the home shard, nothing known: %s", got)
		}
		if got := try(t, short, "mallory", "wrong"); got != "28P01" {
			t.Errorf("without the home shard, nothing known, a wrong password: %s", got)
		}
		if got := try(t, short, "nobody_at_all", malloryPassword); got != "28P01" {
			t.Errorf("without the home shard, a stranger: %s", got)
		}
		if got := try(t, long, "mallory", "wrong"); got != "28P01" {
			t.Errorf("without the home shard, a wrong password: %s", got)
		}
		if d := time.Since(began); pgtest.Late(t, d, 10*time.Second) {
			t.Errorf("the home shard's absence took %v", d)
		}
	})
	if got := try(t, short, "mallory", malloryPassword); got != "" {
		t.Errorf("when it is back: %s", got)
	}
}

// stopped does something while a shard is not there.
func stopped(t *testing.T, shard int, do func()) {
	t.Helper()
	s := world.target.Shards()[shard]
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	s.Kill()
	defer func() {
		if err := s.Restart(ctx); err != nil {
			t.Fatal(err)
		}
	}()
	do()
}

// TestUserLimits: a user's own bounds go before those of everybody.
func TestUserLimits(t *testing.T) {
	w := start(t, []auth.User{
		{Name: "victim", Password: victimPassword, Databases: []string{vault}, MaxConnections: 1},
		{Name: "mallory", Password: malloryPassword, MaxClients: 3},
	}, func(c *config.Config) {
		c.Pool.MaxPerUser, c.Pool.QueueTimeout, c.Limits.MaxClientsPerUser = 2, 300*time.Millisecond, 2
	})
	for _, tc := range []struct{ user, password, database, want string }{
		{"victim", victimPassword, vault, ""},
		{"victim", victimPassword, plain, "42501"},
		{"victim", victimPassword, "postgres", "42501"},
		{"victim", victimPassword, "weft", "42501"},
		{"victim", victimPassword, "nowhere", "42501"},
		{"victim", "wrong", plain, "28P01"},
		{"mallory", malloryPassword, plain, ""},
	} {
		if got := try(t, w, tc.user, tc.password, "dbname="+tc.database); got != tc.want {
			t.Errorf("%s in %s: %q, want %q", tc.user, tc.database, got, tc.want)
		}
	}
	for _, tc := range []struct {
		user, password string
		places         int
	}{{"victim", victimPassword, 1}, {"mallory", malloryPassword, 2}} {
		var holders []*client
		for range tc.places {
			c := connect(t, w, tc.user, tc.password, "dbname="+vault)
			c.must("BEGIN; SELECT current_user FROM pg_class LIMIT 1")
			holders = append(holders, c)
		}
		late := connect(t, w, tc.user, tc.password, "dbname="+vault)
		if got := late.say("SELECT count(*) FROM pg_class"); got != "53300" {
			t.Errorf("%s, beyond %d: %s", tc.user, tc.places, got)
		}
		for _, c := range holders {
			c.must("COMMIT")
		}
		if got := late.say("SELECT 'in'::text FROM pg_class LIMIT 1"); !strings.HasPrefix(got, "in") {
			t.Errorf("%s, when places are free: %s", tc.user, got)
		}
		if got := try(t, w, tc.user, tc.password, "dbname="+vault); got != "53300" {
			t.Errorf("%s, one client too many: %s", tc.user, got)
		}
	}
}
