package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
)

// checks are what a suite has printed, a line each.
type checks []check

type check struct {
	name  string
	state string // ok, not ok or skip
	said  string // why not; or, of one that is ok, the answer, which must be the same on both targets
}

func (c checks) failed() checks { return c.in(notOK) }

func (c checks) in(state string) checks {
	var out checks
	for _, k := range c {
		if k.state == state {
			out = append(out, k)
		}
	}
	return out
}

// The states.
const (
	isOK    = "ok"
	notOK   = "not ok"
	skipped = "skip"
)

// parseCheck reads "ok NAME", "ok NAME: ANSWER", "not ok NAME: WHY" or "skip NAME: WHY".
func parseCheck(line string) (check, bool) {
	for _, state := range []string{notOK, isOK, skipped} {
		rest, ok := strings.CutPrefix(line, state+" ")
		if !ok {
			continue
		}
		name, said, _ := strings.Cut(rest, ":")
		name = strings.TrimSpace(name)
		return check{name, state, strings.TrimSpace(said)}, name != ""
	}
	return check{}, false
}

// collector picks the checks out of what a suite prints.
type collector struct {
	list checks
	line []byte // not ended yet
}

// longestLine is where a line without an end is cut.
const longestLine = 64 << 10

func (c *collector) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		piece, rest, ended := bytes.Cut(p, []byte("\n"))
		if len(c.line) < longestLine {
			c.line = append(c.line, piece...)
		}
		if !ended {
			break
		}
		c.end()
		p = rest
	}
	return n, nil
}

func (c *collector) end() {
	if k, ok := parseCheck(strings.TrimRight(string(c.line), "\r")); ok {
		c.list = append(c.list, k)
	}
	c.line = c.line[:0]
}

// done returns the checks, the last line included.
func (c *collector) done() checks {
	c.end()
	return c.list
}

// verdict is what both lists together say.
type verdict struct {
	passed  int
	failed  []string // checks with the reason, in the order of the suite
	skipped []string
}

// compare holds what a suite found on plain against what it found through weft. A check counts as
// passed only if it passed on both: one that fails on plain proves nothing about weft.
func compare(plain, weft played) verdict {
	var v verdict
	states := map[string]check{}
	for _, k := range weft.checks {
		if _, twice := states[k.name]; twice {
			v.failed = append(v.failed, fmt.Sprintf("%s: two checks of the suite have this name", k.name))
		}
		states[k.name] = k
	}
	for _, p := range plain.checks {
		w, ran := states[p.name]
		delete(states, p.name)
		switch {
		case p.state == isOK && w.state == isOK && p.said == w.said:
			v.passed++
		case p.state == isOK && w.state == isOK:
			v.failed = append(v.failed, fmt.Sprintf("%s: plain says %s, weft %s%s", p.name, p.said, w.said, differ(plain.out, weft.out, p.name)))
		case p.state == skipped && w.state == skipped:
			v.skipped = append(v.skipped, p.name+": "+p.said)
		case !ran:
			v.failed = append(v.failed, fmt.Sprintf("%s: %s on plain, did not run through weft", p.name, p.state))
		case p.state == notOK && w.state == notOK:
			v.failed = append(v.failed, fmt.Sprintf("%s: failed on both: %s; through weft: %s", p.name, p.said, w.said))
		case p.state == notOK:
			v.failed = append(v.failed, fmt.Sprintf("%s: failed on plain: %s", p.name, p.said))
		default:
			v.failed = append(v.failed, fmt.Sprintf("%s: %s on plain, through weft %s: %s", p.name, p.state, w.state, w.said))
		}
	}
	for _, w := range weft.checks {
		if _, left := states[w.name]; left {
			v.failed = append(v.failed, fmt.Sprintf("%s: %s through weft, did not run on plain", w.name, w.state))
		}
	}
	v.addEnds(plain, weft)
	return v
}

// addEnds counts a suite that died, or that checked nothing, as failed whatever it had printed.
func (v *verdict) addEnds(plain, weft played) {
	for _, p := range []struct {
		on string
		played
	}{{"on plain", plain}, {"through weft", weft}} {
		switch {
		case p.err != nil && len(p.checks.failed()) == 0:
			v.failed = append(v.failed, fmt.Sprintf("the suite itself %s: %v", p.on, p.err))
		case len(p.checks) == 0:
			v.failed = append(v.failed, "the suite itself "+p.on+": no check ran")
		}
	}
}

func (v verdict) word() string {
	if len(v.failed) > 0 {
		return "FAIL"
	}
	return "ok"
}

func (v verdict) counts() string {
	text := fmt.Sprintf("%d passed, %d failed", v.passed, len(v.failed))
	if n := len(v.skipped); n > 0 {
		text += fmt.Sprintf(", %d skipped", n)
	}
	return text
}

// differ shows how the files differ that a suite has left of a check, if it has.
func differ(plain, weft, name string) string {
	a, err := os.ReadFile(filepath.Join(plain, name))
	if err != nil {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(weft, name))
	if err != nil {
		return ""
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(string(a)), B: difflib.SplitLines(string(b)), FromFile: "plain", ToFile: "weft", Context: 2,
	})
	if err != nil {
		return ""
	}
	const most = 4 << 10
	if len(text) > most {
		text = text[:most] + "\n…"
	}
	return "\n" + text
}
