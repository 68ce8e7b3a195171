package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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
		"toString":  func(v any) string { return fmt.Sprint(v) },
		"quote":     strconv.Quote,
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
				if objects[kind] != nil { // several of a kind: by their names, too
					objects[fmt.Sprint(kind, " ", at(t, object, "metadata", "name"))] = object
					continue
				}
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
	if _, err := fmt.Sscan(fmt.Sprint(at(t, pod, "terminationGracePeriodSeconds")), &grace); err != nil || float64(grace) <= (cfg.Limits.DrainTimeout+cfg.Limits.DrainDelay).Seconds() {
		t.Errorf("%d s of grace, limits.drain_delay and limits.drain_timeout are %s and %s", grace, cfg.Limits.DrainDelay, cfg.Limits.DrainTimeout)
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

// parsed returns the files of the chart as weft reads them.
func parsed(t *testing.T, objects map[string]map[string]any) (config.Config, config.Cluster) {
	t.Helper()
	cfg, err := config.Parse("weft.yaml", []byte(at(t, objects["ConfigMap"], "data", "weft.yaml").(string)))
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := config.ParseCluster("cluster.yaml", []byte(at(t, objects["ConfigMap"], "data", "cluster.yaml").(string)))
	if err != nil {
		t.Fatal(err)
	}
	return cfg, cluster
}

// mounted returns where a pod's volumes are, by the secret or the config map that each is of.
func mounted(t *testing.T, pod any) map[string]string {
	t.Helper()
	paths, out := map[any]string{}, map[string]string{}
	for _, m := range at(t, pod, "containers", 0, "volumeMounts").([]any) {
		paths[at(t, m, "name")] = at(t, m, "mountPath").(string)
	}
	for _, v := range at(t, pod, "volumes").([]any) {
		volume, name := v.(map[string]any), at(t, v, "name")
		if paths[name] == "" {
			t.Errorf("volume %v is not mounted", name)
		}
		switch {
		case volume["secret"] != nil:
			out["secret "+at(t, v, "secret", "secretName").(string)] = paths[name]
		case volume["configMap"] != nil:
			out["configMap "+at(t, v, "configMap", "name").(string)] = paths[name]
		}
	}
	return out
}

// TestHelmPlaces: certificates from secrets, TLS with clients and with shards, pull secrets, and where pods run.
func TestHelmPlaces(t *testing.T) {
	objects := render(t, func(v map[string]any) {
		v["files"] = []any{map[string]any{"name": "server", "secret": "weft-tls"}, map[string]any{"name": "ca", "configMap": "shards-ca"}}
		v["imagePullSecrets"] = []any{map[string]any{"name": "registry"}}
		v["affinity"] = map[string]any{"nodeAffinity": map[string]any{"x": 1}}
		v["nodeSelector"] = map[string]any{"disk": "fast"}
		v["tolerations"] = []any{map[string]any{"key": "weft"}}
		v["podAnnotations"] = map[string]any{"team": "db"}
		v["preStop"] = []any{"sleep", "5"}
		v["service"] = map[string]any{"type": "LoadBalancer", "port": 5432, "annotations": map[string]any{"internal": "true"}}
		v["config"].(map[string]any)["tls"] = map[string]any{"cert": "/etc/weft-files/server/tls.crt", "key": "/etc/weft-files/server/tls.key"}
		v["cluster"] = map[string]any{"shards": []any{map[string]any{
			"name": "a", "hosts": []any{"a:5432"}, "options": map[string]any{"sslmode": "verify-full", "sslrootcert": "/etc/weft-files/ca/ca.crt"},
		}}}
	})
	cfg, cluster := parsed(t, objects)
	pod := at(t, objects["Deployment"], "spec", "template", "spec")
	job := at(t, objects["Job"], "spec", "template", "spec")
	for _, p := range []any{pod, job} {
		files := mounted(t, p)
		if dir := files["secret weft-tls"]; !strings.HasPrefix(cfg.TLS.Cert, dir+"/") || !strings.HasPrefix(cfg.TLS.Key, dir+"/") || dir == "" {
			t.Errorf("the certificate for clients is at %s, the secret at %q", cfg.TLS.Cert, dir)
		}
		if dir := files["configMap shards-ca"]; dir == "" || !strings.HasPrefix(cluster.Shards[0].Options["sslrootcert"], dir+"/") {
			t.Errorf("the authority of shards is at %s, the config map at %q", cluster.Shards[0].Options["sslrootcert"], dir)
		}
		if name := at(t, p, "imagePullSecrets", 0, "name"); name != "registry" {
			t.Errorf("pull secret %v", name)
		}
	}
	for _, path := range [][]any{
		{"affinity", "nodeAffinity", "x"},
		{"nodeSelector", "disk"},
		{"tolerations", 0, "key"},
		{"containers", 0, "lifecycle", "preStop", "exec", "command", 1},
	} {
		at(t, pod, path...)
	}
	if team := at(t, objects["Deployment"], "spec", "template", "metadata", "annotations", "team"); team != "db" {
		t.Errorf("annotation %v", team)
	}
	if v := at(t, objects["Service"], "metadata", "annotations", "internal"); v != "true" {
		t.Errorf("annotation of the service %v", v)
	}
}

// TestHelmCNPG: shards of CloudNativePG, which weft finds by the service that the chart asks for, over TLS.
func TestHelmCNPG(t *testing.T) {
	if render(t, nil)["Cluster"] != nil {
		t.Error("shards that nobody asked for")
	}
	objects := render(t, func(v map[string]any) { v["shards"].(map[string]any)["operator"] = "cnpg" })
	cfg, cluster := parsed(t, objects)
	pod := at(t, objects["Deployment"], "spec", "template", "spec")
	if len(cluster.Shards) != 2 {
		t.Fatalf("shards %+v", cluster.Shards)
	}
	proxies := 0
	if _, err := fmt.Sscan(fmt.Sprint(at(t, objects["Deployment"], "spec", "replicas")), &proxies); err != nil {
		t.Fatal(err)
	}
	for i, kind := range []string{"Cluster", "Cluster shop-shard-1"} {
		made, shard := objects[kind], cluster.Shards[i]
		if name := at(t, made, "metadata", "name"); name != "shop-"+shard.Name {
			t.Errorf("cluster %v for %s", name, shard.Name)
		}
		service := at(t, made, "spec", "managed", "services", "additional", 0, "serviceTemplate")
		if want := fmt.Sprintf("dns:%v:5432", at(t, service, "metadata", "name")); len(shard.Hosts) != 1 || shard.Hosts[0].Addr != want {
			t.Errorf("%s has hosts %v, the service is %s", shard.Name, shard.Hosts, want)
		}
		if ip := at(t, service, "spec", "clusterIP"); ip != "None" {
			t.Errorf("%s: the service has the address %v: weft would not see its servers", shard.Name, ip)
		}
		if need := cfg.Pool.MaxPerShard * proxies; number(t, made, "max_prepared_transactions") < need || number(t, made, "max_connections") <= need {
			t.Errorf("%s: the proxies may need %d connections and prepared transactions", shard.Name, need)
		}
		dir := mounted(t, pod)["secret shop-"+shard.Name+"-ca"]
		if shard.Options["sslmode"] != "verify-ca" || shard.Options["sslrootcert"] != dir+"/ca.crt" {
			t.Errorf("%s: options %v, the operator's authority is at %q", shard.Name, shard.Options, dir)
		}
		if n := fmt.Sprint(at(t, made, "spec", "postgresql", "synchronous", "number")); n != "1" {
			t.Errorf("%s: %s synchronous standbys", shard.Name, n)
		}
	}
}

// number returns a parameter of a cluster's PostgreSQL. Parameters are text.
func number(t *testing.T, cluster any, name string) int {
	t.Helper()
	n, err := strconv.Atoi(at(t, cluster, "spec", "postgresql", "parameters", name).(string))
	if err != nil {
		t.Error(err)
	}
	return n
}
