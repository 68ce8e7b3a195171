package pgserver

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Exists reports whether Dir holds a data directory. Because Init renames a
// finished directory into place, one that exists is whole.
func (c Config) Exists() bool {
	_, err := os.Stat(filepath.Join(c.Dir, "PG_VERSION"))
	return err == nil
}

// Init makes the data directory with initdb. The work is done in a directory
// beside it and renamed when complete; what an Init that was killed left behind
// is removed first. No two Inits may run for one Dir at the same time.
func (c Config) Init(ctx context.Context) error {
	if err := c.Validate(); err != nil {
		return err
	}
	c, err := c.withDefaults()
	if err != nil {
		return err
	}
	as, err := accountFor(c.RunAs)
	if err != nil {
		return err
	}
	if err := vacant(c.Dir); err != nil {
		return err
	}
	if err := c.removeParts(); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp(filepath.Dir(c.Dir), "."+filepath.Base(c.Dir)+".init-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // after the rename there is nothing left to remove
	if err := as.own(tmp); err != nil {
		return err
	}
	way, err := as.entrance(tmp)
	if err != nil {
		return err
	}
	defer way.close()
	began := time.Now()
	if _, err := run(ctx, as, way.inherited(), c.Install.Program("initdb"), c.initArgs(ctx, as, way.path)...); err != nil {
		return err
	}
	if err := include(filepath.Join(tmp, "postgresql.conf")); err != nil {
		return err
	}
	if err := os.Rename(tmp, c.Dir); err != nil {
		return err
	}
	c.Log.Debug("initdb done", "dir", c.Dir, "took", time.Since(began))
	return nil
}

// vacant refuses a directory that holds anything. An empty one is allowed: the
// rename replaces it.
func vacant(dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return err
	case len(entries) > 0:
		return fmt.Errorf("%s is not empty", dir)
	}
	return nil
}

func (c Config) initArgs(ctx context.Context, as account, dir string) []string {
	args := []string{"-D", dir, "-U", c.User, "-A", "trust", "-E", "UTF8", "--lc-messages=C"}
	if !c.Fsync {
		args = append(args, "--no-sync")
	}
	if c.Locale != "" {
		return append(args, "--locale="+c.Locale)
	}
	args = append(args, "--locale=C")
	if ctype := utf8Locale(ctx, as); ctype != "" {
		args = append(args, "--lc-ctype="+ctype)
	}
	return args
}

// utf8Locale returns the name of the C locale that knows UTF-8, or nothing. It
// is C.UTF-8 or C.utf8, and missing on some systems.
func utf8Locale(ctx context.Context, as account) string {
	out, err := run(ctx, as, nil, "locale", "-a")
	if err != nil {
		return "" // no such program: stay with plain C
	}
	names := strings.Fields(out)
	i := slices.IndexFunc(names, func(n string) bool {
		return strings.EqualFold(strings.ReplaceAll(n, "-", ""), "C.utf8")
	})
	if i < 0 {
		return ""
	}
	return "C.UTF-8" // either spelling is understood where one is listed
}

// Unmanaged makes a data directory for a program that writes the configuration itself.
func (c Config) Unmanaged(ctx context.Context) error {
	if err := c.Init(ctx); err != nil {
		return err
	}
	return c.OwnFile(filepath.Join(c.Dir, confName), []byte("# weft does not configure this server.\n"))
}

// include makes a configuration file read ours last.
func include(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(f, "\ninclude_if_exists = '%s'\n", confName)
	return errors.Join(err, f.Close())
}
