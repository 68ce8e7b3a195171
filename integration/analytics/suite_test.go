package analytics

import (
	"embed"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

//go:embed testdata
var files embed.FS

// suite is a schema, its rows and the questions about them.
type suite struct {
	name   string
	tables func(scale int) []table
}

var suites = []suite{{"wholesale", wholesale}, {"retail", retail}}

// layouts are the ways to place a suite's tables over the shards.
var layouts = []string{"together", "apart"}

func (s suite) read(t testing.TB, file string) string {
	t.Helper()
	text, err := files.ReadFile(path.Join("testdata", s.name, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// query is one question.
type query struct{ name, title, sql string }

var heading = regexp.MustCompile(`(?m)^-- ([a-z]\d\d): (.*)$`)

func (s suite) queries(t testing.TB) []query {
	t.Helper()
	text := s.read(t, "queries.sql")
	heads := heading.FindAllStringSubmatchIndex(text, -1)
	var list []query
	for i, h := range heads {
		end := len(text)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		q := query{text[h[2]:h[3]], text[h[4]:h[5]], strings.TrimSuffix(strings.TrimSpace(text[h[1]:end]), ";")}
		if slices.ContainsFunc(list, func(o query) bool { return o.name == q.name }) {
			t.Fatalf("%s: two queries %s", s.name, q.name)
		}
		list = append(list, q)
	}
	return list
}

// statements are those of a file without literals that hold semicolons.
func statements(text string) []string {
	var list []string
	for s := range strings.SplitSeq(text, ";\n") {
		if s = strings.TrimSpace(s); s != "" {
			list = append(list, s)
		}
	}
	return list
}

// TestShapes holds the suites to their size.
func TestShapes(t *testing.T) {
	for _, s := range suites {
		want := map[string]int{"wholesale": 22, "retail": 30}[s.name]
		if n := len(s.queries(t)); n < want {
			t.Errorf("%s has %d queries, want %d", s.name, n, want)
		}
	}
}
