package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// dashboard is what a test wants to know of grafana.json.
type dashboard struct {
	Panels []struct {
		ID      int
		Title   string
		GridPos struct{ X, Y, W, H int }
		Targets []struct{ Expr string }
	}
}

// Every expression of the dashboard is PromQL, as far as promtool is there to say
// so. That its metrics exist is tested where there is a proxy: in integration.
func TestDashboard(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(read(t, "grafana.json")), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Panels) < 10 {
		t.Fatalf("%d panels", len(d.Panels))
	}
	rules := "groups:\n- name: dashboard\n  rules:\n"
	seen := map[string]bool{}
	for i, p := range d.Panels {
		place := fmt.Sprint(p.GridPos.X, " ", p.GridPos.Y)
		if p.ID != i+1 || p.Title == "" || seen[place] || seen[p.Title] || len(p.Targets) == 0 {
			t.Errorf("panel %d %q at %s", p.ID, p.Title, place)
		}
		seen[place], seen[p.Title] = true, true
		for j, q := range p.Targets {
			expr := strings.ReplaceAll(q.Expr, "$__rate_interval", "5m")
			rules += fmt.Sprintf("  - record: panel:%d:%d\n    expr: %q\n", p.ID, j, expr)
		}
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed: the expressions are not parsed")
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "check", "rules", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
