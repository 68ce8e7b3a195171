package pgserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fake makes a directory with programs that answer --version only.
func fake(t *testing.T, version string, programs ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, p := range programs {
		script := "#!/bin/sh\necho 'postgres (PostgreSQL) " + version + "'\n"
		if err := os.WriteFile(filepath.Join(dir, p), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFindExplicit(t *testing.T) {
	good := fake(t, "16.2 (Debian 16.2-1)", "initdb", "postgres")
	inst, err := Find(good)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Install{Bin: good, Version: "16.2", Major: 16}); inst != want {
		t.Errorf("got %+v, want %+v", inst, want)
	}
	for name, tc := range map[string]struct{ dir, want string }{
		"missing":  {filepath.Join(good, "nowhere"), "no program initdb"},
		"client":   {fake(t, "16.2", "initdb"), "no program postgres"},
		"old":      {fake(t, "12.9", "initdb", "postgres"), "12.9 in"},
		"nonsense": {fake(t, "devel", "initdb", "postgres"), "answered"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Find(tc.dir)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want an error with %q", err, tc.want)
			}
		})
	}
}

func TestFindFollowsLinkOnPath(t *testing.T) {
	good := fake(t, "15.14", "initdb", "postgres")
	links := t.TempDir()
	if err := os.Symlink(filepath.Join(good, "initdb"), filepath.Join(links, "initdb")); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", links)
	inst, err := Find("")
	if err != nil {
		t.Fatal(err)
	}
	if inst.Bin != good {
		t.Errorf("found %s, want %s", inst.Bin, good)
	}
}

func TestFindPrefersUsableOverOld(t *testing.T) {
	old, good := fake(t, "13.1", "initdb", "postgres"), fake(t, "17.0", "initdb", "postgres")
	inst, err := find([]string{old, good}, 0)
	if err != nil || inst.Bin != good {
		t.Errorf("got %v, %v", inst, err)
	}
	if _, err := find([]string{old}, 0); err == nil || !strings.Contains(err.Error(), "too old") {
		t.Errorf("got %v, want too old", err)
	}
}

func TestNotFoundSaysWhatToType(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "apt-get"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	_, err := find(nil, 0)
	if !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "apt-get install -y postgresql") {
		t.Errorf("got %v", err)
	}
}

func TestFindMajor(t *testing.T) {
	dirs := []string{fake(t, "17.0", "initdb", "postgres"), fake(t, "16.3", "initdb", "postgres")}
	if inst, err := find(dirs, 16); err != nil || inst.Bin != dirs[1] {
		t.Errorf("got %v, %v", inst, err)
	}
	if _, err := find(dirs, 15); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), "version 15") {
		t.Errorf("got %v", err)
	}
}
