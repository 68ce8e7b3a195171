package deploy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// TestBackup: every shard of docker-compose.yml archives its WAL under a stanza of its name, with the settings that it has without backups, and
// the image has what the command needs.
func TestBackup(t *testing.T) {
	base, _, cluster := load(t)
	var c compose
	if err := yaml.Unmarshal([]byte(read(t, "docker-compose.backup.yml")), &c); err != nil {
		t.Fatal(err)
	}
	for _, sh := range cluster.Shards {
		s, ok := c.Services[sh.Name]
		if !ok {
			t.Errorf("%s has no backups", sh.Name)
			continue
		}
		env := s.Environment
		if env["PGBACKREST_STANZA"] != sh.Name || env["PGBACKREST_REPO1_PATH"] != "/var/lib/pgbackrest" || env["PGBACKREST_PG1_PATH"] != "/var/lib/postgresql/data" {
			t.Errorf("%s: %v", sh.Name, env)
		}
		if !slices.Contains(s.Volumes, "backups:/var/lib/pgbackrest") || !slices.Contains(base.Services[sh.Name].Volumes, sh.Name+":/var/lib/postgresql/data") {
			t.Errorf("%s: volumes %v", sh.Name, s.Volumes)
		}
		for _, arg := range base.Services[sh.Name].Command {
			if !slices.Contains(s.Command, arg) {
				t.Errorf("%s: the command lacks %s", sh.Name, arg)
			}
		}
		for _, arg := range []string{"archive_mode=on", "archive_command=pgbackrest archive-push %p"} {
			if !slices.Contains(s.Command, arg) {
				t.Errorf("%s: the command lacks %s", sh.Name, arg)
			}
		}
	}
	for name := range c.Services {
		if _, ok := base.Services[name]; !ok && name != "points" {
			t.Errorf("docker-compose.yml has no %s", name)
		}
	}
	if got := strings.Join(c.Services["points"].Command, " "); got != "backup point -c /etc/weft/weft.yaml --every 15m --manifest /var/lib/weft-points" {
		t.Errorf("points are made by %s", got)
	}
	if !slices.Contains(c.Services["points"].Volumes, "points:/var/lib/weft-points") {
		t.Error("manifests are lost with the container")
	}
	if !strings.Contains(read(t, "Dockerfile.pgbackrest"), "install -y --no-install-recommends pgbackrest") {
		t.Error("the image has no pgbackrest")
	}
}

// TestHelmBackup: with a schedule each shard of CloudNativePG has base backups and an archive, and points are made if the values say how often.
func TestHelmBackup(t *testing.T) {
	plain := render(t, func(v map[string]any) { v["shards"].(map[string]any)["operator"] = "cnpg" })
	if plain["ScheduledBackup"] != nil || plain["Deployment shop-weft-points"] != nil {
		t.Error("backups that nobody asked for")
	}
	objects := render(t, func(v map[string]any) {
		shards := v["shards"].(map[string]any)
		shards["operator"] = "cnpg"
		b := shards["backup"].(map[string]any)
		b["schedule"] = "0 0 2 * * *"
		b["objectStore"] = map[string]any{"destinationPath": "s3://backups/weft"}
		v["points"] = map[string]any{"every": "15m", "strict": true}
	})
	for i, suffix := range []string{"", " shop-shard-1"} {
		name := fmt.Sprint("shop-shard-", i)
		made, planned := objects["Cluster"+suffix], objects["ScheduledBackup"+suffix]
		if at(t, made, "spec", "backup", "barmanObjectStore", "destinationPath") != "s3://backups/weft" {
			t.Errorf("%s has no archive", name)
		}
		if at(t, planned, "spec", "cluster", "name") != name || at(t, made, "metadata", "name") != name || at(t, planned, "spec", "schedule") != "0 0 2 * * *" {
			t.Errorf("%s: %v", name, planned)
		}
	}
	found := 0
	for kind, o := range objects {
		if !strings.HasPrefix(kind, "Deployment") || at(t, o, "metadata", "name") != "shop-weft-points" {
			continue
		}
		found++
		args := fmt.Sprint(at(t, o, "spec", "template", "spec", "containers", 0, "args"))
		if args != "[backup point -c /etc/weft/weft.yaml --every 15m --manifest /points --strict]" {
			t.Errorf("points are made by %s", args)
		}
		if at(t, o, "spec", "selector", "matchLabels", "app.kubernetes.io/name") == "weft" {
			t.Error("the service of the proxies would find the pod")
		}
	}
	if found != 1 {
		t.Errorf("%d deployments make points", found)
	}
}
