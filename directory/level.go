package directory

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Level is the newest addition to the encoding that this binary reads, among those that a snapshot has only while a feature is in use. A proxy
// registers with its level, and no snapshot is stored that a live proxy could not read: all proxies are replaced first, then the feature is used.
//
//	0  before levels were counted
//	1  Halt
//	2  Table.Links
const Level = 2

// level is the level that a reader of s must have.
func (s *Snapshot) level() int {
	switch {
	case s == nil:
		return 0
	case slices.ContainsFunc(s.Tables, func(t Table) bool { return t.Links != "" }):
		return 2
	case s.Halt != nil:
		return 1
	}
	return 0
}

// ErrOldProxy says that a change was not stored because a live proxy is too old to read it.
var ErrOldProxy = errors.New("proxies of an older version run, which cannot read the change: replace them first")

// Rises reports whether a reader of old may be unable to read next. A Store then asks Readable before it stores next.
func Rises(old, next *Snapshot) bool { return next.level() > old.level() }

// Readable returns nil if all proxies can read next, and otherwise an error that wraps ErrOldProxy and names those that cannot.
func Readable(next *Snapshot, proxies []Proxy) error {
	var who []string
	for i := range proxies {
		if p := &proxies[i]; p.Level < next.level() {
			who = append(who, fmt.Sprintf("%s at %s (version %s)", p.ID, p.Address, p.Version))
		}
	}
	if len(who) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrOldProxy, strings.Join(who, ", "))
}
