package schema

import (
	"errors"
	"strings"
	"testing"

	"weft/directory"
	"weft/pgerr"
)

// TestRefusals: a declaration that cannot be right is refused with the reason,
// and nothing has happened.
func TestRefusals(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TYPE mood AS ENUM ('a'); CREATE COLLATION nd (PROVIDER = icu, LOCALE = 'und', DETERMINISTIC = false);
CREATE EXTENSION btree_gist;
CREATE TABLE sharded (id bigint PRIMARY KEY, other bigint, UNIQUE (id, other)); CREATE TABLE ref (id bigint PRIMARY KEY);
CREATE TABLE plain (id bigint PRIMARY KEY, b bool, f float8, m mood, j jsonb, nd text COLLATE nd, g bigint GENERATED ALWAYS AS (1) STORED, x bigint, d date);
CREATE TABLE nokey (a bigint, b bigint);
CREATE TABLE late (id bigint PRIMARY KEY DEFERRABLE, x bigint); CREATE TABLE half (id bigint, x bigint);
CREATE FUNCTION fold(text) RETURNS text LANGUAGE sql IMMUTABLE AS 'SELECT lower($1)'; CREATE UNIQUE INDEX ON half (id) WHERE fold(x::text) <> '';
CREATE TABLE nulls (id inet UNIQUE NULLS NOT DISTINCT, x bigint); CREATE TABLE odd (f float8 UNIQUE, x bigint);
CREATE VIEW view1 AS SELECT * FROM plain; CREATE MATERIALIZED VIEW mat AS SELECT 1 AS a; CREATE SEQUENCE seq;
CREATE TABLE parts (a bigint) PARTITION BY LIST (a); CREATE TABLE part1 PARTITION OF parts DEFAULT;
CREATE TABLE inh (a bigint); CREATE TABLE inh2 () INHERITS (inh);
CREATE TABLE ruled (a bigint); CREATE RULE r AS ON INSERT TO ruled DO INSTEAD NOTHING;
CREATE TABLE mail (id bigint, email text UNIQUE); CREATE TABLE mail2 (id bigint, email text); CREATE UNIQUE INDEX ON mail2 (fold(email));
CREATE TABLE mailok (id bigint, email text, UNIQUE (email, id)); CREATE TABLE mailok2 (id bigint); CREATE TABLE mailok3 (email text);
CREATE TABLE uuids (u uuid DEFAULT gen_random_uuid() PRIMARY KEY, k bigint);
CREATE TABLE serials (id serial PRIMARY KEY, k bigint); CREATE TABLE idents (id int GENERATED ALWAYS AS IDENTITY UNIQUE, k bigint);
CREATE TABLE excl (k bigint, r int4range, EXCLUDE USING gist (r WITH &&)); CREATE TABLE exclok (k bigint, r int4range, EXCLUDE USING gist (k WITH =, r WITH &&)); CREATE TABLE exclno (k bigint, r int4range, EXCLUDE USING gist (k WITH <>, r WITH &&));
CREATE TABLE tohome (id bigint, k bigint REFERENCES plain); CREATE TABLE toref (k bigint, r bigint REFERENCES ref);
CREATE TABLE toshard (k bigint REFERENCES sharded, z bigint); CREATE TABLE toshard2 (k bigint, z bigint, FOREIGN KEY (k, z) REFERENCES sharded (id, other)); CREATE TABLE totext (k text);
CREATE TABLE self (k bigint, id bigint, p bigint, PRIMARY KEY (k, id), FOREIGN KEY (k, p) REFERENCES self); CREATE TABLE self2 (id bigserial PRIMARY KEY, k bigint, p bigint REFERENCES self2);
CREATE FUNCTION reads_home() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM nokey; RETURN NEW; END'; CREATE FUNCTION outer_one() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM inner_one(); RETURN NEW; END'; CREATE FUNCTION inner_one() RETURNS int LANGUAGE sql AS 'SELECT 1 FROM public.nokey';
CREATE FUNCTION reads_ref() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM ref; RETURN NEW; END'; CREATE FUNCTION reads_sharded() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM sharded WHERE id = NEW.k; RETURN NEW; END'; CREATE FUNCTION reads_all() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM 1 FROM sharded; RETURN NEW; END'; CREATE FUNCTION dynamic() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN EXECUTE ''SELECT '' || TG_TABLE_NAME; RETURN NEW; END';
CREATE TABLE tr1 (k bigint, x bigint); CREATE TRIGGER a BEFORE INSERT ON tr1 FOR EACH ROW EXECUTE FUNCTION reads_home();
CREATE TABLE tr2 (k bigint, x text); CREATE TRIGGER a BEFORE INSERT ON tr2 FOR EACH ROW EXECUTE FUNCTION outer_one();
CREATE TABLE tr3 (k bigint, x bigint); CREATE TRIGGER a BEFORE INSERT ON tr3 FOR EACH ROW EXECUTE FUNCTION reads_ref();
CREATE TABLE tr4 (k bigint, x text); CREATE TRIGGER a BEFORE INSERT ON tr4 FOR EACH ROW EXECUTE FUNCTION reads_sharded();
CREATE TABLE tr6 (k bigint, x text); CREATE TRIGGER a BEFORE INSERT ON tr6 FOR EACH ROW EXECUTE FUNCTION reads_all();
CREATE TABLE tr5 (k bigint, x text); CREATE TRIGGER a BEFORE INSERT ON tr5 FOR EACH ROW EXECUTE FUNCTION dynamic();
CREATE TABLE pol (k bigint); CREATE POLICY p ON pol USING (EXISTS (SELECT FROM nokey WHERE a = k));
CREATE TABLE lst (k text); INSERT INTO lst VALUES ('eu'), ('us'), ('mars');
CREATE TABLE comp (tenant bigint, day date)`)
	c.shard("sharded", "id")
	c.reference("ref")
	c.told()
	hash, lookup := directory.Vindex{}, directory.Vindex{Kind: "lookup"}
	for _, tc := range []struct {
		table, columns string
		vindex         directory.Vindex
		code, want     string // no code: accepted
	}{
		{"none", "id", hash, pgerr.UndefinedTable, "does not exist"},
		{"plain", "nothing", hash, pgerr.UndefinedColumn, `column "nothing" of relation "plain" does not exist`},
		{"plain", "", hash, pgerr.InvalidParameterValue, "no key column"},
		{"plain", "b", hash, pgerr.InvalidTableDefinition, "two buckets at most"},
		{"plain", "f", hash, pgerr.InvalidTableDefinition, "floating-point"},
		{"plain", "m", hash, pgerr.InvalidTableDefinition, "enum"},
		{"plain", "j", hash, pgerr.InvalidTableDefinition, "no hash"},
		{"plain", "nd", hash, pgerr.InvalidTableDefinition, "nondeterministic"},
		{"plain", "g", hash, pgerr.InvalidTableDefinition, "generated"},
		{"plain", "id", directory.Vindex{Kind: "hsh"}, pgerr.InvalidTableDefinition, "unknown kind"},
		{"plain", "id", lookup, pgerr.InvalidParameterValue, "needs a name"},
		{"late", "x", hash, pgerr.FeatureNotSupported, `primary key "late_pkey" on (id)`},
		{"half", "x", hash, pgerr.FeatureNotSupported, `unique index "half_id_idx" on (id)`},
		{"nulls", "x", hash, pgerr.FeatureNotSupported, `unique index "nulls_id_key" on (id)`},
		{"odd", "x", hash, pgerr.FeatureNotSupported, `unique index "odd_f_key" on (f)`},
		{"view1", "id", hash, pgerr.WrongObjectType, "is not a table"},
		{"mat", "a", hash, pgerr.WrongObjectType, "is not a table"},
		{"seq", "a", hash, pgerr.WrongObjectType, "is not a table"},
		{"part1", "a", hash, pgerr.WrongObjectType, "is a partition"},
		{"inh", "a", hash, pgerr.FeatureNotSupported, "inheritance"},
		{"inh2", "a", hash, pgerr.FeatureNotSupported, "inheritance"},
		{"ruled", "a", hash, pgerr.FeatureNotSupported, "rewrite rules"},
		{"sharded", "id", hash, pgerr.DuplicateObject, "already declared: sharded by id"},
		{"ref", "id", hash, pgerr.DuplicateObject, "already declared: a reference table"},
		{"mail", "id", hash, "", `unique index "mail_email_key" does not contain the shard key: a lookup keeps`},
		{"mail2", "id", hash, pgerr.FeatureNotSupported, "an expression"},
		{"mailok", "id", hash, "", ""},
		{"uuids", "k", hash, "", "weft gives values of u out uniquely"},
		{"serials", "k", hash, "", "weft gives values of id out uniquely"},
		{"idents", "k", hash, "", "weft gives values of id out uniquely"},
		{"excl", "k", hash, pgerr.FeatureNotSupported, "exclusion constraint"},
		{"exclno", "k", hash, pgerr.FeatureNotSupported, "exclusion constraint"},
		{"exclok", "k", hash, "", ""},
		{"tohome", "k", hash, pgerr.InvalidForeignKey, "is on the home shard alone"},
		{"toref", "k", hash, "", ""},
		{"toshard", "z", hash, pgerr.InvalidForeignKey, "does not match the shard key"},
		{"toshard", "k", directory.Vindex{Kind: "reverse_bits"}, pgerr.InvalidForeignKey, "with vindex"},
		{"toshard", "k", hash, "", ""},
		{"toshard2", "z", hash, pgerr.InvalidForeignKey, "does not match the shard key"},
		{"toshard2", "k", hash, "", ""},
		{"self", "k", hash, "", ""},
		{"self2", "k", hash, pgerr.InvalidForeignKey, "does not match the shard key"},
		{"tr1", "k", hash, pgerr.FeatureNotSupported, `uses "nokey"`},
		{"tr2", "k", hash, pgerr.FeatureNotSupported, `uses "nokey"`},
		{"tr3", "k", hash, "", ""},
		{"tr4", "x", hash, pgerr.FeatureNotSupported, "on other shards than its own"},
		{"tr4", "k", hash, "", ""},
		{"tr6", "k", hash, pgerr.FeatureNotSupported, `may touch rows of "sharded" that are on other shards`},
		{"tr5", "k", hash, pgerr.FeatureNotSupported, "cannot read"},
		{"pol", "k", hash, pgerr.FeatureNotSupported, `uses "nokey"`},
		{"lst", "k", directory.Vindex{Kind: "list", Params: map[string]any{"zones": []any{
			map[string]any{"values": []any{"eu", "us"}, "buckets": "0-4095"},
		}}}, pgerr.InvalidParameterValue, "no place"},
		{"comp", "tenant,day", hash, "", ""},
		{"mailok2", "id", directory.Vindex{Kind: "lookup", Name: "dir"}, "", ""},
		{"mailok3", "email", directory.Vindex{Kind: "lookup", Name: "dir"}, pgerr.InvalidParameterValue, `lookup "dir" is a lookup of bigint`},
	} {
		req := c.request(tc.table, tc.columns)
		req.Vindex = tc.vindex
		before := c.store.snap.Table(c.db, "public", tc.table)
		err := c.mover.Shard(c.context(), req, c.notice)
		told := c.told()
		if tc.code == "" {
			if err != nil || !strings.Contains(told, tc.want) {
				t.Errorf("%s by %s: %v\n%s", tc.table, tc.columns, err, told)
			}
			continue
		}
		var e *pgerr.Error
		if !errors.As(err, &e) || e.Code != tc.code || !strings.Contains(e.Message, tc.want) {
			t.Errorf("%s by %s: %v", tc.table, tc.columns, err)
		}
		if after := c.store.snap.Table(c.db, "public", tc.table); after != before && (after == nil || before == nil) {
			t.Errorf("%s by %s: the directory has changed", tc.table, tc.columns)
		}
	}
	c.home("CREATE TABLE reftoshard (k bigint REFERENCES sharded)")
	var e *pgerr.Error
	if err := c.mover.Reference(c.context(), c.request("reftoshard", ""), c.notice); !errors.As(err, &e) || e.Code != pgerr.InvalidForeignKey {
		t.Errorf("a reference table on a sharded one: %v", err)
	}
	if err := c.mover.Unshard(c.context(), c.request("plain", ""), c.notice); !errors.As(err, &e) || e.Code != pgerr.ObjectNotInPrerequisiteState {
		t.Errorf("unshard of a home table: %v", err)
	}
}

// TestSkew: a key that spreads rows badly is told.
func TestSkew(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TABLE few AS SELECT i AS id, i % 5 AS k FROM generate_series(1, 2000) i; CREATE TABLE one AS SELECT i AS id, CASE WHEN i % 3 = 0 THEN 42 ELSE i END AS k FROM generate_series(1, 2000) i;
CREATE TABLE even AS SELECT i AS id, i AS k FROM generate_series(1, 2000) i; CREATE TABLE small AS SELECT i AS id, 1 AS k FROM generate_series(1, 100) i`)
	for table, want := range map[string]string{
		"few": "in 5 of 4096 buckets only", "one": "666 of 2000 rows of one (33 %) have the same key (k) = (42)", "even": "", "small": "",
	} {
		c.shard(table, "k")
		if told := c.told(); (want == "") == strings.Contains(told, "WARNING") || !strings.Contains(told, want) {
			t.Errorf("%s:\n%s", table, told)
		}
	}
}

