package sequence

import (
	"context"
	"strconv"
	"strings"

	"weft/quote"
)

// Name names a sequence, and the role whose rights it is drawn with.
type Name struct {
	Database string
	// Role is the role that must be allowed to use the sequence. Empty means weft itself: identity
	// columns need no such right.
	Role string
	// Sequence is the qualified and quoted name.
	Sequence string
}

// Source draws values on the home shard.
type Source interface {
	// Draw returns between 1 and n values in the order in which nextval gave them, or an error
	// that clients get unchanged. Draw gives up when ctx ends. Draws of one Name never overlap;
	// draws of different Names may.
	//
	// A backend caches values of a sequence made with CACHE > 1, and setval on another backend
	// does not remove them. So a backend that has drawn under an older epoch must DISCARD
	// SEQUENCES first.
	Draw(ctx context.Context, name Name, n int) ([]int64, error)
}

// Query is the statement that draws up to n values of a sequence, one per row. If the sequence
// does not cycle, Query asks for no more values than are left: nextval consumes values even in a
// statement that then fails, so a draw past the end would lose the last values. Two concurrent
// draws of the last values may still lose them.
func Query(sequence string, n int) string {
	literal := quote.Literal(sequence)
	var b strings.Builder
	b.WriteString("SELECT pg_catalog.nextval(")
	b.WriteString(literal)
	b.WriteString(") FROM pg_catalog.generate_series(1, ")
	if n == 1 {
		b.WriteString("1)")
		return b.String()
	}
	// The type is numeric, because the distance between two int8 may not fit an int8. Before the
	// first nextval after CREATE or setval(…, false) the last value is NULL, and only the
	// sequence's relation tells its position, which takes the right to SELECT. So the first draw
	// is of one value.
	count := strconv.Itoa(n)
	b.WriteString("(SELECT CASE WHEN seqcycle THEN ")
	b.WriteString(count)
	b.WriteString(" ELSE greatest(1, least(")
	b.WriteString(count)
	b.WriteString(", coalesce(pg_catalog.floor((CASE WHEN seqincrement > 0 THEN seqmax ELSE seqmin END")
	b.WriteString(" - pg_catalog.pg_sequence_last_value(seqrelid)::numeric) / seqincrement), 1)))::int END")
	b.WriteString(" FROM pg_catalog.pg_sequence WHERE seqrelid = ")
	b.WriteString(literal)
	b.WriteString("::pg_catalog.regclass))")
	return b.String()
}
