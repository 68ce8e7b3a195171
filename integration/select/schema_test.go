package selects

// column is what the generator knows of a column: its name and the kind of
// its values. Kinds are types as far as expressions care.
type column struct{ name, kind string }

// relation is a table or view of testdata/schema.sql.
type relation struct {
	name    string
	columns []column
	key     []string // what it is sharded by; nil if it is not
	unique  []string // columns that tell its rows apart; nil if there are none
}

// The kinds. Values of other types are only looked at, compared and counted.
const (
	integer   = "int"
	numeric   = "numeric"
	word      = "text"
	boolean   = "bool"
	day       = "date"
	moment    = "timestamptz"
	float     = "float8"
	uuid      = "uuid"
	mood      = "mood"
	document  = "jsonb"
	integers  = "int4[]"
	words     = "text[]"
	span      = "interval"
	bytes     = "bytea"
	interval  = "int4range"
	composite = "spot"
)

// tables are sharded ones first; those up to colocated share their key.
var (
	tables = []relation{
		{name: "a", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"n", integer}, {"x", numeric}, {"s", word}, {"b", boolean}, {"d", day}, {"ts", moment}, {"f", float}}},
		{name: "b", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"a_id", integer}, {"n", integer}, {"s", word}, {"e", mood}, {"c", word}, {"j", document}, {"w", integer}}},
		{name: "c", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"n", integer}, {"x", numeric}, {"l", integers}, {"z", span}, {"y", bytes}, {"g", interval}, {"o", composite}, {"t", words}}},
		{name: "v_a", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"n", integer}, {"x", numeric}, {"s", word}}},
		{name: "v_ab", key: []string{"k"}, unique: []string{"a_id", "b_id"}, columns: []column{{"k", integer}, {"a_id", integer}, {"b_id", integer}, {"n", integer}, {"s", word}, {"e", mood}}},
		{name: "v_sum", key: []string{"k"}, unique: []string{"k"}, columns: []column{{"k", integer}, {"cnt", integer}, {"total", numeric}, {"top", word}}},
		{name: "u", key: []string{"code"}, unique: []string{"id"}, columns: []column{{"code", word}, {"id", integer}, {"k", integer}, {"n", integer}, {"x", numeric}, {"s", word}}},
		{name: "w", key: []string{"g"}, unique: []string{"id"}, columns: []column{{"g", uuid}, {"id", integer}, {"k", integer}, {"n", integer}, {"s", word}, {"f", float}}},
		{name: "p", key: []string{"tenant", "day"}, unique: []string{"id"}, columns: []column{{"tenant", integer}, {"day", day}, {"id", integer}, {"n", integer}, {"x", numeric}, {"s", word}}},
		{name: "q", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"n", integer}, {"s", word}, {"b", boolean}}},
		{name: "e0", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"n", integer}, {"x", numeric}, {"s", word}}},
		{name: "m", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"n", integer}, {"s", word}, {"at", day}}},
		{name: "v_cnt", unique: []string{"n"}, columns: []column{{"n", integer}, {"cnt", integer}, {"first", integer}, {"mean", numeric}}},
		{name: "v_all", columns: []column{{"k", integer}, {"id", integer}, {"n", integer}, {"s", word}}},
		{name: "v_ref", key: []string{"k"}, unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"name", word}, {"price", numeric}, {"x", numeric}}},
		{name: "r", unique: []string{"id"}, columns: []column{{"id", integer}, {"name", word}, {"price", numeric}, {"m", mood}, {"n", integer}}},
		{name: "r2", unique: []string{"id"}, columns: []column{{"k", integer}, {"id", integer}, {"s", word}, {"b", boolean}}},
		{name: "h", unique: []string{"id"}, columns: []column{{"id", integer}, {"k", integer}, {"n", integer}, {"s", word}, {"x", numeric}, {"ts", moment}}},
		{name: "h2", unique: []string{"id"}, columns: []column{{"id", integer}, {"n", integer}, {"s", word}}},
	}
	colocated = tables[:6]
)

// literals of each kind. Some are in the data, some are not.
var literals = map[string][]string{
	integer:   {"0", "1", "2", "3", "5", "7", "10", "-1", "-2", "20", "40"},
	numeric:   {"0.5", "1.25", "2.00", "5.5", "10", "-3.75", "0"},
	word:      {"'apple'", "'Apple'", "'zebra'", "'a b'", "''", "'ß'", "'10'", "'M'", "'_'"},
	boolean:   {"true", "false"},
	day:       {"date '2024-01-05'", "date '2024-01-20'", "date '2024-02-03'"},
	moment:    {"timestamptz '2024-03-31 00:00+00'", "timestamptz '2024-03-31 03:30+02'", "timestamptz '2024-04-01 12:00-05'"},
	float:     {"0.5::float8", "1.25::float8", "3::float8"},
	uuid:      {"'c4ca4238-a0b9-2382-0dcc-509a6f75849b'::uuid", "'c81e728d-9d4c-2f63-6f06-7f89cc14862c'::uuid"},
	mood:      {"'ok'::mood", "'happy'::mood"},
	document:  {`'{"n": 1}'::jsonb`, `'[1, 0]'::jsonb`},
	integers:  {"array[1, 2]", "'{1,NULL,2}'::int4[]"},
	words:     {"array['apple', 'zebra']"},
	span:      {"interval '1 day'", "interval '3 hours'", "interval '1 mon'"},
	bytes:     {`'\x0017'::bytea`},
	interval:  {"int4range(1, 4)", "'empty'::int4range"},
	composite: {"row(1, 'zebra')::spot"},
}

// parameters are the kinds that a literal may be given as $n, and the types declared.
var parameters = map[string][]string{
	integer: {"int4", "int8", "unknown"}, numeric: {"numeric", "unknown"}, word: {"text", "unknown"}, boolean: {"bool"}, day: {"date"}, moment: {"timestamptz"},
}