// TestForeseen: what statistics say against a key is told before rows are counted, and so is a key that
// may be NULL.
func TestForeseen(t *testing.T) {
	c := newCluster(t)
	c.home(`CREATE TABLE up (id bigint NOT NULL, kind int NOT NULL, odd int); INSERT INTO up SELECT i, i % 7, CASE WHEN i % 10 = 0 THEN i END FROM generate_series(1, 20000) i; ANALYZE up;
CREATE TABLE fresh (id bigint NOT NULL); CREATE TABLE maybe (id bigint)`)
	home, err := open(c.context(), c.mover.cfg.Shards, names[0], c.db, c.request("up", "id").User, "weft")
	c.must(err)
	defer home.close()
	warned := func(table, column, kind string, counted bool) string {
		req := c.request(table, column)
		t.Helper()
		var told []string
		err := foresee(home, &req, &directory.Table{Vindex: directory.Vindex{Kind: kind}}, 4, counted, func(e *pgerr.Error) { told = append(told, e.Message) })
		c.must(err)
		return strings.Join(told, "; ")
	}
	for _, tc := range []struct {
		table, column, kind string
		counted             bool
		want                string
	}{
		{"up", "id", "hash", false, ""},
		{"up", "id", "range", true, `values of the key column "id" of up come in the order of time, and vindex range keeps their order`},
		{"up", "id", "identity", false, `values of the key column "id" of up come in the order of time, and vindex identity keeps their order`},
		{"up", "kind", "hash", false, `the key column "kind" of up has about 7 values only; about 14 % of the rows of up have the same value of the key column "kind"`},
		{"up", "kind", "hash", true, ""},
		{"fresh", "id", "hash", false, ""},
	} {
		if got := warned(tc.table, tc.column, tc.kind, tc.counted); got != tc.want {
			t.Errorf("%s by %s of %s: %q", tc.kind, tc.column, tc.table, got)
		}
	}
	c.shard("maybe", "id")
	if told := c.told(); !strings.Contains(told, `key column "id" of maybe may be NULL: all rows without a value are in bucket 0`) {
		t.Error(told)
	}
	c.shard("fresh", "id")
	if told := c.told(); strings.Contains(told, "NULL") {
		t.Error(told)
	}
}

