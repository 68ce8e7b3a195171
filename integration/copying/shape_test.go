package copying

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// column is one of a random table's.
type column struct {
	name, decl string
	value      func(*rand.Rand) string // one that its type takes
	notNull    bool
	// derived: COPY cannot name it; drawn: its default makes another value each time,
	// so rows never give it.
	derived, drawn bool
	filter         string // a condition on it
}

// shape is a random table.
type shape struct {
	columns []*column
	create  string
	more    []string // statements that belong to it
	declare string   // to weft; "" for a home table
	mask    map[string]bool
}

// scalar is a type and how values of it look.
type scalar struct {
	name   string
	key    bool // a shard key may have it
	value  func(*rand.Rand) string
	dflt   []string
	filter string
}

func pick[T any](r *rand.Rand, from ...T) T { return from[r.IntN(len(from))] }

// number is small, so that keys collide now and then.
func number(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return pick(r, " 7", "+12", "-3", "007", "2147483647", "-0")
	case 1:
		return fmt.Sprint(r.IntN(30))
	}
	return fmt.Sprint(r.IntN(100_000))
}

var atoms = []string{
	"a", "B", " ", "\\", "\t", "\n", "\r", "\"", "'", ",", "|", ";", ".", "\\.", "\\N", "é", "ß", "€", "日本", "\x01", "\x7f", "\b", "\f", "\v",
	"0", "NULL", "{", "%", "\\\\", "\"\"", "\r\n", "~", "x", "\n\\.\n", "𝄞",
}

// ugly is a text of everything that a format may stumble over.
func ugly(r *rand.Rand) string {
	var b strings.Builder
	if r.IntN(3) == 0 {
		fmt.Fprintf(&b, "name %d", r.IntN(1000))
		return b.String()
	}
	for range r.IntN(8) {
		b.WriteString(pick(r, atoms...))
	}
	if r.IntN(200) == 0 {
		b.WriteString(strings.Repeat("long ", 10_000))
	}
	return b.String()
}

func moment(r *rand.Rand) time.Time {
	return time.Date(2020+r.IntN(5), time.Month(1+r.IntN(12)), 1+r.IntN(28), r.IntN(24), 0, r.IntN(60), 0, time.UTC)
}

func uuid(r *rand.Rand) string {
	return fmt.Sprintf("%08x-0000-4000-8000-%012x", r.Uint32(), r.IntN(1000))
}

var scalars = []scalar{
	{"int", true, number, []string{"7", "(1 + 2) * 3"}, "%s %% 3 <> 1"},
	{"bigint", true, number, []string{"12"}, "%s > 20"},
	{"smallint", true, func(r *rand.Rand) string { return fmt.Sprint(r.IntN(30_000)) }, nil, "%s is not null"},
	{"text", true, ugly, []string{"'dflt'", "upper('x') || E'\\t\\\\'", "NULL"}, "length(%s) < 6"},
	{"varchar(12)", true, ugly, nil, "%s <> 'x'"},
	{"uuid", true, uuid, nil, "%s::text < '9'"},
	{"date", true, func(r *rand.Rand) string { return moment(r).Format("2006-01-02") }, []string{"date_trunc('year', now())::date", "'2020-02-02'"}, "%s > '2022-01-01'"},
	{"timestamptz", true, func(r *rand.Rand) string { return moment(r).Format("2006-01-02 15:04:05+00") }, []string{"date_trunc('year', now())"}, "%s < now()"},
	{"numeric(10,2)", true, func(r *rand.Rand) string { return fmt.Sprintf("%d.%d", r.IntN(1000), r.IntN(2000)) }, []string{"1.50"}, "%s <> 1.5"},
	{"float8", false, func(r *rand.Rand) string { return pick(r, "1.5", "-2e10", "NaN", "Infinity", "0.1") }, []string{"0"}, "%s > 0"},
	{"bytea", false, func(r *rand.Rand) string { return fmt.Sprintf("\\x%x", ugly(r)) }, nil, "%s <> '\\x00'"},
	{"bool", false, func(r *rand.Rand) string { return pick(r, "t", "f", "true", "no", "1") }, []string{"true"}, "%s"},
	{"json", false, func(r *rand.Rand) string { return pick(r, `{"a": 1}`, `[1, "x\ny", null]`, `"é"`, "{}", "{ \n}") }, []string{`'{"d": [1]}'`}, "%s ->> 'a' = '1'"},
	{"jsonb", false, func(r *rand.Rand) string { return pick(r, `{"b": 1, "a": 2}`, `[1, "x\\y"]`, "1.50") }, nil, "%s is not null"},
	{"int[]", false, func(r *rand.Rand) string { return pick(r, "{1,2}", "{}", "{{1,2},{3,NULL}}", "[2:3]={1,2}") }, []string{"'{1}'"}, "cardinality(%s) > 0"},
	{"text[]", false, func(r *rand.Rand) string { return pick(r, `{a,"b\"c",NULL}`, `{"\\",""}`, "{\"\n\",\"\t\"}") }, nil, "%s is not null"},
	{"mood", false, func(r *rand.Rand) string { return pick(r, "sad", "so so", "héhé") }, []string{"'sad'"}, "%s > 'sad'"},
	{"positive", false, func(r *rand.Rand) string { return fmt.Sprint(1 + r.IntN(99)) }, []string{"5"}, "%s < 50"},
	{"interval", false, func(r *rand.Rand) string { return pick(r, "1 day", "2:03", "1 mon -3 days") }, nil, "%s > '2 days'"},
}

