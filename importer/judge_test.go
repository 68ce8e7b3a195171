package importer

import (
	"strings"
	"testing"
)

func good() (*Survey, *Prospect, *Wish) {
	return &Survey{
		Version: 150000, Encoding: "UTF8", Collate: "C", WALLevel: "logical", MaxSlots: 10, MaxSenders: 10, KeepSize: "10GB", Replicates: true, Owns: true,
		Tables: []Table{{Schema: "public", Name: "t", Identity: KeyIdentity, Key: []string{"id"}, Columns: []Column{{Name: "id", Type: "bigint"}}}},
		Roles:  []string{"app"}, Extensions: []string{"citext"},
	}, &Prospect{
		Version: 150000, Encoding: "UTF8", Collate: "C", Superuser: true, Extensions: []string{"citext", "hstore"}, Roles: []string{"app", "postgres"},
	}, &Wish{Declarations: []Declaration{{Schema: "public", Name: "t", Columns: []string{"id"}, Says: "sharded by id"}}}
}

func TestJudge(t *testing.T) {
	if s, p, w := good(); len(Judge(s, p, w)) != 0 {
		t.Errorf("nothing is wrong: %+v", Judge(s, p, w))
	}
	there := []Table{{Schema: "public", Name: "t", Columns: []Column{{Name: "id", Type: "bigint"}}}}
	for _, c := range []struct {
		change func(s *Survey, p *Prospect, w *Wish)
		level  Level
		text   string
	}{
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Version = 120000 }, Error, "at least 13"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Version = 160000 }, Warning, "the shards are 15"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.WALLevel = "replica" }, Error, "wal_level"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Slots = 9 }, Error, "max_replication_slots"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Senders = 9 }, Error, "max_wal_senders"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.KeepSize = "-1" }, Warning, "max_slot_wal_keep_size"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Encoding = "LATIN1" }, Error, "encoding"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Collate = "de_DE" }, Warning, "collation"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Replicates = false }, Error, "replication slots"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Owns = false }, Error, "own all tables"},
		{func(_ *Survey, p *Prospect, _ *Wish) { p.Superuser = false }, Error, "superuser"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Roles = []string{"app", "eve"} }, Error, "roles are missing in weft: eve"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Extensions = []string{"postgis"} }, Error, "postgis"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Collations = []string{"de-x-icu"} }, Error, "de-x-icu"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.LargeObjects = 3 }, Error, "3 large objects"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Prepared = 1 }, Warning, "prepared transactions"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Materialized = []string{"mv"} }, Warning, "materialized"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Tables[0].Unlogged = true }, Error, "unlogged"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Tables[0].Identity, s.Tables[0].Key = NoIdentity, nil }, Error, "no key"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Tables[0].Identity, s.Tables[0].Key = FullIdentity, nil }, Warning, "comparing all columns"},
		{func(s *Survey, _ *Prospect, _ *Wish) { s.Tables[0].Mixed = true }, Error, "partitions"},
		{func(_ *Survey, _ *Prospect, w *Wish) { w.Declarations[0].Columns = []string{"other"} }, Warning, "does not have its shard key"},
		{func(_ *Survey, p *Prospect, _ *Wish) { p.Tables = there }, Error, "in weft already"},
		{func(_ *Survey, _ *Prospect, w *Wish) { w.NoSchema = true }, Error, "is not in weft"},
		{func(_ *Survey, p *Prospect, w *Wish) {
			w.NoSchema, p.Tables, p.Occupied = true, there, []string{"public.t"}
		}, Error, "has rows"},
		{func(s *Survey, p *Prospect, w *Wish) {
			w.NoSchema, p.Tables, s.Tables[0].Columns = true, there, []Column{{Name: "id", Type: "uuid"}}
		}, Error, "other columns"},
		{func(_ *Survey, _ *Prospect, w *Wish) { w.Declarations[0].Name = "no" }, Error, "no such table"},
		{func(_ *Survey, _ *Prospect, w *Wish) { w.Exclude = []string{"public.no"} }, Error, "no such table"},
		{func(s *Survey, _ *Prospect, w *Wish) {
			w.Exclude, w.Declarations, s.Links = []string{"public.t"}, nil, []Link{{"public.u", "public.t"}}
		}, Error, "stays behind"},
	} {
		s, p, w := good()
		c.change(s, p, w)
		found := Judge(s, p, w)
		if len(found) != 1 || found[0].Level != c.level || !strings.Contains(found[0].Text, c.text) {
			t.Errorf("want %s with %q: %+v", c.level, c.text, found)
		}
	}
	// What the operator has decided is no finding.
	s, p, w := good()
	s.LargeObjects, s.Roles, s.Tables[0].Unlogged = 1, []string{"eve"}, true
	w.NoObjects, w.NoOwner, w.Exclude, w.Declarations = true, true, []string{"public.t"}, nil
	if found := Judge(s, p, w); len(found) != 0 {
		t.Errorf("%+v", found)
	}
}

func TestOrder(t *testing.T) {
	list := []Declaration{{Name: "items", Schema: "s"}, {Name: "orders", Schema: "s"}, {Name: "customers", Schema: "s"}, {Name: "a", Schema: "s"}, {Name: "b", Schema: "s"}}
	links := []Link{{"s.items", "s.orders"}, {"s.orders", "s.customers"}, {"s.items", "s.items"}, {"s.a", "s.b"}, {"s.b", "s.a"}}
	var got []string
	for _, d := range Order(list, links) {
		got = append(got, d.Name)
	}
	if s := strings.Join(got, " "); !strings.Contains(s, "customers orders items") || len(got) != 5 {
		t.Errorf("order: %s", s)
	}
}

func TestSplitDump(t *testing.T) {
	text := "--\n-- PostgreSQL database dump\n--\n\n\\restrict abc\n\nSET statement_timeout = 0;\nSET transaction_timeout = 0;\n\n--\n-- Name: f\n--\n\nCREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$\nselect ';\n\\restrict no\n-- not a comment'\n$$;\n\nCREATE TABLE t (\n    id bigint\n);\n\n\\unrestrict abc\n\n"
	got, err := splitDump(text)
	want := []string{"SET statement_timeout = 0", "CREATE FUNCTION f() RETURNS text LANGUAGE sql AS $$\nselect ';\n\\restrict no\n-- not a comment'\n$$", "CREATE TABLE t (\n    id bigint\n)"}
	if err != nil || strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%v %q", err, got)
	}
}

func TestDefinition(t *testing.T) {
	a := Table{Columns: []Column{{Name: "b", Type: "text"}, {Name: "a", Type: "int"}}}
	b := Table{Columns: []Column{{Name: "a", Type: "int"}, {Name: "b", Type: "text"}}}
	if a.definition() != b.definition() || a.definition() != "a int, b text" {
		t.Errorf("%q and %q", a.definition(), b.definition())
	}
	if got := Name("public", "Odd name"); got != `public."Odd name"` {
		t.Error(got)
	}
}

func TestSlotName(t *testing.T) {
	for database, want := range map[string]string{"store": "weft_import_store", "My-Db": "weft_import_my_db"} {
		if got := slotName(database); got != want {
			t.Errorf("%s: %s", database, got)
		}
	}
	if got := slotName(strings.Repeat("x", 63)) + "_" + random(3); len(got) != 63 {
		t.Errorf("%d bytes: a slot can have 63", len(got))
	}
}
