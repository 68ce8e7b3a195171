// Package lossy promotes standbys that lack the last moments of their primaries, and looks at what is left: no id is given twice, and what was lost is
// reported.
package lossy
