package finish

import (
	"strconv"

	"weft/plan"
)

// Tagged appends the one statement that gives a shard's rows of all pieces.
// pieces are their texts, nil for one that has nothing to do on this shard; cols
// are the columns of each.
//
// A row is the number of its piece, then the columns of all pieces in their
// order, NULL in those of other pieces. So it looks the same on every shard,
// whichever pieces run there. The rows of a plan's only piece have no number:
// its text is sent as it is.
//
// A text that locks rows can only be the only one: PostgreSQL does not lock
// rows below UNION.
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
			// UNION finds the type of a column from two arms at a time, so
			// each NULL needs its type.
			for k := range cols[j] {
				dst = append(dst, ", NULL::"...)
				dst = append(dst, cols[j][k].SQL...)
			}
		}
		// Columns get new names, as a piece may have a name twice. The line
		// break ends a comment.
		dst = append(dst, " FROM ("...)
		dst = append(dst, text...)
		dst = append(dst, "\n) p("...)
		dst = appendNames(dst, 1, len(cols[i]))
		dst = append(dst, ')')
	}
	return dst
}

// appendNames appends the names that columns have on their way: c1, c2, …
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
