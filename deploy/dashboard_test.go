package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
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

// Every alert says what is wrong, and one that is about a shard or a server names it.
func TestAlerts(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations struct{ Summary string }
			}
		}
	}
	if err := yaml.Unmarshal([]byte(read(t, "alerts.yml")), &file); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || seen[r.Alert] || r.Expr == "" || r.Annotations.Summary == "" {
				t.Errorf("alert %q: %+v", r.Alert, r)
			}
			seen[r.Alert] = true
			for _, by := range regexp.MustCompile(`by \(([a-z, ]*)\)`).FindAllStringSubmatch(r.Expr, -1) {
				for label := range strings.SplitSeq(by[1], ", ") {
					if label != "le" && !strings.Contains(r.Annotations.Summary, "{{ $labels."+label+" }}") {
						t.Errorf("%s does not name its %s: %s", r.Alert, label, r.Annotations.Summary)
					}
				}
			}
		}
	}
	for _, name := range []string{"WeftSeeking", "WeftSplit", "WeftStalePrimary", "WeftLag", "WeftInDoubt", "WeftServerAway"} {
		if !seen[name] {
			t.Errorf("there is no alert %s", name)
		}
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool is not installed: the expressions are not parsed")
	}
	if out, err := exec.Command("promtool", "check", "rules", "alerts.yml").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
