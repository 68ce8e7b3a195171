package parser

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Edit replaces the bytes [Start, End) of a client's text with New.
type Edit struct {
	Start, End int
	New        string
}

// Edits are edits of one text, in its order and not overlapping. A text is edited and not written anew from its tree, so
// that a position in an error of the server can be followed back into the text the client sent.
type Edits []Edit

// With returns e and more as one list in the order of the text. Insertions at one place keep the order of the arguments.
func (e Edits) With(more ...Edit) Edits {
	out := append(slices.Clip(e), more...)
	slices.SortStableFunc(out, func(a, b Edit) int { return a.Start - b.Start })
	return out
}

// Apply returns the edited text.
func (e Edits) Apply(text string) string {
	if len(e) == 0 {
		return text
	}
	n := len(text)
	for _, d := range e {
		n += len(d.New) - (d.End - d.Start)
	}
	var b strings.Builder
	b.Grow(n)
	at := 0
	for _, d := range e {
		b.WriteString(text[at:d.Start])
		b.WriteString(d.New)
		at = d.End
	}
	b.WriteString(text[at:])
	return b.String()
}

// ClientPosition follows a position in the edited text back into text, the one the client sent. Both count characters from
// 1, as the P field of an error does. Inside a replacement it points at the start of what was replaced. Zero, which means
// that there is no position, stays zero.
func (e Edits) ClientPosition(text string, pos int) int {
	if pos <= 0 || len(e) == 0 {
		return pos
	}
	edited, client := 0, 0 // characters so far, of either text
	at := 0
	for _, d := range e {
		kept := utf8.RuneCountInString(text[at:d.Start])
		if pos-1 < edited+kept {
			break
		}
		edited, client = edited+kept, client+kept
		inserted := utf8.RuneCountInString(d.New)
		if pos-1 < edited+inserted {
			return client + 1
		}
		edited, client = edited+inserted, client+utf8.RuneCountInString(text[d.Start:d.End])
		at = d.End
	}
	return pos - edited + client
}

// clientOffset does for byte offsets what ClientPosition does for characters.
func (e Edits) clientOffset(off int) int {
	shift := 0 // by how much the edited text is ahead
	for _, d := range e {
		if off < d.Start+shift {
			break
		}
		if off < d.Start+shift+len(d.New) {
			return d.Start
		}
		shift += len(d.New) - (d.End - d.Start)
	}
	return off - shift
}
