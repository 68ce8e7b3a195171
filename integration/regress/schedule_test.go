//go:build regress

package regress

import (
	"fmt"
	"os"
	"strings"
)

// readSchedule returns the scripts in the order of a schedule file.
func readSchedule(file string) ([]string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var scripts []string
	for line := range strings.Lines(string(text)) {
		if names, ok := strings.CutPrefix(line, "test:"); ok {
			scripts = append(scripts, strings.Fields(names)...)
		}
	}
	if len(scripts) == 0 {
		return nil, fmt.Errorf("%s names no scripts", file)
	}
	return scripts, nil
}
