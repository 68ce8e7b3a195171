package wire_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/pmezard/go-difflib/difflib"

	"weft/integration/harness"
	"weft/integration/wire"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }

// TestPostgres plays every script against PostgreSQL: the transcripts in the
// files are its. With -rewrite they are written anew.
func TestPostgres(t *testing.T) {
	target := harness.Postgres(t)
	eachScript(t, func(t *testing.T, path string) {
		target.Reset(t)
		if !rewriting() {
			if diff := play(t, target, path); diff != "" {
				t.Errorf("%s: PostgreSQL itself says otherwise:\n%s", path, diff)
			}
			return
		}
		script := wire.NewScript(wireTarget(target))
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			out, err := script.Run(d)
			if err != nil {
				t.Errorf("%s: %v", d.Pos, err)
			}
			return out
		})
		if left := script.Close(); left != "" {
			t.Error(left)
		}
	})
}

func rewriting() bool {
	return datadrivenFlag("rewrite") == "true"
}

// eachScript runs f for every file under testdata, as a subtest named after it.
func eachScript(t *testing.T, f func(t *testing.T, path string)) {
	err := filepath.WalkDir("testdata", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || strings.HasPrefix(filepath.Base(path), "known") {
			return err
		}
		name, err := filepath.Rel("testdata", path)
		if err != nil {
			return err
		}
		t.Run(name, func(t *testing.T) { f(t, path) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func wireTarget(target *harness.Target) wire.Target {
	return wire.Target{
		Addr: target.Addr, User: "postgres", Database: harness.Database,
		Poll: func(ctx context.Context, query string) (bool, error) { return target.AdminBool(ctx, query) },
	}
}

// play runs a script to its end and returns the difference between the
// transcript in the file and the one that came, or "".
func play(t *testing.T, target *harness.Target, path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	script := wire.NewScript(wireTarget(target))
	var want, got strings.Builder
	broken := false
	datadriven.RunTestFromString(t, string(text), func(t *testing.T, d *datadriven.TestData) string {
		_, line, _ := strings.Cut(d.Pos, ":")
		head := fmt.Sprintf("%s:%s: %s\n", path, line, d.String())
		want.WriteString(head + d.Expected)
		if broken {
			return d.Expected // the rest of the diff says that it was not played
		}
		out, err := script.Run(d)
		if err != nil {
			out += "NOT PLAYED FURTHER: " + err.Error() + "\n"
			broken = true
		}
		got.WriteString(head + withRoutines(d.Expected, out))
		if strings.Contains(out, "TIMEOUT") && out != d.Expected {
			broken = true // out of step: every further command would wait as long
		}
		return d.Expected
	})
	got.WriteString(script.Close())
	if want.String() == got.String() {
		return ""
	}
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(want.String()), B: difflib.SplitLines(got.String()),
		FromFile: "want", ToFile: target.Name, Context: 4,
	})
	if err != nil {
		t.Fatal(err)
	}
	return diff
}

var routine = regexp.MustCompile(` R=\S+`)

// withRoutines forgives an error that weft raised itself for naming no routine:
// the field names a function in PostgreSQL's source. One that is there must be
// right, because then the error came from a server.
func withRoutines(want, got string) string {
	wantLines, gotLines := strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")
	for i := range min(len(wantLines), len(gotLines)) {
		if gotLines[i] == routine.ReplaceAllString(wantLines[i], "") {
			gotLines[i] = wantLines[i]
		}
	}
	return strings.Join(gotLines, "")
}

// TestWeft plays the same scripts against weft, which must not be told apart.
func TestWeft(t *testing.T) {
	if rewriting() {
		t.Skip("transcripts are taken from PostgreSQL, never from weft")
	}
	playAll(t, harness.Weft(t), knownDifferences(t, "known"))
}

// TestRouted plays them in a database with a declared table, where every
// statement is planned and BEGIN touches nobody.
func TestRouted(t *testing.T) {
	if rewriting() {
		t.Skip("transcripts are taken from PostgreSQL, never from weft")
	}
	known := knownDifferences(t, "known")
	maps.Copy(known, knownDifferences(t, "known_routed"))
	playAll(t, harness.Routed(t), known)
}

func playAll(t *testing.T, target *harness.Target, known map[string]string) {
	eachScript(t, func(t *testing.T, path string) {
		target.Reset(t)
		name := strings.TrimPrefix(filepath.ToSlash(path), "testdata/")
		diff := play(t, target, path)
		reason, isKnown := known[name]
		switch {
		case diff != "" && isKnown:
			t.Skipf("known to differ: %s\n%s", reason, diff)
		case diff != "":
			t.Errorf("weft answers differently:\n%s", diff)
		case isKnown:
			t.Errorf("weft now answers like PostgreSQL: take %s out of testdata/known", name)
		}
	})
	for name := range known {
		if _, err := os.Stat(filepath.Join("testdata", name)); err != nil {
			t.Errorf("testdata/known: %v", err)
		}
	}
}

// knownDifferences reads a file of testdata: a script's name and why weft does not
// answer like PostgreSQL yet, one a line.
func knownDifferences(t *testing.T, file string) map[string]string {
	text, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]string{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, _ := strings.Cut(line, " ")
		if reason = strings.TrimSpace(reason); reason == "" {
			t.Errorf("testdata/known: %s has no reason", name)
		}
		known[name] = reason
	}
	return known
}
