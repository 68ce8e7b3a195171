package selects

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestCommands plays dialogues with commands around queries over several shards:
// cursors, new tables, materialized views. A file has dialogues with empty lines
// between them, a statement on each line; parameters follow ` -- ` as in other
// scripts. What a dialogue leaves behind is undone by its last lines.
func TestCommands(t *testing.T) {
	files, err := filepath.Glob("testdata/command/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, s := range []setting{settings[0], settings[2]} {
		t.Run(s.name, func(t *testing.T) {
			w := open(t, s)
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				name := strings.TrimSuffix(filepath.Base(file), ".sql")
				for _, m := range pair.Modes {
					t.Run(name+"/"+string(m), func(t *testing.T) {
						for _, d := range strings.Split(strings.TrimSpace(string(text)), "\n\n") {
							w.converse(t, m, d)
						}
					})
				}
			}
		})
	}
}

// converse plays one dialogue.
func (w *world) converse(t *testing.T, m pair.Mode, dialogue string) {
	t.Helper()
	for _, line := range strings.Split(dialogue, "\n") {
		sql, args, _ := strings.Cut(line, " -- ")
		if strings.HasPrefix(line, "#") {
			continue
		}
		var set []pair.Param
		for _, a := range strings.Fields(args) {
			typ, value, _ := strings.Cut(a, ":")
			set = append(set, pair.Param{Type: typ, Text: &value})
		}
		got := w.Weft.Ask(m, sql, set, nil)
		want := w.Plain.Ask(m, sql, set, nil)
		fetch := strings.HasPrefix(strings.ToLower(sql), "fetch")
		if fetch {
			unnamed(&want)
			unnamed(&got)
		}
		if diff := pair.Diff(want, got, fetch || pair.Ordered(sql)); diff != "" {
			t.Errorf("%s\n  %s\n  weft: %s\nin\n%s", line, diff, got.Message, dialogue)
			break
		}
	}
	for _, p := range []*pair.Peer{w.Weft, w.Plain} {
		p.Must(t, "rollback")
	}
}

var origin = regexp.MustCompile(` of \S*\.\d+ `)

// unnamed takes away which table a column is from: a cursor over the rows of
// several shards has none.
func unnamed(a *pair.Answer) {
	for i := range a.Results {
		for j, f := range a.Results[i].Fields {
			a.Results[i].Fields[j] = origin.ReplaceAllString(f, " ")
		}
	}
}
