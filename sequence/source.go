package sequence

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/primary"
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

// Message draws up to n values, in one message to the home shard. The rows of the answer are the values and, last, where the server's log
// is after them. role, if not empty, is the role that draws.
//
// A draw ends with a commit that waits for the server's disk and for its synchronous standby. nextval alone waits for neither but once in 32
// values, which is enough for rows of the same server: they are in the same log. Rows on other shards are not, so without the commit a
// crash or a failover of the home shard could repeat values that other shards have stored.
//
// The backend must not keep values of the sequence that it has cached, nor currval.
func Message(sequence string, n int, role string) string {
	as := ""
	if role != "" {
		as = "SET LOCAL ROLE " + quote.Ident(role) + "; "
	}
	return "BEGIN; SET LOCAL synchronous_commit = on; " + as + Query(sequence, n) + "; " + durable + "; COMMIT; DISCARD SEQUENCES"
}

// durable gives a transaction that has written nothing something to wait for, and returns where the log is.
const durable = "SELECT pg_catalog.pg_logical_emit_message(true, 'weft', '')"

// Drawn reads the answer to Message.
func Drawn(rows [][]string) ([]int64, primary.LSN, error) {
	if len(rows) < 2 {
		return nil, 0, errors.New("the home shard has not answered a draw")
	}
	last := len(rows) - 1
	at, err := primary.ParseLSN(rows[last][0])
	if err != nil {
		return nil, 0, err
	}
	values, err := Numbers(rows[:last])
	return values, at, err
}

// Numbers reads rows of one number each.
func Numbers(rows [][]string) ([]int64, error) {
	out := make([]int64, 0, len(rows))
	for _, r := range rows {
		v, err := strconv.ParseInt(r[0], 10, 64)
		if err != nil {
			return nil, pgerr.New(pgerr.InternalError, "the home shard gave no number for a sequence")
		}
		out = append(out, v)
	}
	return out, nil
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