// newShape makes a table up.
func newShape(r *rand.Rand) *shape {
	s := &shape{mask: map[string]bool{}}
	names := []string{"a", "b", "c d", "e", "F", "g", "h"}
	var keys []string
	unique := false
	for i := range 2 + r.IntN(5) {
		typ := pick(r, scalars...)
		for i == 0 && !typ.key {
			typ = pick(r, scalars...)
		}
		c := &column{name: names[i], value: typ.value, filter: fmt.Sprintf(typ.filter, quoted(names[i]))}
		c.decl = quoted(c.name) + " " + typ.name
		switch {
		case r.IntN(3) == 0 && len(typ.dflt) > 0:
			c.decl += " default " + pick(r, typ.dflt...)
		case r.IntN(4) == 0 && typ.name == "int":
			c.decl += fmt.Sprintf(" check (%s < 90000)", quoted(c.name))
		}
		if i > 0 && r.IntN(5) == 0 {
			c.decl += " not null"
			c.notNull = true
		}
		if i > 0 && r.IntN(10) == 0 && (typ.name == "int" || typ.name == "bigint" || typ.name == "uuid") {
			c.decl += " unique" // weft makes a lookup of it
			unique = true
		}
		s.columns = append(s.columns, c)
		if i == 0 || i == 1 && typ.key && r.IntN(5) == 0 {
			keys = append(keys, quoted(c.name))
		}
	}
	sharded := r.IntN(10)
	primary := r.IntN(2) == 0
	if primary {
		for i := range keys {
			s.columns[i].notNull = true
		}
	}
	if r.IntN(2) == 0 {
		decl := pick(r, "n bigserial", "n int generated always as identity", "n smallint generated by default as identity (start with 100)", "n int default nextval('counter')")
		s.columns = append(s.columns, &column{name: "n", decl: decl, value: func(r *rand.Rand) string { return fmt.Sprint(1 + r.IntN(1000)) }, notNull: true})
	}
	if r.IntN(3) == 0 {
		decl := fmt.Sprintf("z text generated always as (coalesce(%s::text, '') || '!') stored", keys[0])
		if !strings.HasPrefix(s.columns[0].decl, keys[0]+" date") && !strings.HasPrefix(s.columns[0].decl, keys[0]+" timestamptz") { // as text they depend on settings
			s.columns = append(s.columns, &column{name: "z", decl: decl, derived: true})
		}
	}
	if r.IntN(4) == 0 {
		s.columns = append(s.columns, &column{name: "u", decl: "u uuid default gen_random_uuid()", drawn: true})
		s.mask["u"] = true
	}
	r.Shuffle(len(s.columns), func(i, j int) { s.columns[i], s.columns[j] = s.columns[j], s.columns[i] })
	var decls []string
	for _, c := range s.columns {
		decls = append(decls, c.decl)
	}
	if primary {
		decls = append(decls, "primary key ("+strings.Join(keys, ", ")+")")
	}
	s.create = "create table items (" + strings.Join(decls, ", ") + ")"
	switch {
	case r.IntN(8) == 0 && !unique:
		s.create += " partition by range (" + keys[0] + ")"
		s.more = append(s.more, "create table items_rest partition of items default")
	case r.IntN(8) == 0:
		s.more = append(s.more, "create trigger pass before insert on items for each row execute function pass()")
	}
	switch {
	case sharded < 7:
		s.declare = "select weft.shard_table('items', '" + strings.Join(keys, ", ") + "')"
	case sharded < 9:
		s.declare = "select weft.reference_table('items')"
	}
	return s
}

func quoted(name string) string { return `"` + name + `"` }

// names are those of columns, quoted.
func names(columns []*column) string {
	var out []string
	for _, c := range columns {
		out = append(out, quoted(c.name))
	}
	return strings.Join(out, ", ")
}
