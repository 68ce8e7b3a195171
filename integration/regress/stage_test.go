//go:build regress

package regress

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"weft/pgserver"
)

// stage is the scripts and what they need around them.
type stage struct {
	scripts string // directory of the scripts
	dir     string // data, lib and results: readable by the servers' user
}

// newStage fetches the scripts for the installation's version.
func newStage(t *testing.T, inst pgserver.Install) *stage {
	t.Helper()
	cache := *cacheFlag
	if cache == "" {
		base, err := os.UserCacheDir()
		if err != nil {
			t.Fatalf("no cache directory: %v (give one with -cache)", err)
		}
		cache = filepath.Join(base, "weft", "regress-"+strconv.Itoa(inst.Major))
	}
	fetch := exec.Command("./fetch.sh", strconv.Itoa(inst.Major), cache)
	if out, err := fetch.CombinedOutput(); err != nil {
		t.Fatalf("%s(%v)", out, err)
	}
	dir, err := pgserver.TempDir()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for _, part := range []string{"data", "lib"} {
		if err := os.CopyFS(filepath.Join(dir, part), os.DirFS(filepath.Join(cache, part))); err != nil {
			t.Fatal(err)
		}
	}
	if err := linkLibraries(inst, filepath.Join(dir, "lib")); err != nil {
		t.Fatal(err)
	}
	return &stage{scripts: cache, dir: dir}
}

// linkLibraries puts the packaged libraries that scripts load beside their
// own: they look for all of them in one directory.
func linkLibraries(inst pgserver.Install, lib string) error {
	out, err := exec.Command(inst.Program("pg_config"), "--pkglibdir").Output()
	if err != nil {
		return err
	}
	from := string(bytes.TrimSpace(out))
	for _, name := range []string{"refint.so", "autoinc.so"} {
		if err := os.Symlink(filepath.Join(from, name), filepath.Join(lib, name)); err != nil {
			return err
		}
	}
	return nil
}

// clear empties the directory that scripts write to.
func (s *stage) clear() error {
	results := filepath.Join(s.dir, "results")
	return errors.Join(os.RemoveAll(results), os.Mkdir(results, 0o777), os.Chmod(results, 0o777))
}

// env is what the scripts expect in psql's environment beyond how to connect.
func (s *stage) env(script string) []string {
	return []string{
		"PGAPPNAME=regress/" + script, "PGDATABASE=" + database,
		"PGTZ=PST8PDT", "PGDATESTYLE=Postgres, MDY", "PGOPTIONS=-c intervalstyle=postgres_verbose",
		"PG_ABS_SRCDIR=" + s.dir, "PG_ABS_BUILDDIR=" + s.dir, "PG_LIBDIR=" + filepath.Join(s.dir, "lib"), "PG_DLSUFFIX=.so",
		"LANG=C", "LC_ALL=C", "COLUMNS=", "PSQL_PAGER=",
	}
}
