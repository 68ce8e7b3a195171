package pgserver

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// account is whom the server programs run as. The zero account is the caller.
type account struct {
	name     string
	uid, gid int
	drop     bool // the caller is root and must become someone else
}

// accountFor returns the account for a caller that asks for the user runAs.
func accountFor(runAs string) (account, error) {
	if os.Geteuid() != 0 {
		return account{uid: os.Getuid(), gid: os.Getgid()}, nil
	}
	names := []string{"postgres", "nobody"}
	if runAs != "" {
		names = []string{runAs}
	}
	for _, name := range names {
		u, err := user.Lookup(name)
		if errors.As(err, new(user.UnknownUserError)) {
			continue
		}
		if err != nil {
			return account{}, fmt.Errorf("look up user %s: %w", name, err)
		}
		uid, err := strconv.Atoi(u.Uid)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		gid, err := strconv.Atoi(u.Gid)
		if err != nil {
			return account{}, fmt.Errorf("user %s: %w", name, err)
		}
		if uid == 0 {
			return account{}, fmt.Errorf("PostgreSQL refuses to run as %s: it is root too", name)
		}
		return account{name: name, uid: uid, gid: gid, drop: true}, nil
	}
	return account{}, fmt.Errorf("PostgreSQL refuses to run as root, and there is no user %s to run it as", names[0])
}

// credential is for SysProcAttr; nil leaves the process with the caller's.
func (a account) credential() *syscall.Credential {
	if !a.drop {
		return nil
	}
	return &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)}
}

// own gives a file to the account.
func (a account) own(path string) error {
	if !a.drop {
		return nil
	}
	return os.Lchown(path, a.uid, a.gid)
}

// entrance is the way by which a program of the account gets to a directory.
type entrance struct {
	path string
	file *os.File // the directory for the program to inherit; nil if the path does
}

// entrance finds the way to dir, which must exist and belong to the account. The
// directories above it may be closed to the account, as /root and a test's
// TempDir are. Then the program gets dir as an open file and a path that leads
// through it. The caller closes the entrance once the program runs.
func (a account) entrance(dir string) (entrance, error) {
	closed, err := a.barrier(dir)
	if err != nil || closed == "" {
		return entrance{path: dir}, err
	}
	if inheritedPath == "" {
		return entrance{}, fmt.Errorf("the servers run as user %s, who may not enter %s: choose a directory elsewhere, or type: chmod a+x %s",
			a.name, closed, closed)
	}
	f, err := os.Open(dir)
	return entrance{path: inheritedPath, file: f}, err
}

func (e entrance) close() {
	if e.file != nil {
		_ = e.file.Close() // read only
	}
}

// inherited is for exec.Cmd.ExtraFiles.
func (e entrance) inherited() []*os.File {
	if e.file == nil {
		return nil
	}
	return []*os.File{e.file}
}

// barrier returns the directory above dir that the account may not enter, if any.
func (a account) barrier(dir string) (string, error) {
	if !a.drop {
		return "", nil
	}
	for parent := filepath.Dir(dir); ; parent = filepath.Dir(parent) {
		info, err := os.Stat(parent)
		if err != nil {
			return "", err
		}
		if !a.mayEnter(info) {
			return parent, nil
		}
		if parent == filepath.Dir(parent) {
			return "", nil
		}
	}
}

func (a account) mayEnter(info fs.FileInfo) bool {
	const x = 1
	perm := info.Mode().Perm()
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case ok && int(st.Uid) == a.uid:
		return perm>>6&x != 0
	case ok && int(st.Gid) == a.gid:
		return perm>>3&x != 0
	default:
		return perm&x != 0
	}
}
