package finish

import (
	"strconv"

	"weft/plan"
)

// Tagged appends the one statement that returns a shard's rows of all pieces. pieces are the texts
// of the pieces, nil for a piece that does not run on this shard; cols are the columns of each
// piece.
//
// A row is the number of its piece, then the columns of all pieces in order, with NULL in the
// columns of other pieces. So a row looks the same on every shard, whichever pieces run there. If
// a plan has one piece, its text is sent unchanged and its rows have no number.
//
// A piece that locks rows must be the only one: PostgreSQL does not lock rows below UNION.
func Tagged(dst []byte, pieces [][]byte, cols [][]plan.Column) []byte {
	if len(pieces) == 1 {
		return append(dst, pieces[0]...)
	}
	arm := false
	for i, text := range pieces {
		if text == nil {
			continue
		}
		if arm {
			dst = append(dst, "\nUNION ALL\n"...)
		}
		arm = true
		dst = append(dst, "SELECT "...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, "::pg_catalog.int4"...)
		for j := range cols {
			if j == i {
				dst = append(dst, ", p.*"...)
				continue
			}
			// UNION resolves the type of a column from two arms at a time, so each NULL needs a
			// type.
			for k := range cols[j] {
				dst = append(dst, ", NULL::"...)
				dst = append(dst, cols[j][k].SQL...)
			}
		}
		// Columns get new names, as a piece may have a name twice. The line break ends a comment
		// at the end of the text.
		dst = append(dst, " FROM ("...)
		dst = append(dst, text...)
		dst = append(dst, "\n) p("...)
		dst = appendNames(dst, 1, len(cols[i]))
		dst = append(dst, ')')
	}
	return dst
}

// appendNames appends the names that columns have on the way: c1, c2, …
func appendNames(dst []byte, first, n int) []byte {
	for i := range n {
		if i > 0 {
			dst = append(dst, ", "...)
		}
		dst = append(dst, 'c')
		dst = strconv.AppendInt(dst, int64(first+i), 10)
	}
	return dst
}
