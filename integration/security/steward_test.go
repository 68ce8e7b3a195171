package security_test

import (
	"strings"
	"testing"

	"weft/auth"
)

// TestOwnersCodeRunsAsOwner: whatever runs when rows of somebody's table are moved runs as
// the table's owner, also if a superuser declares it or takes the declaration back, and has no
// way to the superuser's rights.
func TestOwnersCodeRunsAsOwner(t *testing.T) {
	w := keeper(t)
	owner := connect(t, w, "builder", victimPassword, "dbname="+keep)
	admin := connect(t, w, "postgres", "", "dbname="+keep)
	for i := range world.target.Shards() {
		// What would climb says so instead: RESET ROLE goes back to whoever session_user is.
		onDatabase(t, i, keep, `SET SESSION AUTHORIZATION builder;
			CREATE FUNCTION built.climb() RETURNS void LANGUAGE plpgsql AS $$ BEGIN
				IF EXISTS (SELECT FROM pg_catalog.pg_roles WHERE rolsuper AND rolname IN (current_user, session_user)) THEN RAISE EXCEPTION 'code of builder runs as % (%)', current_user, session_user; END IF; END $$;
			CREATE FUNCTION built.vol(text) RETURNS bool LANGUAGE plpgsql AS $$ BEGIN PERFORM built.climb(); RETURN true; END $$;
			CREATE FUNCTION built.imm(text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM built.climb(); RETURN $1; END $$;
			CREATE FUNCTION built.eq(text, text) RETURNS bool LANGUAGE plpgsql IMMUTABLE AS $$ BEGIN PERFORM built.climb(); RETURN $1 OPERATOR(pg_catalog.=) $2; END $$;
			CREATE OPERATOR built.=== (LEFTARG = text, RIGHTARG = text, FUNCTION = built.eq);
			CREATE VIEW built.seen AS SELECT built.vol('x') AS v;
			CREATE DOMAIN built.d AS text CHECK (built.vol(value))`)
	}
	for _, tc := range []struct{ name, columns, more string }{
		{"checks", "note built.d CHECK (built.vol(note)) CHECK (note OPERATOR(built.===) note), g text GENERATED ALWAYS AS (built.imm(note)) STORED", ""},
		{"indexes", "note text DEFAULT built.imm('x')", "CREATE INDEX ON built.t (built.imm(note)); CREATE INDEX ON built.t (id) WHERE built.imm('x') = 'x'"},
		{"text", "note text CHECK (query_to_xml('SELECT built.vol(''x'')', true, false, '') IS NOT NULL)", ""},
		{"view", "note text CHECK (table_to_xml('built.seen', true, false, '') IS NOT NULL)", ""},
		{"triggers", "note text", `CREATE FUNCTION built.fire() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM built.climb(); RETURN NULL; END $$;
			CREATE CONSTRAINT TRIGGER fire AFTER INSERT OR DELETE ON built.t DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION built.fire();
			ALTER TABLE built.t ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY; CREATE POLICY p ON built.t USING (built.vol(note))`},
	} {
		declares := []string{"SELECT weft.shard_table('built.t', 'id')"}
		if tc.name == "checks" {
			declares = append(declares, "SELECT weft.reference_table('built.t')")
		}
		for _, declare := range declares {
			// On the home shard itself: through weft some of these cannot be written to.
			if got := onDatabase(t, 0, keep, "SET SESSION AUTHORIZATION builder; CREATE TABLE built.t(id bigint PRIMARY KEY, "+tc.columns+"); INSERT INTO built.t(id, note) SELECT g, 'x' FROM generate_series(1, 20) g; "+tc.more); got != "" {
				t.Fatalf("%s: %s", tc.name, got)
			}
			got := admin.say(declare)
			switch {
			case got == "":
				if got := owner.say("SELECT count(*) FROM built.t"); got != "20" && got != "0A000" {
					t.Errorf("%s: %s rows", tc.name, got)
				}
				if got := admin.say("SELECT weft.unshard_table('built.t')"); got != "" {
					t.Errorf("%s: %s", tc.name, got)
				}
			case got != "0A000": // what weft cannot judge is refused
				t.Errorf("%s: %s: %s", tc.name, declare, got)
			default:
				t.Logf("%s: %s is refused", tc.name, declare)
			}
			onDatabase(t, 0, keep, "DROP TABLE built.t CASCADE; DROP FUNCTION IF EXISTS built.fire")
		}
	}
	// Where weft cannot log in as the owner nothing runs.
	other := start(t, []auth.User{{Name: "mallory", Password: world.mallory}})
	owner.must("CREATE TABLE built.t(id bigint PRIMARY KEY, note text CHECK (built.vol(note)))")
	stranger := connect(t, other, "postgres", "", "dbname="+keep)
	_, err := stranger.conn.Exec(t.Context(), "SELECT weft.shard_table('built.t', 'id')").ReadAll()
	if e, ok := asPg(err); !ok || e.Code != "42501" || !strings.Contains(e.Detail, "built.vol(text)") {
		t.Error(err)
	}
	owner.must("DROP TABLE built.t")
}