// TestRights: the owner may, others may not; nobody needs to be a superuser.
func TestRights(t *testing.T) {
	c := newCluster(t)
	for _, s := range names {
		on(t, s, "postgres").run(t, "CREATE ROLE plain_owner LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE grp; CREATE ROLE member LOGIN IN ROLE grp")
		on(t, s, c.db).run(t, "GRANT CREATE ON SCHEMA public TO PUBLIC")
	}
	c.home(`CREATE TABLE mine (id bigserial PRIMARY KEY, k int, s text) ; INSERT INTO mine(k) SELECT i FROM generate_series(1, 500) i; ALTER TABLE mine OWNER TO plain_owner;
CREATE POLICY p ON mine USING (k < 10); ALTER TABLE mine ENABLE ROW LEVEL SECURITY; ALTER TABLE mine FORCE ROW LEVEL SECURITY;
CREATE TABLE ours (id bigint, k int); INSERT INTO ours SELECT i, i FROM generate_series(1, 500) i; ALTER TABLE ours OWNER TO grp`)
	as := func(user, table string) error {
		req := c.request(table, "k")
		req.User = user
		return c.mover.Shard(c.context(), req, c.notice)
	}
	var e *pgerr.Error
	if err := as("stranger", "mine"); !errors.As(err, &e) || e.Code != pgerr.InsufficientPrivilege {
		t.Errorf("stranger: %v", err)
	}
	c.must(as("plain_owner", "mine"))
	c.check("mine", "k", 500)
	c.must(as("member", "ours"))
	c.check("ours", "k", 500)
	req := c.request("mine", "")
	req.User = "stranger"
	if err := c.mover.Unshard(c.context(), req, c.notice); !errors.As(err, &e) || e.Code != pgerr.InsufficientPrivilege {
		t.Errorf("stranger: %v", err)
	}
	req.User = "plain_owner"
	c.must(c.mover.Unshard(c.context(), req, c.notice))
	c.check("mine", "", 500)
	if err := c.mover.Pin(c.context(), c.db, "plain_owner", "x", "1", "east"); !errors.As(err, &e) || e.Code != pgerr.InsufficientPrivilege {
		t.Errorf("pin: %v", err)
	}
}
