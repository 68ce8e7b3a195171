package pgserver

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listener returns the process that listens on a TCP port, as far as the
// caller's rights let it see.
func listener(port int) (pid int, command string) {
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		for _, inode := range listening(table, port) {
			sockets["socket:["+inode+"]"] = true
		}
	}
	if len(sockets) == 0 {
		return 0, ""
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*") // errs only on a bad pattern
	for _, file := range files {
		target, err := os.Readlink(file)
		if err != nil || !sockets[target] {
			continue
		}
		proc := filepath.Dir(filepath.Dir(file))
		pid, err = strconv.Atoi(filepath.Base(proc))
		if err != nil {
			continue
		}
		comm, err := os.ReadFile(filepath.Join(proc, "comm"))
		if err != nil {
			continue
		}
		return pid, strings.TrimSpace(string(comm))
	}
	return 0, ""
}

// listening returns the inodes of the sockets that listen on a port, from one of
// the kernel's tables.
func listening(table string, port int) []string {
	f, err := os.Open(table)
	if err != nil {
		return nil
	}
	defer f.Close()
	const (
		local, state, inode = 1, 3, 9 // columns
		listen              = "0A"
	)
	suffix := fmt.Sprintf(":%04X", port)
	var inodes []string
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		col := strings.Fields(lines.Text())
		if len(col) > inode && col[state] == listen && strings.HasSuffix(col[local], suffix) {
			inodes = append(inodes, col[inode])
		}
	}
	return inodes
}
