package catalog

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// source is a function with what is known of its body.
type source struct {
	function  *Function
	language  string
	aggregate bool
	extension string
	body      string
	create    string // a statement that makes it, for PL/pgSQL
	// parsed: the body is kept as a tree, and what it names is in mentions and
	// calls; so it is for an aggregate.
	parsed bool
	// runs: it calls a built-in function that runs SQL it is given.
	runs     bool
	mentions []Name
	writes   []Name
	calls    []string // names of functions
	// operators are the names of those in its text.
	operators []string

	notifies, locks, ddl bool
}

// runners are built-in functions that run SQL, or read tables, by a text they
// are given.
var runners = []string{
	"cursor_to_xml", "cursor_to_xmlschema",
	"database_to_xml", "database_to_xml_and_xmlschema", "database_to_xmlschema",
	"query_to_xml", "query_to_xml_and_xmlschema", "query_to_xmlschema",
	"schema_to_xml", "schema_to_xml_and_xmlschema", "schema_to_xmlschema",
	"table_to_xml", "table_to_xml_and_xmlschema", "table_to_xmlschema",
	"ts_rewrite", "ts_stat",
}

// reachers are extensions whose C functions run SQL or read tables.
var reachers = []string{
	"adminpack", "amcheck", "autoinc", "citus", "dblink", "file_fdw", "pageinspect", "pg_cron", "pg_freespacemap",
	"pg_prewarm", "pg_surgery", "pg_visibility", "pg_walinspect", "pgrowlocks", "pgstattuple", "plproxy",
	"postgres_fdw", "refint", "tablefunc", "timescaledb", "xml2",
}

// vocabulary is the names that a body may mention.
type vocabulary struct {
	relations map[string][]Name
	functions map[string][]*source
	// odd are relations and functions whose names are no plain words.
	odd []string
}

func newVocabulary(sources []*source, relations []*Relation) *vocabulary {
	v := &vocabulary{relations: map[string][]Name{}, functions: map[string][]*source{}}
	if len(sources) == 0 {
		return v
	}
	for _, r := range relations {
		if r.System() || r.Kind == Index || r.Kind == PartitionedIndex || r.Kind == Composite {
			continue
		}
		name := r.Name.Name
		if v.relations[name] == nil && !plainWord(name) {
			v.odd = append(v.odd, name)
		}
		v.relations[name] = append(v.relations[name], r.Name)
	}
	for _, s := range sources {
		name := s.function.Name.Name
		if v.functions[name] == nil && v.relations[name] == nil && !plainWord(name) {
			v.odd = append(v.odd, name)
		}
		v.functions[name] = append(v.functions[name], s)
	}
	return v
}

// look reads one body.
func (v *vocabulary) look(s *source) {
	switch {
	case s.aggregate || s.parsed:
		return
	case s.language == "sql" || s.language == "plpgsql":
	case s.extension != "" && (s.language == "c" || s.language == "internal"):
		s.runs = slices.Contains(reachers, s.extension)
		return
	default:
		s.runs = true
		return
	}
	if r := readTree(s.language, s.create, s.body); r.ok {
		v.tree(s, r)
		return
	}
	b := readBody(s.body)
	s.runs = s.runs || b.dynamic
	// What stands in a body that cannot be parsed may be any operator, and any
	// command.
	s.operators = operatorsIn(s.body)
	s.ddl = MayCommand(s.body)
	seen := map[string]bool{}
	for word := range b.words {
		v.note(s, word, seen)
		v.note(s, lower(word), seen)
		if len(word) >= nameLength {
			v.note(s, cut(lower(word), nameLength-1), seen)
			v.note(s, cut(word, nameLength-1), seen)
		}
	}
	if len(v.odd) == 0 {
		return
	}
	// How often quotes are doubled depends on how deep the name stands in
	// strings, so none count.
	text := unquoted.Replace(s.body)
	for _, name := range v.odd {
		if strings.Contains(text, unquoted.Replace(name)) {
			v.note(s, name, seen)
		}
	}
}

var unquoted = strings.NewReplacer(`"`, "", `'`, "")

func (v *vocabulary) note(s *source, name string, seen map[string]bool) {
	if seen[name] {
		return
	}
	seen[name] = true
	s.mentions = append(s.mentions, v.relations[name]...)
	if v.functions[name] != nil {
		s.calls = append(s.calls, name)
	}
	s.builtin(name)
}

// builtin notes what a built-in function does beyond its result.
func (s *source) builtin(name string) {
	s.runs = s.runs || slices.Contains(runners, name)
	s.notifies = s.notifies || name == "pg_notify" || name == "notify"
	s.locks = s.locks || strings.Contains(name, "advisory")
}

// nameLength is PostgreSQL's NAMEDATALEN: a name has at most one byte less.
const nameLength = 64

// cut shortens a name to at most n bytes without splitting a character.
func cut(name string, n int) string {
	if len(name) <= n {
		return name
	}
	for n > 0 && !utf8.RuneStart(name[n]) {
		n--
	}
	return name[:n]
}

// plainWord reports whether a name is found by cutting a text into words.
func plainWord(name string) bool {
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		return false
	}
	for i := range len(name) {
		if !wordByte(name[i]) {
			return false
		}
	}
	return true
}

func wordByte(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= 0x80
}

// lower is PostgreSQL's case folding of identifiers.
func lower(s string) string {
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'Z' {
			b := []byte(s)
			for ; i < len(b); i++ {
				if b[i] >= 'A' && b[i] <= 'Z' {
					b[i] |= 0x20
				}
			}
			return string(b)
		}
	}
	return s
}

// Dynamic reports whether a PL/pgSQL body runs SQL that it puts together at run time, so that weft
// cannot tell what the body reads.
func Dynamic(body string) bool { return readBody(body).dynamic }
