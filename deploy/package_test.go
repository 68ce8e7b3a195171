package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// What the packages are made of is in the repository, or is made by tools/release.sh.
func TestPackage(t *testing.T) {
	var p struct {
		Contents []struct{ Src, Dst, Type string }
		Scripts  map[string]string
	}
	if err := yaml.Unmarshal([]byte(read(t, "nfpm.yaml")), &p); err != nil {
		t.Fatal(err)
	}
	release := read(t, "../tools/release.sh")
	installed := map[string]bool{}
	for _, c := range p.Contents {
		installed[c.Dst] = true
		switch {
		case strings.HasPrefix(c.Src, "${"):
			if name := strings.Trim(c.Src, "${}"); !strings.Contains(release, name+"=") {
				t.Errorf("tools/release.sh does not set %s", name)
			}
		case strings.HasPrefix(c.Src, "dist/common/"):
			top, _, _ := strings.Cut(strings.TrimPrefix(c.Src, "dist/common/"), "/")
			if !strings.Contains(release, "$at/"+top) {
				t.Errorf("tools/release.sh does not make %s", c.Src)
			}
		default:
			if found, err := filepath.Glob(filepath.Join("..", c.Src)); err != nil || len(found) == 0 {
				t.Errorf("there is no %s", c.Src)
			}
		}
	}
	for _, want := range []string{"/usr/bin/weft", "/usr/lib/systemd/system/weft.service", "/etc/weft/weft.yaml", "/usr/share/man/man1"} {
		if !installed[want] {
			t.Errorf("%s is not installed", want)
		}
	}
	if len(p.Scripts) != 4 {
		t.Errorf("%d scripts", len(p.Scripts))
	}
	for _, script := range p.Scripts {
		if out, err := exec.Command("sh", "-n", filepath.Join("..", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v %s", script, err, out)
		}
	}
	if out, err := exec.Command("sh", "-n", "../tools/release.sh").CombinedOutput(); err != nil {
		t.Errorf("tools/release.sh: %v %s", err, out)
	}
	if info, err := os.Stat("../tools/release.sh"); err != nil || info.Mode()&0o111 == 0 {
		t.Errorf("tools/release.sh cannot be run: %v", err)
	}
}
