package schema

import "regexp"

// sequenceEnd finds where the statements that make a sequence say what its last value is.
var sequenceEnd = regexp.MustCompile(`\bMAXVALUE -?\d+|(pg_catalog\.setval\('(?:[^']|'')*', )-?\d+`)

// endless returns statements that make objects without the last values of sequences: a shard's copy of a sequence ends
// where its lot ends, see package proxy/lot.
func endless(statements []string) []string {
	out := make([]string, len(statements))
	for i, sql := range statements {
		out[i] = sequenceEnd.ReplaceAllString(sql, "$1")
	}
	return out
}
