package selects

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"weft/integration/harness"
)

func TestMain(m *testing.M) {
	harness.ShardCount = 5
	os.Exit(runAll(m))
}

func runAll(m *testing.M) int {
	dir, err := os.MkdirTemp("", "weft-locale-*")
	if err == nil {
		defer os.RemoveAll(dir)
		provideLocale(dir)
	}
	return harness.Main(m)
}

// provideLocale compiles en_US.UTF-8 where the machine does not have it: the
// servers, which inherit the environment, look for locales there. Where that
// fails, worlds that want it skip it and say so.
func provideLocale(dir string) {
	if out, err := exec.Command("locale", "-a").Output(); err == nil && strings.Contains(string(out), "en_US.utf8") {
		return
	}
	if err := os.Chmod(dir, 0o755); err != nil { // servers may run under another account
		return
	}
	if err := exec.Command("localedef", "-i", "en_US", "-f", "UTF-8", filepath.Join(dir, "en_US.utf8")).Run(); err != nil {
		return
	}
	_ = os.Setenv("LOCPATH", dir)
}
