package dev

import (
	"errors"
	"fmt"
	"os"
)

// makeDir makes the directory, open enough that servers running as another user
// can get to their data in it.
func makeDir(dir string) error {
	entries, err := os.ReadDir(dir)
	if err == nil {
		return ours(dir, entries)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return os.Chmod(dir, 0o755) // whatever the umask
}

// ours refuses a directory full of something else, a home directory say.
func ours(dir string, entries []os.DirEntry) error {
	for _, e := range entries {
		if e.Name() == lockName || e.Name() == stateName {
			return nil
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is neither empty nor a directory of weft dev: choose another with --dir", dir)
	}
	return nil
}

// writeFile replaces a file by renaming, so that a kill in the middle leaves the
// old one.
func writeFile(path string, text []byte) error {
	tmp := path + ".new"
	if err := os.WriteFile(tmp, text, 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}
