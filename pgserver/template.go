package pgserver

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// InitFromTemplate does what Init does by copying a data directory that was made
// once on this machine and is kept in the system's directory for temporary
// files. It is several times faster, and meant for tests: the copies share one
// system identifier, which real shards must not.
func (c Config) InitFromTemplate(ctx context.Context) error {
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
	template, err := c.template(ctx, as)
	if err != nil {
		return fmt.Errorf("make a template: %w", err)
	}
	tmp, err := os.MkdirTemp(filepath.Dir(c.Dir), "."+filepath.Base(c.Dir)+".init-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp) // after the rename there is nothing left to remove
	if err := copyTree(ctx, as, template, tmp); err != nil {
		return fmt.Errorf("copy template: %w", err)
	}
	return os.Rename(tmp, c.Dir)
}

// making is held while a template is made, so that one process makes one.
var making sync.Mutex

// template returns the directory to copy, making it if needed.
func (c Config) template(ctx context.Context, as account) (string, error) {
	key := fnv.New64a()
	fmt.Fprintf(key, "%s\n%s\n%s\n%s", c.Install.Bin, c.Install.Version, c.Locale, c.User)
	root := filepath.Join(os.TempDir(), fmt.Sprintf("weft-template-%d", as.uid))
	if err := os.Mkdir(root, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	// The directory for temporary files is everybody's: a template that somebody
	// else prepared would be a server that somebody else configured.
	info, err := os.Lstat(root)
	if err != nil {
		return "", err
	}
	if st, ok := info.Sys().(*syscall.Stat_t); !info.IsDir() || ok && int(st.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%s belongs to somebody else: remove it, or set TMPDIR", root)
	}
	made := c
	made.Fsync = false
	made.Dir = filepath.Join(root, fmt.Sprintf("%d-%x", c.Install.Major, key.Sum64()))
	if made.Exists() {
		return made.Dir, nil
	}
	making.Lock()
	defer making.Unlock()
	if made.Exists() {
		return made.Dir, nil
	}
	// Several test processes may come here at once. Each makes one under a name
	// of its own; the first rename wins, the others use the winner's.
	final := made.Dir
	made.Dir = fmt.Sprintf("%s.%d", final, os.Getpid())
	if err := os.RemoveAll(made.Dir); err != nil {
		return "", err
	}
	if err := made.Init(ctx); err != nil {
		return "", err
	}
	if err := os.Rename(made.Dir, final); err != nil {
		_ = os.RemoveAll(made.Dir)
		if made.Dir = final; !made.Exists() {
			return "", err
		}
	}
	return final, nil
}

// copyTree copies a data directory that no server uses.
func copyTree(ctx context.Context, as account, from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		dst := filepath.Join(to, rel)
		switch {
		case rel == ".": // made by the caller
		case d.IsDir():
			err = os.Mkdir(dst, 0o700)
		case d.Type().IsRegular():
			err = copyFile(path, dst)
		default:
			err = fmt.Errorf("%s is neither a file nor a directory", path)
		}
		if err != nil {
			return err
		}
		return as.own(dst)
	})
}

func copyFile(from, to string) error {
	src, err := os.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	dst, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = dst.ReadFrom(src)
	return errors.Join(err, dst.Close())
}
