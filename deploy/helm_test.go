package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"

	"weft/config"
)

// render makes what Helm would make of the chart, as far as its templates go: they use
// few of Helm's functions.
func render(t *testing.T, change func(values map[string]any)) map[string]map[string]any {
	t.Helper()
	values, chart := map[string]any{}, map[string]any{}
	for file, into := range map[string]*map[string]any{"helm/values.yaml": &values, "helm/Chart.yaml": &chart} {
		if err := yaml.Unmarshal([]byte(read(t, file)), into); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
	if change != nil {
		change(values)
	}
	top := template.New("").Option("missingkey=error")
	top.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := top.ExecuteTemplate(&b, name, data)
			return b.String(), err
		},
		"nindent": func(n int, s string) string {
			pad := "\n" + strings.Repeat(" ", n)
			return pad + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", pad)
		},
		"toYaml": func(v any) (string, error) {
			b, err := yaml.Marshal(v)
			return strings.TrimRight(string(b), "\n"), err
		},
		"default": func(def, v any) any {
			if v == nil || v == "" {
				return def
			}
			return v
		},
		"sha256sum": func(s string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(s))) },
	})
	files, err := filepath.Glob("helm/templates/*")
	if err != nil || len(files) < 5 {
		t.Fatalf("templates: %q, %v", files, err)
	}
	for _, f := range files {
		if _, err := top.New(f).Parse(read(t, f)); err != nil {
			t.Fatal(err)
		}
	}
	data := map[string]any{
		"Values": values, "Release": map[string]any{"Name": "shop", "Revision": 3},
		"Chart": map[string]any{"AppVersion": chart["appVersion"]},
	}
	objects := map[string]map[string]any{}
	for _, f := range files {
		var b bytes.Buffer
		if err := top.ExecuteTemplate(&b, f, data); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(f, ".yaml") {
			continue
		}
		for doc := range strings.SplitSeq(b.String(), "\n---\n") {
			object := map[string]any{}
			if err := yaml.Unmarshal([]byte(doc), &object); err != nil {
				t.Fatalf("%s: %v\n%s", f, err, doc)
			}
			if kind, ok := object["kind"].(string); ok {
				objects[kind] = object
			}
		}
	}
	return objects
}

// at follows names and indices into an object.
func at(t *testing.T, v any, path ...any) any {
	t.Helper()
	for _, p := range path {
		switch k := p.(type) {
		case string:
			m, ok := v.(map[string]any)
			if !ok || m[k] == nil {
				t.Fatalf("no %v in %v", path, v)
			}
			v = m[k]
		case int:
			l, ok := v.([]any)
			if !ok || k >= len(l) {
				t.Fatalf("no %v in %v", path, v)
			}
			v = l[k]
		}
	}
	return v
}

func TestHelm(t *testing.T) {
	objects := render(t, nil)
	for _, kind := range []string{"ConfigMap", "Deployment", "Service", "PodDisruptionBudget", "Job"} {
		if objects[kind] == nil {
			t.Errorf("no %s", kind)
		}
	}
	if name := at(t, objects["Job"], "metadata", "name"); name != "shop-weft-apply-3" {
		t.Errorf("the job is %v: a job cannot be changed, so each release needs another", name)
	}
	if objects["PodMonitor"] != nil {
		t.Error("a PodMonitor that nobody asked for")
	}
	if render(t, func(v map[string]any) { v["podMonitor"] = true })["PodMonitor"] == nil {
		t.Error("no PodMonitor")
	}

	// Both files are such as weft reads.
	dir := t.TempDir()
	files := map[string]string{}
	for _, name := range []string{"weft.yaml", "cluster.yaml"} {
		files[name] = filepath.Join(dir, name)
		if err := os.WriteFile(files[name], []byte(at(t, objects["ConfigMap"], "data", name).(string)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cfg, err := config.Load(files["weft.yaml"])
	if err != nil {
		t.Fatal(err)
	}
	if cluster, err := config.LoadCluster(files["cluster.yaml"]); err != nil || len(cluster.Shards) != 2 {
		t.Errorf("cluster.yaml: %+v, %v", cluster, err)
	}

	pod := at(t, objects["Deployment"], "spec", "template", "spec")
	weft := at(t, pod, "containers", 0)
	if n := fmt.Sprint(at(t, objects["Deployment"], "spec", "replicas")); n != "2" {
		t.Errorf("%s replicas", n)
	}
	for i, addr := range []string{cfg.Listen, cfg.HTTP.Listen} {
		if port := fmt.Sprint(at(t, weft, "ports", i, "containerPort")); !strings.HasSuffix(addr, ":"+port) {
			t.Errorf("port %s, weft listens on %s", port, addr)
		}
	}
	var grace int
	if _, err := fmt.Sscan(fmt.Sprint(at(t, pod, "terminationGracePeriodSeconds")), &grace); err != nil || float64(grace) <= cfg.Limits.DrainTimeout.Seconds() {
		t.Errorf("%d s of grace, limits.drain_timeout is %s", grace, cfg.Limits.DrainTimeout)
	}
	// A Service and a budget that select no pod would be of no use.
	labels := fmt.Sprint(at(t, objects["Deployment"], "spec", "template", "metadata", "labels"))
	for _, selector := range []any{
		at(t, objects["Service"], "spec", "selector"),
		at(t, objects["PodDisruptionBudget"], "spec", "selector", "matchLabels"),
		at(t, objects["Deployment"], "spec", "selector", "matchLabels"),
	} {
		if fmt.Sprint(selector) != labels {
			t.Errorf("selector %v, the pods are %s", selector, labels)
		}
	}
	if image := at(t, weft, "image"); image != "weft:0.1.0" {
		t.Errorf("image %v", image)
	}
}
