package security_test

import (
	"context"
	"testing"

	"weft/auth"
	"weft/config"
)

// TestUnreadableTextsLeaveNothing: a parameter that a text sets which nobody can read is
// its client's, and not there for the next client on the same backend.
func TestUnreadableTextsLeaveNothing(t *testing.T) {
	shards(t)
	w := start(t, []auth.User{{Name: "mallory", Password: world.mallory}}, func(c *config.Config) {
		c.Pool.MaxPerShard, c.Pool.MaxPerUser = 1, 1
	})
	for _, db := range []string{plain, vault} {
		first := connect(t, w, "postgres", "", "dbname="+db)
		first.must(`CREATE OR REPLACE FUNCTION leave_text(what text) RETURNS int LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; RETURN 1; END $$;
			CREATE OR REPLACE FUNCTION leave_name(a text, b text) RETURNS text LANGUAGE sql AS $$ SELECT set_config(a || b, 'left', false) $$;
			CREATE OR REPLACE PROCEDURE leave_call(what text) LANGUAGE plpgsql AS $$ BEGIN EXECUTE what; END $$`)
		_ = first.conn.Close(context.Background())
		for _, way := range []string{
			"DO $$ BEGIN EXECUTE format('SET %s = ''left''', 'app.' || 'tenant'); END $$",
			"DO $$ BEGIN PERFORM set_config('app.' || 'tenant', 'left', false); END $$",
			"SELECT query_to_xml('SELECT set_config(''app.'' || ''tenant'', ''left'', false)', true, false, '')",
			"SELECT * FROM ts_stat('SELECT to_tsvector(set_config(''app.'' || ''tenant'', ''left'', false))')",
			"SELECT ts_rewrite('a'::tsquery, 'SELECT ''a''::tsquery, set_config(''app.'' || ''tenant'', ''left'', false)::tsquery')",
			"SELECT leave_text('SET app.' || 'tenant = ''left''')",
			"SELECT leave_name('app.', 'tenant')",
			"CALL leave_call('SET app.' || 'tenant = ''left''')",
			"BEGIN; SELECT leave_text('SET app.' || 'tenant = ''left'''); COMMIT",
			"PREPARE leaving AS SELECT leave_name($1, $2); EXECUTE leaving('app.', 'tenant')",
			"SELECT set_config('app.' || 'tenant', 'left', false)",
		} {
			c := connect(t, w, "mallory", malloryPassword, "dbname="+db)
			ran := c.say(way)
			if own := c.say("SELECT current_setting('app.tenant', true)"); own != "left" && ran != "0A000" && db == plain {
				t.Errorf("%s: %s: its own client sees %q", db, way, own)
			}
			_ = c.conn.Close(context.Background())
			next := connect(t, w, "mallory", malloryPassword, "dbname="+db)
			if got := next.say("SELECT current_setting('app.tenant', true)"); got != "" {
				t.Errorf("%s: %s: the next client sees %q", db, way, got)
			}
			_ = next.conn.Close(context.Background())
		}
	}
}
