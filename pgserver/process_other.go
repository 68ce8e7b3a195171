//go:build !linux

package pgserver

import (
	"bufio"
	"bytes"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// inheritedPath is empty: here no path leads through an inherited directory.
const inheritedPath = ""

// attributes of a child: its own process group, so that a terminal's Ctrl-C does
// not reach it. There is no parent-death signal here: after a kill -9 of the
// caller, the next Start cleans up.
func attributes(as account, _ syscall.Signal) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: as.credential()}
}

// processesIn returns the postmaster of the data directory, known by its -D
// argument, and its children. Children that outlived it are not found here;
// PostgreSQL itself refuses to start beside them.
func processesIn(dir string) []int {
	out, err := exec.Command("ps", "-axo", "pid=,ppid=,args=").Output()
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	var pids []int
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 3 {
			continue
		}
		pid, _ := strconv.Atoi(f[0])
		parent, _ := strconv.Atoi(f[1])
		children[parent] = append(children[parent], pid)
		if isPostgres(filepath.Base(f[2])) && slices.Contains(f[3:], dir) {
			pids = append(pids, pid)
		}
	}
	for _, postmaster := range slices.Clone(pids) {
		pids = append(pids, children[postmaster]...)
	}
	return pids
}

// seesAll reports whether processesIn can be believed when it finds nothing.
func seesAll() bool { return false }
