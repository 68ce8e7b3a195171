package proxy

import (
	"math"
	"strconv"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/reshard/carrier"
)

// moveOptions reads the options of a job into o. Options that are not given stay as they are.
func moveOptions(args map[string]string, o *directory.MoveOptions) error {
	for name, read := range map[string]func(string) error{
		"max_pause":    func(v string) error { o.Stretch = false; return readPause("max_pause", v, &o.MaxPause) },
		"pause_target": func(v string) error { return readPause("pause_target", v, &o.PauseTarget) },
		"rate":         func(v string) error { return readRate(v, &o.Rate) },
		"duty":         func(v string) error { return readPercent("duty", v, &o.Duty) },
		"until":        func(v string) error { return readPercent("until", v, &o.Until) },
		"verify":       func(v string) error { return readVerify(v, &o.Verify) },
	} {
		if v, given := args[name]; given {
			if err := read(strings.TrimSpace(v)); err != nil {
				return err
			}
		}
	}
	longest, target := o.MaxPause, o.PauseTarget
	if longest == 0 {
		longest = carrier.DefaultMaxPause
	}
	if target > longest {
		return pgerr.New(pgerr.InvalidParameterValue, "pause_target %s is more than max_pause %s", target, longest).
			WithHint("A round that takes longer than max_pause is given up: rows for pause_target would never be through.")
	}
	return nil
}

// The pauses that can be asked for. No round is through in less than the first; the last is what a
// person may wait for.
const (
	leastPause = 10 * time.Millisecond
	mostPause  = 10 * time.Minute
)

// readPause reads a time as PostgreSQL's settings are written; a number alone is milliseconds.
func readPause(name, text string, into *time.Duration) error {
	d, ok := guc(text, map[string]float64{"": 1e6, "us": 1e3, "ms": 1e6, "s": 1e9, "min": 60e9, "h": 3600e9})
	if !ok {
		return pgerr.New(pgerr.InvalidParameterValue, "%s %q is not a time", name, text).WithHint(`Write '500ms' or '2s': the units are "us", "ms", "s", "min" and "h".`)
	}
	if d < float64(leastPause) || d > float64(mostPause) {
		return pgerr.New(pgerr.InvalidParameterValue, "%s %q is not between %s and %s", name, text, leastPause, mostPause)
	}
	*into = time.Duration(d)
	return nil
}

// readRate reads bytes per second as PostgreSQL's settings are written; 0 is no limit.
func readRate(text string, into *int64) error {
	n, ok := guc(strings.TrimSuffix(text, "/s"), map[string]float64{"": 1, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40})
	if !ok || n < 0 || n > math.MaxInt64/2 {
		return pgerr.New(pgerr.InvalidParameterValue, "rate %q is not a number of bytes in a second", text).
			WithHint(`Write '20MB': the units are "B", "kB", "MB", "GB" and "TB". 0 is no limit.`)
	}
	*into = int64(n)
	return nil
}

// readPercent reads a share, with the sign or without.
func readPercent(name, text string, into *int) error {
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimSuffix(text, "%")))
	if err != nil || n < 1 || n > 100 {
		return pgerr.New(pgerr.InvalidParameterValue, "%s %q is not a percentage from 1 to 100", name, text).WithHint("Write 50, or '50%%'.")
	}
	*into = n
	return nil
}

// readVerify reads what a round compares before it commits.
func readVerify(text string, into *string) error {
	switch text {
	case directory.VerifyRows:
		*into = text
	case "counts":
		*into = ""
	default:
		return pgerr.New(pgerr.InvalidParameterValue, "verify %q is neither 'counts' nor 'rows'", text).
			WithHint("'counts', the default, compares how many rows have left and come. 'rows' compares their contents, too.")
	}
	return nil
}

// guc reads a number with a unit.
func guc(text string, units map[string]float64) (float64, bool) {
	number := strings.TrimRight(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit, ok := units[text[len(number):]]
	n, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
	if err != nil || !ok || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, false
	}
	return n * unit, true
}
