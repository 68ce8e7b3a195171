package selects

import (
	"path/filepath"
	"strings"
	"testing"

	"weft/integration/pair"
)

// TestScripts plays every script of testdata in every world, and in every mode in
// the first: how a statement is put does not depend on the shards.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.sql")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, s := range settings {
		t.Run(s.name, func(t *testing.T) {
			w := open(t, s)
			for _, file := range files {
				name := strings.TrimSuffix(filepath.Base(file), ".sql")
				if name == "schema" {
					continue
				}
				script := pair.ReadScript(t, name)
				w.load(t, script)
				modes := pair.Modes
				if s.name != settings[0].name {
					modes = []pair.Mode{pair.Simple, pair.Prepared}
				}
				for _, m := range modes {
					t.Run(name+"/"+string(m), func(t *testing.T) { w.play(t, m, script) })
				}
			}
		})
	}
}

// play puts a script's statements.
func (w *world) play(t *testing.T, m pair.Mode, script []pair.Section) {
	for _, s := range script {
		expect := s.Kind
		if s.Kind == "simple" {
			if m != pair.Simple {
				continue
			}
			expect = "route"
		}
		if expect != "route" && expect != "error" && expect != "maybe" {
			continue
		}
		for _, st := range s.Statements {
			sets := st.Sets
			if len(sets) == 0 {
				sets = [][]pair.Param{nil}
			}
			for _, set := range sets {
				w.expect(t, expect, st.Pos, question{mode: m, sql: st.SQL, set: set})
			}
		}
	}
}

func (w *world) expect(t *testing.T, expect, pos string, q question) {
	t.Helper()
	j := w.judge(q)
	asked := pair.Inline(q.sql, q.set)
	switch {
	case j.verdict == wrong || j.verdict == internal || j.verdict == slow:
		t.Errorf("%s: %s\n  %s", pos, asked, j.diff)
	case j.verdict == loose:
		t.Errorf("%s: %s\n  has no single answer: write it so that it has one\n  %s", pos, asked, j.diff)
	case j.verdict == refused && expect != "maybe":
		t.Errorf("%s: %s\n  refused: %s", pos, asked, j.got.Message)
	case expect == "error" && j.want.Code == "":
		t.Errorf("%s: %s\n  is meant to fail and does not", pos, asked)
	case expect != "error" && j.want.Code != "":
		t.Errorf("%s: %s\n  fails on both: %s %s", pos, asked, j.want.Code, j.want.Message)
	}
	if j.got.Code == "?????" {
		t.Fatalf("%s: %s: the connection is lost: %s", pos, asked, j.got.Message)
	}
}
