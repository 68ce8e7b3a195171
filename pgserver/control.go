package pgserver

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
)

// Control is what a data directory says of itself while no server runs in it.
type Control struct {
	System string // the system identifier, the same for a primary and its standbys
	// Timeline is the newest that the directory knows of.
	Timeline int
	// Checkpoint is where the last checkpoint is, as a number of bytes.
	Checkpoint int64
	// Clean: the server was shut down in good order, and Checkpoint is the last of its log.
	Clean bool
	// Standby: a server that starts there is a standby.
	Standby bool
}

// Control reads what the data directory says of itself.
func (c Config) Control(ctx context.Context) (Control, error) {
	c, err := c.withDefaults()
	if err != nil {
		return Control{}, err
	}
	as, err := accountFor(c.RunAs)
	if err != nil {
		return Control{}, err
	}
	way, err := as.entrance(c.Dir)
	if err != nil {
		return Control{}, err
	}
	defer way.close()
	out, err := run(ctx, as, way.inherited(), c.Install.Program("pg_controldata"), "-D", way.path)
	if err != nil {
		return Control{}, err
	}
	control, err := parseControl(out)
	if err != nil {
		return Control{}, fmt.Errorf("control data of %s: %w", c.Dir, err)
	}
	control.Standby = c.IsStandby()
	// A server that was promoted a moment before its end has not entered its new
	// timeline among the control data. The timeline's history is there first.
	histories, _ := filepath.Glob(filepath.Join(c.Dir, "pg_wal", "*.history")) // errs only on a bad pattern
	for _, h := range histories {
		if n, err := strconv.ParseInt(strings.TrimSuffix(filepath.Base(h), ".history"), 16, 32); err == nil {
			control.Timeline = max(control.Timeline, int(n))
		}
	}
	return control, nil
}

// parseControl reads what pg_controldata prints.
func parseControl(out string) (Control, error) {
	var c Control
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		var err error
		switch key {
		case "Database system identifier":
			c.System = value
		case "Database cluster state":
			c.Clean = value == "shut down"
		case "Latest checkpoint location":
			c.Checkpoint, err = parseLSN(value)
		case "Latest checkpoint's TimeLineID", "Min recovery ending loc's timeline":
			var n int
			n, err = strconv.Atoi(value)
			c.Timeline = max(c.Timeline, n)
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", key, err)
		}
	}
	if c.System == "" || c.Timeline == 0 {
		return c, fmt.Errorf("not understood: %s", lastLines(out, 3))
	}
	return c, nil
}

// parseLSN reads a position of the log, 16/B374D848 say.
func parseLSN(text string) (int64, error) {
	high, low, ok := strings.Cut(text, "/")
	h, err := strconv.ParseUint(high, 16, 31)
	l, err2 := strconv.ParseUint(low, 16, 32)
	if !ok || err != nil || err2 != nil {
		return 0, fmt.Errorf("%q is no position of a log", text)
	}
	return int64(h<<32 | l), nil
}
