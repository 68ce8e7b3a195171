package integration

import (
	"bytes"
	"context"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pmezard/go-difflib/difflib"

	"weft/integration/harness"
	"weft/pgserver/pgtest"
)

// output is what a program said.
type output struct {
	stdout, stderr string
	err            error
}

// program runs one of PostgreSQL's client programs against a target. Those of
// the server's own version are used, because pg_dump refuses a newer server.
func program(t *testing.T, target *harness.Target, stdin, name string, args ...string) output {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), pgtest.Patience)
	defer stop()
	cmd := exec.CommandContext(ctx, target.Home.Config().Install.Program(name), args...)
	cmd.Env = target.Env()
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	err := cmd.Run()
	return output{stdout.String(), stderr.String(), err}
}

// must is program for those that have to succeed silently.
func must(t *testing.T, target *harness.Target, stdin, name string, args ...string) string {
	t.Helper()
	out := program(t, target, stdin, name, args...)
	if out.err != nil {
		t.Fatalf("%s on %s: %v\n%s%s", name, target.Name, out.err, out.stdout, out.stderr)
	}
	return out.stdout
}

// sameText fails with a readable difference.
func sameText(t *testing.T, what, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	diff, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(want), B: difflib.SplitLines(got), FromFile: "postgres", ToFile: "weft", Context: 3,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Errorf("%s differs:\n%s", what, diff)
}
