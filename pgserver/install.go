package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// MinMajor is the oldest PostgreSQL weft works with: foreign keys that get the shard key
// need ON DELETE SET NULL of some columns, which came with 15.
const MinMajor = 15

// ErrNotFound is wrapped by the error Find returns when no installation was
// found at all.
var ErrNotFound = errors.New("PostgreSQL server programs not found")

// Install is one installation of the PostgreSQL server.
type Install struct {
	Bin     string // the directory of initdb and postgres
	Version string // as postgres prints it, "15.14"
	Major   int    // 15
}

// Program returns the path of one of the installation's programs.
func (i Install) Program(name string) string { return filepath.Join(i.Bin, name) }

// String names the installation for people.
func (i Install) String() string { return "PostgreSQL " + i.Version + " in " + i.Bin }

// where lists patterns of directories in which package managers put the server
// programs; the newest version of the first pattern that matches wins.
var where = []string{
	"/usr/lib/postgresql/*/bin",         // Debian, Ubuntu
	"/usr/pgsql-*/bin",                  // PGDG on RHEL, Fedora
	"/usr/libexec/postgresql*",          // Alpine
	"/usr/lib/postgresql*/bin",          // SUSE
	"/opt/homebrew/opt/postgresql*/bin", // Homebrew on Apple silicon
	"/usr/local/opt/postgresql*/bin",    // Homebrew on Intel
	"/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
	"/Applications/Postgres.app/Contents/Versions/*/bin",
	"/opt/local/lib/postgresql*/bin", // MacPorts
	"/usr/local/pgsql/bin",           // make install
	"/usr/local/bin",
}

// Find returns the installation in the directory bin, or, when bin is empty,
// the first usable one of PATH and the usual places. Its error says what to
// type.
func Find(bin string) (Install, error) {
	if bin != "" {
		inst, err := open(bin)
		if err != nil {
			return Install{}, fmt.Errorf("no PostgreSQL server in %s: %w", bin, err)
		}
		return inst, nil
	}
	return find(append(onPath(), usual()...), 0)
}

// FindMajor is Find without a directory for one major version: that of a data
// directory which is already there.
func FindMajor(major int) (Install, error) {
	return find(append(onPath(), usual()...), major)
}

// find returns the first usable installation among dirs, of the given major
// version unless that is 0. One that is too old does not stop the search but is
// named if nothing better turns up.
func find(dirs []string, major int) (Install, error) {
	var tooOld error
	for _, dir := range dirs {
		inst, err := open(dir)
		if err == nil && (major == 0 || inst.Major == major) {
			return inst, nil
		}
		if errors.As(err, new(*versionError)) && tooOld == nil {
			tooOld = err
		}
	}
	if major != 0 {
		return Install{}, fmt.Errorf("%w: version %d is needed", ErrNotFound, major)
	}
	if tooOld != nil {
		return Install{}, fmt.Errorf("%w; install a newer one: %s", tooOld, advice())
	}
	return Install{}, fmt.Errorf("%w: %s", ErrNotFound, advice())
}

// onPath returns the directories of the initdb programs on PATH. Links are
// followed: a lone link in /usr/local/bin stands for the directory it leads to.
func onPath() []string {
	var dirs []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue // like exec.LookPath, never run what lies in the current directory
		}
		if real, err := filepath.EvalSymlinks(filepath.Join(dir, "initdb")); err == nil {
			dirs = append(dirs, filepath.Dir(real))
		}
	}
	return dirs
}

// usual expands where, newest version first within each pattern.
func usual() []string {
	var dirs []string
	for _, pattern := range where {
		found, _ := filepath.Glob(pattern) // errs only on a bad pattern
		slices.SortStableFunc(found, func(a, b string) int { return pathVersion(b) - pathVersion(a) })
		dirs = append(dirs, found...)
	}
	return dirs
}

var digits = regexp.MustCompile(`\d+`)

// pathVersion is the first number in a path: 15 in /usr/lib/postgresql/15/bin.
func pathVersion(path string) int {
	n, _ := strconv.Atoi(digits.FindString(path))
	return n
}

type versionError struct {
	bin, version string
}

func (e *versionError) Error() string {
	return fmt.Sprintf("PostgreSQL %s in %s is too old, weft needs %d or newer", e.version, e.bin, MinMajor)
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) ((\d+)\S*)`)

// open looks at one directory.
func open(bin string) (Install, error) {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return Install{}, err
	}
	for _, name := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(bin, name)); err != nil {
			return Install{}, fmt.Errorf("no program %s there", name)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return Install{}, fmt.Errorf("ask postgres for its version: %w", err)
	}
	m := versionLine.FindStringSubmatch(string(out))
	if m == nil {
		return Install{}, fmt.Errorf("postgres --version answered %q", strings.TrimSpace(string(out)))
	}
	inst := Install{Bin: bin, Version: m[1]}
	inst.Major, _ = strconv.Atoi(m[2])
	if inst.Major < MinMajor {
		return Install{}, &versionError{bin: bin, version: inst.Version}
	}
	return inst, nil
}

// advice is the line to type on this system.
func advice() string {
	var line string
	switch {
	case runtime.GOOS == "darwin":
		return "type: brew install postgresql@17"
	case has("apt-get"):
		line = "apt-get update && apt-get install -y postgresql"
	case has("dnf"):
		line = "dnf install -y postgresql-server"
	case has("yum"):
		line = "yum install -y postgresql-server"
	case has("zypper"):
		line = "zypper install -y postgresql-server"
	case has("apk"):
		line = "apk add postgresql"
	case has("pacman"):
		line = "pacman -S --noconfirm postgresql"
	default:
		return "install the PostgreSQL server, or say where it is with --pg-bin DIR"
	}
	if os.Geteuid() != 0 {
		line = "sudo sh -c '" + line + "'"
	}
	return "type: " + line + " (or say where it is with --pg-bin DIR)"
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
