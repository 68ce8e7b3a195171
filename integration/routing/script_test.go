package routing

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// section is what a script's lines up to the next @ are.
type section struct {
	kind       string // setup, weft, data, route, error, maybe, simple, conn, mask, tables
	arg        string
	statements []statement
}

// statement is one statement with its sets of parameters; without any it has none.
type statement struct {
	sql  string
	sets [][]param
	pos  string // file:line
}

// param is one parameter: a type's name, or unknown, and its text; nil is NULL.
type param struct {
	typ  string
	text *string
}

// kinds are the sections that exist, and whether they hold statements.
var kinds = map[string]bool{
	"setup": true, "weft": true, "data": true, "route": true, "error": true, "maybe": true, "simple": true,
	"conn": false, "mask": false, "tables": false,
}

// readScript reads a file of testdata and what it includes.
func readScript(t *testing.T, name string) []section {
	t.Helper()
	file := filepath.Join("testdata", name+".sql")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []section
	var sql strings.Builder
	start := 0
	var last section
	for n, line := range strings.Split(string(text), "\n") {
		pos := fmt.Sprintf("%s:%d", file, n+1)
		trimmed := strings.TrimSpace(line)
		open := sql.Len() > 0
		switch {
		case !open && (trimmed == "" || strings.HasPrefix(trimmed, "#")):
		case !open && strings.HasPrefix(trimmed, "@"):
			kind, arg, _ := strings.Cut(trimmed[1:], " ")
			if kind == "include" {
				out = append(out, readScript(t, arg)...)
				continue
			}
			if _, ok := kinds[kind]; !ok {
				t.Fatalf("%s: unknown section %s", pos, kind)
			}
			out = append(out, section{kind: kind, arg: arg})
			if kinds[kind] {
				last = section{kind: kind, arg: arg}
			} else if last.kind != "" {
				out = append(out, last) // it goes on as before
			}
		case !open && strings.HasPrefix(trimmed, "-- ") && len(out) > 0 && len(out[len(out)-1].statements) > 0:
			list := out[len(out)-1].statements
			list[len(list)-1].sets = append(list[len(list)-1].sets, readParams(t, pos, trimmed[3:]))
		case len(out) == 0 || !kinds[out[len(out)-1].kind]:
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
			s.statements = append(s.statements, statement{sql: strings.TrimSuffix(strings.TrimSpace(sql.String()), ";"), pos: fmt.Sprintf("%s:%d", file, start)})
			sql.Reset()
		}
	}
	if sql.Len() > 0 {
		t.Fatalf("%s:%d: a statement without end", file, start)
	}
	return out
}

func readParams(t *testing.T, pos, line string) []param {
	t.Helper()
	var out []param
	for _, p := range strings.Split(line, " | ") {
		typ, text, ok := strings.Cut(strings.TrimLeft(p, " "), ":")
		if _, known := typeOIDs[typ]; !ok || !known {
			t.Fatalf("%s: %q is not type:value", pos, p)
		}
		if text == "NULL" {
			out = append(out, param{typ: typ})
		} else {
			out = append(out, param{typ, &text})
		}
	}
	return out
}

// typeOIDs are the types that scripts and the generator declare parameters as.
var typeOIDs = map[string]uint32{
	"unknown": 0, "bool": 16, "int8": 20, "int2": 21, "int4": 23, "text": 25, "float8": 701, "bpchar": 1042,
	"varchar": 1043, "date": 1082, "timestamp": 1114, "timestamptz": 1184, "numeric": 1700, "uuid": 2950,
	"jsonb": 3802, "int4[]": 1007, "text[]": 1009, "int8[]": 1016, "uuid[]": 2951, "numeric[]": 1231,
}
