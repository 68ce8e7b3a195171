package security_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/auth"
	"weft/config"
)

// TestSecretsStaySecret marks every password with the same word, lets as much as
// possible go right and wrong with logging at its noisiest, and looks for the word
// in all that weft says to anybody.
func TestSecretsStaySecret(t *testing.T) {
	const marked = "marked-" // in every password of the tests
	w := start(t, []auth.User{
		{Name: "victim", Password: victimPassword},
		{Name: "mallory", Password: "marked-wrong-for-the-shard"},
		{Name: "pooled", Password: "marked-pooled-pw", Role: "mallory", ServerUser: "pool_mallory", ServerPassword: poolPassword},
		{Name: "strong", Password: "marked-strong-pw", Role: "mallory", ServerUser: "pool_super", ServerPassword: poolPassword},
		{Name: "badpool", Password: "marked-badpool-pw", Role: "mallory", ServerUser: "pool_mallory", ServerPassword: "marked-it's\\ odd"},
	}, func(c *config.Config) {
		c.Log.Level, c.Log.SlowStatement = "debug", time.Nanosecond
		c.HTTP = config.HTTP{Listen: "127.0.0.1:0", Pprof: true, Users: []config.HTTPUser{{Name: "ops", Password: "marked-http-pw"}}}
		c.Auth.MockSecret, c.Auth.AuthQuery = "marked-mock-secret", "default"
		c.AdminUsers = []string{"postgres"}
	})
	var said bytes.Buffer // by weft, to whom it does not belong
	hear := func(err error) {
		if e, ok := asPg(err); ok {
			fmt.Fprintf(&said, "%+v\n", *e)
		} else if err != nil {
			fmt.Fprintln(&said, strings.ReplaceAll(err.Error(), "password=", ""))
		}
	}
	ctx, stop := context.WithTimeout(context.Background(), time.Minute)
	defer stop()
	for _, l := range []struct{ user, password string }{
		{"victim", "marked-guess"}, {"mallory", "marked-wrong-for-the-shard"}, {"strong", "marked-strong-pw"}, {"badpool", "marked-badpool-pw"}, {"nobody", "marked-guess"},
	} {
		_, err := pgconn.Connect(ctx, w.ConnString(l.user, "password="+quoteValue(l.password)))
		if err == nil {
			t.Errorf("%s got in", l.user)
		}
		hear(err)
	}
	admin := connect(t, w, "postgres", "", "dbname="+vault)
	for _, sql := range []string{
		"CREATE ROLE temp_role LOGIN PASSWORD 'marked-role-1'", "ALTER ROLE temp_role PASSWORD 'marked-role-2'", "ALTER USER temp_role WITH ENCRYPTED PASSWORD $$marked-role-3$$",
		"ALTER ROLE temp_role PASSWORD E'marked\\x2drole-4'", "ALTER ROLE nobody_there PASSWORD 'marked-role-5'", "ALTER ROLE temp_role PASSWORD 'marked-role-6' syntax error",
		"DO $$ BEGIN EXECUTE 'ALTER ROLE temp_role PASSWORD ''marked-role-7'''; END $$", "BEGIN; ALTER ROLE temp_role PASSWORD 'marked-role-8'; ROLLBACK",
		"SELECT 'marked-literal' FROM mine", "SELECT count(*) FROM mine WHERE s = 'marked-literal-2'", "INSERT INTO mine SELECT g, 'marked-literal-3' FROM generate_series(2000, 2010) g",
		"DELETE FROM mine WHERE s = 'marked-literal-3'", "PREPARE p AS SELECT 'marked-literal-4'; EXECUTE p; DEALLOCATE p", "SET weft.nothing = 'marked-setting'",
		"DROP ROLE temp_role",
	} {
		_, err := admin.conn.Exec(ctx, sql).ReadAll()
		if err != nil && !strings.Contains(sql, "syntax error") { // what PostgreSQL says to whoever wrote it is theirs
			hear(err)
		}
	}
	pooled := connect(t, w, "pooled", "marked-pooled-pw", "dbname="+vault)
	pooled.say("SELECT count(*) FROM mine")
	console := connect(t, w, "postgres", "", "dbname=weft")
	for _, show := range []string{"CONFIG", "CLIENTS", "POOLS", "SERVERS", "SHARDS", "STATS", "TABLES", "TRANSACTIONS", "VERSION", "HELP", "STATEMENTS"} {
		results, err := console.conn.Exec(ctx, "SHOW "+show).ReadAll()
		hear(err)
		for _, r := range results {
			for _, row := range r.Rows {
				fmt.Fprintf(&said, "%s\n", bytes.Join(row, []byte("|")))
			}
		}
	}
	for _, view := range []string{"settings", "statements", "sessions", "pools", "shards", "transactions"} {
		results, err := admin.conn.Exec(ctx, "SELECT * FROM weft."+view).ReadAll()
		hear(err)
		for _, r := range results {
			for _, row := range r.Rows {
				fmt.Fprintf(&said, "%s\n", bytes.Join(row, []byte("|")))
			}
		}
	}
	for _, path := range []string{"/metrics", "/readyz", "/", "/debug/pprof/cmdline"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+w.Server.HTTPAddr().String()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.SetBasicAuth("ops", "marked-http-pw")
		if path == "/" {
			req.SetBasicAuth("ops", "marked-guess")
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(&said, resp.Body)
		_ = resp.Body.Close()
	}
	log, err := os.ReadFile(w.LogFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, seen := range []struct {
		text []byte
		word string
	}{{log, "authentication failed"}, {log, "slow statement"}, {said.Bytes(), "auth.auth_query|"}, {said.Bytes(), "generate_series"}, {said.Bytes(), "weft_clients"}, {said.Bytes(), "it is a superuser"}} {
		if !bytes.Contains(seen.text, []byte(seen.word)) {
			t.Errorf("the test does not see what weft says: %q is missing", seen.word)
		}
	}
	for what, text := range map[string][]byte{"log": log, "answers": said.Bytes()} {
		for line := range bytes.Lines(text) {
			if bytes.Contains(line, []byte(marked)) {
				t.Errorf("%s: %s", what, line)
			}
		}
	}
}
