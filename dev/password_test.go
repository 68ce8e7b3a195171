package dev

import (
	"os"
	"path/filepath"
	"testing"
)

// A password stays the same, and is its owner's alone.
func TestDashboardPassword(t *testing.T) {
	dir := t.TempDir()
	first, err := dashboardPassword(dir)
	if err != nil || len(first) != 12 {
		t.Fatalf("%q, %v", first, err)
	}
	if again, err := dashboardPassword(dir); err != nil || again != first {
		t.Errorf("%q, then %q, %v", first, again, err)
	}
	if info, err := os.Stat(filepath.Join(dir, "dashboard.password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if other, err := dashboardPassword(t.TempDir()); err != nil || other == first {
		t.Errorf("%q twice, %v", other, err)
	}
}
