package sequence

import (
	"context"
	"strconv"
	"strings"

	"weft/quote"
)

// Name says which sequence, and with whose rights it is drawn from.
type Name struct {
	Database string
	// Role is who must be allowed to use the sequence. Empty means weft
	// itself: identity columns ask nobody for the right.
	Role string
	// Sequence is the qualified and quoted name.
	Sequence string
}

// Source draws values on the home shard.
type Source interface {
	// Draw returns between 1 and n values in the order in which nextval gave
	// them, or an error that is handed to clients as it is. It gives up when ctx
	// ends. Draws of one Name never overlap; those of several do.
	//
	// A backend keeps values of a sequence that was made with CACHE > 1, and
	// setval elsewhere does not take them away. So a backend that has drawn under
	// an older epoch must DISCARD SEQUENCES first.
	Draw(ctx context.Context, name Name, n int) ([]int64, error)
}

// Query is the statement that draws up to n values of a sequence, one per row.
// It asks for no more than a sequence that does not cycle has left: nextval takes
// values also from a statement that then fails, so a block that runs over the
// end would burn the last of them. Two that draw the last values at the same
// moment still may.
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
	// Numeric, because the distance between two int8 may not fit one. Before the
	// first nextval after CREATE or setval(…, false) the last value is NULL, and
	// where the sequence stands only its relation tells, which takes the right to
	// SELECT. So the first draw is of one value.
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
