package primary

import (
	"fmt"
	"strconv"
	"strings"
)

// Generation says which history a server has. Each promotion of a standby begins a new one.
type Generation struct {
	// System is the identifier that PostgreSQL gave the server at initdb, and that its standbys share. Empty: not known.
	System string
	// Timeline grows by one or more with each promotion. 0: not known.
	Timeline uint32
	// Fork is the LSN at which the timeline left its parent. 0: not known, or the first timeline, which has no parent.
	Fork LSN
}

// Above reports whether g is a later generation of the same system than other. A generation that is not known is above
// none.
func (g Generation) Above(other Generation) bool {
	return g.System == other.System && g.Timeline > other.Timeline
}

// Parted reports whether two generations have the same timeline by number and are different histories all the same:
// two standbys were promoted apart.
func (g Generation) Parted(other Generation) bool {
	return g.System == other.System && g.Timeline == other.Timeline && g.Fork != other.Fork && g.Fork != 0 && other.Fork != 0
}

// Foreign reports whether two generations are those of different systems.
func (g Generation) Foreign(other Generation) bool {
	return g.System != "" && other.System != "" && g.System != other.System
}

// String returns the generation in the form that ParseGeneration reads: system/timeline, and @fork if it is known.
func (g Generation) String() string {
	text := g.System + "/" + strconv.FormatUint(uint64(g.Timeline), 10)
	if g.Fork != 0 {
		text += "@" + g.Fork.String()
	}
	return text
}

// ParseGeneration reads what String has written.
func ParseGeneration(text string) (Generation, error) {
	rest, fork, _ := strings.Cut(text, "@")
	system, timeline, ok := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(timeline, 10, 32)
	if !ok || err != nil {
		return Generation{}, fmt.Errorf("%q is not a generation: use system/timeline or system/timeline@fork", text)
	}
	at, err := ParseLSN(fork)
	if err != nil {
		return Generation{}, fmt.Errorf("%q is not a generation: %w", text, err)
	}
	return Generation{System: system, Timeline: uint32(n), Fork: at}, nil
}
