package catalog

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// source is a function with what weft knows of its body.
type source struct {
	function  *Function
	language  string
	aggregate bool
	extension string
	body      string
	create    string // for PL/pgSQL: a statement that makes the function
	// parsed: PostgreSQL keeps the body as a tree, not as text. What the body names
	// comes from the tree or from pg_depend.
	parsed bool
	// runs: the function may run SQL that is not in its text, or is in a language that
	// weft does not read.
	runs     bool
	mentions []Name
	writes   []Name
	calls    []string // names of functions
	// operators are the names of the operators in the body.
	operators []string

	notifies, locks, ddl bool
}

// runners are the built-in functions that run an SQL text, or read a table by a name,
// that they are given.
var runners = []string{
	"cursor_to_xml", "cursor_to_xmlschema",
	"database_to_xml", "database_to_xml_and_xmlschema", "database_to_xmlschema",
	"query_to_xml", "query_to_xml_and_xmlschema", "query_to_xmlschema",
	"schema_to_xml", "schema_to_xml_and_xmlschema", "schema_to_xmlschema",
	"table_to_xml", "table_to_xml_and_xmlschema", "table_to_xmlschema",
	"ts_rewrite", "ts_stat",
}

// reachers are the known extensions whose C functions run SQL or read tables.
var reachers = []string{
	"adminpack", "amcheck", "autoinc", "citus", "dblink", "file_fdw", "pageinspect", "pg_cron", "pg_freespacemap",
	"pg_prewarm", "pg_surgery", "pg_visibility", "pg_walinspect", "pgrowlocks", "pgstattuple", "plproxy",
	"postgres_fdw", "refint", "tablefunc", "timescaledb", "xml2",
}

// vocabulary holds the names that a body may mention.
type vocabulary struct {
	relations map[string][]Name
	functions map[string][]*source
	// odd are the names of relations and functions that are not plain words.
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

// look reads the body of one function and enters what it finds into the source.
func (v *vocabulary) look(s *source) {
	s.function.Program = s.language == "plpgsql" || s.language == "sql"
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
	if s.language == "plpgsql" {
		s.function.Body = s.body
	}
	b := readBody(s.body)
	s.runs = s.runs || b.dynamic
	// A body that cannot be parsed may use every operator that could be in its text, and
	// every command.
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
	// How often a name's quotes are doubled depends on how many strings are around it,
	// so names are compared without quotes.
	text := unquoted.Replace(s.body)
	for _, name := range v.odd {
		if strings.Contains(text, unquoted.Replace(name)) {
			v.note(s, name, seen)
		}
	}
}

var unquoted = strings.NewReplacer(`"`, "", `'`, "")

// note enters everything that a word of a body may name.
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

// builtin notes what the built-in function of this name does besides returning a result.
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

// plainWord reports whether a name is found when a text is split into words.
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
