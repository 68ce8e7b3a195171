package target

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"weft/primary"
)

// Token says what a session has written: a place in the log of each shard. Another session that has the token reads standbys only
// where that place has been replayed.
type Token []Place

// Place is a place in the log of a shard.
type Place struct {
	Shard    string
	Timeline uint32
	LSN      primary.LSN
}

// String returns the token in the form that ParseToken reads: shard:timeline:LSN, separated by commas.
func (t Token) String() string {
	parts := make([]string, len(t))
	for i, p := range t {
		parts[i] = p.Shard + ":" + strconv.FormatUint(uint64(p.Timeline), 10) + ":" + p.LSN.String()
	}
	return strings.Join(parts, ",")
}

// ParseToken reads what String has written. An empty text is an empty token.
func ParseToken(text string) (Token, error) {
	var out Token
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		f := strings.Split(part, ":")
		if len(f) != 3 || f[0] == "" || f[2] == "" {
			return nil, fmt.Errorf("%q is not shard:timeline:LSN", part)
		}
		timeline, err := strconv.ParseUint(f[1], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("%q is not a timeline", f[1])
		}
		lsn, err := primary.ParseLSN(f[2])
		if err != nil {
			return nil, err
		}
		out = append(out, Place{f[0], uint32(timeline), lsn})
	}
	return out, nil
}

// Of returns the place in the log of a shard, zero if the token says nothing of the shard.
func (t Token) Of(shard string) Place {
	if i := slices.IndexFunc(t, func(p Place) bool { return p.Shard == shard }); i >= 0 {
		return t[i]
	}
	return Place{}
}

// Lost reports whether what a token speaks of has been lost: a standby was promoted that did not have it.
func (p Place) Lost(now primary.Generation) bool {
	return p.Timeline != 0 && now.Timeline > p.Timeline && now.Fork != 0 && p.LSN > now.Fork
}
