package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

const lockName = "lock"

// holder is who runs in a directory, as the lock file says.
type holder struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	Listen  string    `json:"listen"`
}

// LockedError says that another weft dev runs in the directory.
type LockedError struct {
	Dir    string
	Holder string // who, for people
}

// Error implements error.
func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by %s: stop it first, or choose another directory with --dir", e.Dir, e.Holder)
}

// lock is held for the whole run. The kernel lets go of it when the process
// ends, however it ends, and no child inherits it.
type lock struct {
	file *os.File
}

// acquire locks dir or returns a *LockedError.
func acquire(dir, listen string) (*lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		defer f.Close()
		return nil, &LockedError{Dir: dir, Holder: readHolder(f)}
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	text, err := json.Marshal(holder{PID: os.Getpid(), Started: time.Now().Truncate(time.Second), Listen: listen})
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt(append(text, '\n'), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("write %s: %w", f.Name(), err)
	}
	return &lock{file: f}, nil
}

// readHolder describes the other one.
func readHolder(f *os.File) string {
	var h holder
	text, err := io.ReadAll(io.LimitReader(f, 4096))
	if err == nil {
		err = json.Unmarshal(text, &h)
	}
	if err != nil {
		return "another weft dev that has only just started" // it has not written yet
	}
	return fmt.Sprintf("weft dev, process %d, running since %s and listening on %s",
		h.PID, h.Started.Format("2006-01-02 15:04:05"), h.Listen)
}

// release empties the file first, so that a name in it always means a holder.
func (l *lock) release() error {
	return errors.Join(l.file.Truncate(0), l.file.Close())
}
