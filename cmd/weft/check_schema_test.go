package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"weft/pgserver"
	"weft/pgserver/pgtest"
)

const checkedSchema = `
CREATE TABLE tenants (id bigint PRIMARY KEY, slug text UNIQUE);
CREATE TABLE users (tenant_id bigint NOT NULL REFERENCES tenants, id bigserial PRIMARY KEY, email text NOT NULL, login text);
ALTER TABLE users OWNER TO shop;
CREATE FUNCTION fold(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)';
CREATE UNIQUE INDEX users_email ON users (fold(email));
CREATE UNIQUE INDEX users_login ON users (lower(login)) WHERE login <> '';
CREATE TABLE projects (tenant_id bigint NOT NULL REFERENCES tenants, id bigint PRIMARY KEY, owner_id bigint REFERENCES users (id) ON DELETE SET NULL, plan_id int);
CREATE TABLE plans (id int PRIMARY KEY);
ALTER TABLE projects ADD CONSTRAINT projects_plan FOREIGN KEY (plan_id) REFERENCES plans;
CREATE TABLE audit (id bigserial, note text);
CREATE FUNCTION log_it() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN INSERT INTO audit (note) VALUES ('x'); RETURN NEW; END $$;
CREATE TRIGGER log_it AFTER INSERT ON projects FOR EACH ROW EXECUTE FUNCTION log_it();
CREATE VIEW physical AS SELECT ctid AS at, * FROM users;
`

const checkedCluster = `bucket_count: 64
shards: [{name: a, hosts: ['h:1']}, {name: b, hosts: ['h:2']}]
tables:
- {database: app, table: tenants, columns: [id]}
- {database: app, table: users, columns: [tenant_id]}
- {database: app, table: projects, columns: [tenant_id]}
`

// All that declarations would refuse is told at once, with SQL that mends it.
func TestCheckSchema(t *testing.T) {
	dump, cluster := write(t, "dump.sql", checkedSchema), write(t, "cluster.yaml", checkedCluster)
	statements := write(t, "statements.sql", "SELECT * FROM users WHERE tenant_id = 1; SELECT ctid FROM users; SELECT * FROM usres;")
	code, out, errs := weft(t, "check", "--schema", dump, "--cluster", cluster, "--statements", statements)
	t.Log("\n" + out)
	if code != 1 || errs != "" {
		t.Fatalf("exit code %d\n%s%s", code, errs, out)
	}
	for _, want := range []string{
		"tenants, sharded by id: can be declared\n",
		"users, sharded by tenant_id: cannot be declared\n",
		`refused: unique index "users_email" on (an expression) of "users" does not contain the shard key "tenant_id"`,
		"mend: CREATE UNIQUE INDEX users_email ON public.users USING btree (\"tenant_id\", public.fold(email));\n",
		`notice: unique index "users_login" does not contain the shard key: a lookup keeps its values unique over all shards`,
		`notice: primary key "users_pkey" does not contain the shard key`,
		"mend: SELECT weft.create_lookup('users', 'id', is_unique => true);",
		"projects, sharded by tenant_id: cannot be declared\n",
		`refused: foreign key "projects_owner_id_fkey" of "projects" on "users" would cross shards: it does not match the shard key (tenant_id) with that of users (tenant_id)`,
		`mend: ALTER TABLE "public"."users" ADD UNIQUE ("tenant_id", "id");`,
		`mend: ALTER TABLE "public"."projects" DROP CONSTRAINT "projects_owner_id_fkey", ADD CONSTRAINT "projects_owner_id_fkey" FOREIGN KEY ("tenant_id", "owner_id") REFERENCES "public"."users" ("tenant_id", "id") ON DELETE SET NULL ("owner_id");`,
		`refused: foreign key "projects_plan" of "projects" on "plans" would cross shards: plans is on the home shard alone`,
		"mend: SELECT weft.reference_table('plans');",
		`"audit"`,
		"views that cannot be read:\n  SELECT * FROM \"public\".\"physical\"\n",
		"  SELECT ctid FROM users\n    refused: system column ctid",
		`no such table: relation "usres" does not exist`,
		"2 of the statements get an error\n",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q", want)
		}
	}
	// Mended as told, from a server that is only read, there is nothing to do.
	srv := pgtest.Start(t, pgserver.Config{})
	ctx := t.Context()
	conn, err := pgconn.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	run := func(sql string) {
		t.Helper()
		if _, err := query(ctx, conn, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	run("CREATE ROLE shop; " + checkedSchema)
	for line := range strings.Lines(out) {
		if sql, ok := strings.CutPrefix(strings.TrimSpace(line), "mend: "); ok && !strings.Contains(sql, "weft.") {
			run(sql)
		}
	}
	run("DROP TRIGGER log_it ON projects; DROP VIEW physical")
	mended := write(t, "cluster.yaml", checkedCluster+"- {database: app, table: plans, reference: true}\n")
	from := "postgres://postgres@" + srv.Addr() + "/postgres?sslmode=disable"
	ok := write(t, "statements.sql", "SELECT * FROM users WHERE tenant_id = 1")
	code, out, errs = weft(t, "check", "--from", from, "--cluster", mended, "--statements", ok)
	if code != 0 || errs != "" || !strings.Contains(out, "4 tables, 0 refusals") {
		t.Errorf("mended: exit code %d\n%s%s", code, errs, out)
	}
	var r precheck
	if code, out, _ := weft(t, "check", "--from", from, "--cluster", mended, "--statements", ok, "--json"); code != 0 || json.Unmarshal([]byte(out), &r) != nil || len(r.Tables) != 4 || r.Mend {
		t.Errorf("exit code %d\n%s", code, out)
	}
	for line, want := range map[string]string{
		"check --cluster x":                              "which tables?",
		"check --schema x":                               "which declarations?",
		"check --schema /none --cluster " + cluster:      "/none: no such file",
		"check --schema " + dump + " --cluster /none":    "/none",
		"check --from postgres://%z --cluster " + mended: "--from: cannot parse",
	} {
		if code, out, errs := weft(t, strings.Fields(line)...); code != 2 || !strings.Contains(errs, want) || out != "" {
			t.Errorf("weft %s: exit code %d\nstderr %s\nstdout %s\nwant %s", line, code, errs, out, want)
		}
	}
}
