package vindex

import (
	"strings"
	"testing"

	"weft/datum"
)

// TestLookupSQL: values with a bucket of their own are spelled so that no setting changes their
// meaning, whatever their type.
func TestLookupSQL(t *testing.T) {
	for _, c := range []struct {
		typ         datum.Type
		value, want string
	}{
		{datum.Int4, "7", "CASE k::int8 WHEN '7'::int8 THEN 64::int8 ELSE "},
		{datum.Text, "o'x", `CASE k::text COLLATE "C" WHEN 'o''x'::text THEN 64::int8 ELSE `},
		{datum.Date, "2026-01-08", "CASE k WHEN '2026-01-08'::date THEN 64::int8 ELSE "},
		{datum.Timestamptz, "2026-01-08 10:00:00+00", "CASE k WHEN '2026-01-08 10:00:00.000000+00'::timestamp with time zone THEN 64::int8 ELSE "},
		{datum.Numeric, "1.50", "CASE k WHEN '1.5'::numeric THEN 64::int8 ELSE "},
		{datum.UUID, "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "CASE k WHEN 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11'::uuid THEN 64::int8 ELSE "},
	} {
		v, err := New(Declaration{Kind: "lookup_unique", Columns: []Column{{Name: "k", Column: datum.Column{Type: c.typ, Mod: -1}}}, Buckets: 64})
		if err != nil {
			t.Fatal(err)
		}
		l := v.(Lookup)
		k, err := l.Columns()[0].Store(datum.Literal([]byte(c.value)))
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Request([]datum.Key{k}, nil)
		if err != nil {
			t.Fatal(err)
		}
		plain, err := LookupSQL(l, "k", nil, 64)
		if err != nil || strings.Contains(plain, "THEN 64") {
			t.Errorf("%s: %s, %v", c.value, plain, err)
		}
		got, err := LookupSQL(l, "k", map[string]int{string(r.Key): 64}, 64)
		if err != nil || got != c.want+plain+" END" {
			t.Errorf("%s: %v\n%s\n%s", c.value, err, got, c.want)
		}
	}
}
