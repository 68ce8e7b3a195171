package target

import "strings"

// Target says which servers a session reads.
type Target uint8

// The targets.
const (
	// Primary reads the primaries.
	Primary Target = iota
	// Standby reads standbys only. The session cannot write.
	Standby
	// Any reads standbys that are up to date, else the primary. The session cannot write.
	Any
	// Auto reads standbys where that is safe, and everything else goes to the primary.
	Auto
)

// Names are the values of weft.target.
const Names = "primary, standby, any, prefer-standby, auto"

// Parse reads a value of weft.target.
func Parse(text string) (Target, bool) {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "primary", "read-write":
		return Primary, true
	case "standby":
		return Standby, true
	case "any", "prefer-standby":
		return Any, true
	case "auto":
		return Auto, true
	}
	return Primary, false
}

// String returns the target as SHOW shows it.
func (t Target) String() string { return [...]string{"primary", "standby", "any", "auto"}[t] }

// Causal says whether a session reads what it has written.
type Causal uint8

// The values of weft.causal.
const (
	// ByTarget is on for Auto, and off for others.
	ByTarget Causal = iota
	On
	Off
)

// For reports whether sessions with a target read what they have written.
func (c Causal) For(t Target) bool { return c == On || c == ByTarget && t == Auto }

// String returns the value as SHOW shows it.
func (c Causal) String() string { return [...]string{"auto", "on", "off"}[c] }
