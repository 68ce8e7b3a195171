//go:build !linux

package pgserver

import (
	"os/exec"
	"strconv"
	"strings"
)

// listener asks lsof for the process that listens on a TCP port.
func listener(port int) (pid int, command string) {
	out, err := exec.Command("lsof", "-nP", "-iTCP:"+strconv.Itoa(port), "-sTCP:LISTEN", "-Fpc").Output()
	if err != nil {
		return 0, ""
	}
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(line, "p") && pid == 0:
			pid, _ = strconv.Atoi(line[1:])
		case strings.HasPrefix(line, "c"):
			return pid, line[1:]
		}
	}
	return pid, command
}
