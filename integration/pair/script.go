package pair

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Section is what a script's lines up to the next @ are.
type Section struct {
	Kind       string // setup, weft, data, route, error, maybe, simple, conn, mask, tables
	Arg        string
	Statements []Statement
}

// Statement is one statement with its sets of parameters; without any it has none.
type Statement struct {
	SQL  string
	Sets [][]Param
	Pos  string // file:line
}

// kinds are the sections that exist, and whether they hold statements.
var kinds = map[string]bool{
	"setup": true, "weft": true, "plain": true, "data": true, "route": true, "error": true, "maybe": true, "simple": true,
	"conn": false, "mask": false, "tables": false,
}

// ReadScript reads a file of testdata and what it includes.
func ReadScript(t testing.TB, name string) []Section {
	t.Helper()
	file := filepath.Join("testdata", name+".sql")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []Section
	var sql strings.Builder
	start := 0
	var last Section
	for n, line := range strings.Split(string(text), "\n") {
		pos := fmt.Sprintf("%s:%d", file, n+1)
		trimmed := strings.TrimSpace(line)
		open := sql.Len() > 0
		switch {
		case !open && (trimmed == "" || strings.HasPrefix(trimmed, "#")):
		case !open && strings.HasPrefix(trimmed, "@"):
			kind, arg, _ := strings.Cut(trimmed[1:], " ")
			if kind == "include" {
				out = append(out, ReadScript(t, arg)...)
				continue
			}
			if _, ok := kinds[kind]; !ok {
				t.Fatalf("%s: unknown section %s", pos, kind)
			}
			out = append(out, Section{Kind: kind, Arg: arg})
			if kinds[kind] {
				last = Section{Kind: kind, Arg: arg}
			} else if last.Kind != "" {
				out = append(out, last) // it goes on as before
			}
		case !open && strings.HasPrefix(trimmed, "-- ") && len(out) > 0 && len(out[len(out)-1].Statements) > 0:
			list := out[len(out)-1].Statements
			list[len(list)-1].Sets = append(list[len(list)-1].Sets, readParams(t, pos, trimmed[3:]))
		case len(out) == 0 || !kinds[out[len(out)-1].Kind]:
			t.Fatalf("%s: a statement outside a section that holds statements", pos)
		default:
			if !open {
				start = n + 1
			} else {
				sql.WriteByte('\n')
			}
			sql.WriteString(line)
			if !strings.HasSuffix(trimmed, ";") {
				continue
			}
			s := &out[len(out)-1]
			s.Statements = append(s.Statements, Statement{SQL: strings.TrimSuffix(strings.TrimSpace(sql.String()), ";"), Pos: fmt.Sprintf("%s:%d", file, start)})
			sql.Reset()
		}
	}
	if sql.Len() > 0 {
		t.Fatalf("%s:%d: a statement without end", file, start)
	}
	return out
}

func readParams(t testing.TB, pos, line string) []Param {
	t.Helper()
	var out []Param
	for _, p := range strings.Split(line, " | ") {
		typ, text, ok := strings.Cut(strings.TrimLeft(p, " "), ":")
		if _, known := TypeOIDs[typ]; !ok || !known {
			t.Fatalf("%s: %q is not type:value", pos, p)
		}
		if text == "NULL" {
			out = append(out, Param{Type: typ})
		} else {
			out = append(out, Param{typ, &text})
		}
	}
	return out
}
