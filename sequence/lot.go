package sequence

import (
	"errors"
	"fmt"
	"strconv"

	"weft/primary"
	"weft/quote"
)

// A lot is a block of values that the copy of a sequence on a shard gives out by itself: to triggers, which
// run there without weft. Its values come from the home shard, like all others. The copy ends where its lot
// ends, so it never gives a value that the home shard has not given to it.

// Lot is what a shard has.
type Lot struct {
	// Low and High are the first and the last value. A copy without a lot has none.
	Low, High int64
	// Left is how many values are left.
	Left int64
}

// LotsLock is the SQL that makes changes of the lots of a database on a shard wait for each other.
const LotsLock = "SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended('weft lots', 0))"

// LotSQL asks a shard for its lot of a sequence. The row is for ReadLot.
func LotSQL(sequence string) string {
	return "SELECT s.seqincrement, s.seqmax, q.last_value, q.is_called, l.low, l.high FROM " + sequence + " q, pg_catalog.pg_sequence s " +
		"LEFT JOIN weft.lot l ON l.sequence = s.seqrelid WHERE s.seqrelid = " + quote.Literal(sequence) + "::pg_catalog.regclass"
}

// ReadLot reads the answer to LotSQL.
func ReadLot(rows [][]string) (Lot, error) {
	if len(rows) != 1 || len(rows[0]) != 6 {
		return Lot{}, errors.New("a shard has not told the state of a sequence")
	}
	r := rows[0]
	if r[4] == "" {
		return Lot{}, nil
	}
	var n [5]int64
	for i, at := range []int{0, 1, 2, 4, 5} {
		v, err := strconv.ParseInt(r[at], 10, 64)
		if err != nil {
			return Lot{}, fmt.Errorf("the lot of a sequence: %w", err)
		}
		n[i] = v
	}
	increment, last, called := n[0], n[2], r[3] == "t"
	lot := Lot{Low: n[3], High: n[4]}
	if increment <= 0 || n[1] != lot.High || last < lot.Low || last > lot.High {
		return Lot{}, nil // somebody has set the copy to something else
	}
	if lot.Left = (lot.High - last) / increment; !called {
		lot.Left++
	}
	return lot, nil
}

// GiveSQL makes a lot that of a shard. LotsLock is held, and the transaction is to be committed.
func GiveSQL(sequence string, increment, low, high int64) string {
	return fmt.Sprintf("INSERT INTO weft.lot (sequence, low, high, ends) SELECT seqrelid, %[3]d, %[4]d, seqmax FROM pg_catalog.pg_sequence WHERE seqrelid = %[2]s::pg_catalog.regclass "+
		"ON CONFLICT (sequence) DO UPDATE SET low = excluded.low, high = excluded.high; ALTER SEQUENCE %[1]s INCREMENT BY %[5]d MAXVALUE %[4]d RESTART WITH %[3]d", sequence, quote.Literal(sequence), low, high, increment)
}

// VoidSQL ends all lots of a shard. LotsLock is held.
const VoidSQL = "SELECT pg_catalog.setval(s.seqrelid, s.seqmax, true) FROM weft.lot l JOIN pg_catalog.pg_sequence s ON s.seqrelid = l.sequence; " +
	"UPDATE weft.lot SET low = 0, high = 0; DELETE FROM weft.lot l WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_sequence s WHERE s.seqrelid = l.sequence)"

// EndLots is what a call of EndLotsSQL is proved by, with the command.
const EndLots = "end_lots"

// EndLotsSQL ends the lots of sequences that a command may change, before the command.
func EndLotsSQL(command, proof string) string {
	return "SELECT weft.end_lots(" + quote.Literal(command) + ", " + quote.Literal(proof) + ")"
}

// SealSQL uses up the copies of sequences that a command has made or let start again, as far as the role may set them.
const SealSQL = `SELECT pg_catalog.setval(s.seqrelid, CASE WHEN s.seqincrement > 0 THEN s.seqmax ELSE s.seqmin END, true)
FROM pg_catalog.pg_sequence s JOIN pg_catalog.pg_class c ON c.oid = s.seqrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname OPERATOR(pg_catalog.!~) '^(pg_|weft)' AND NOT EXISTS (SELECT FROM weft.lot l WHERE l.sequence = s.seqrelid AND l.high = s.seqmax)
AND CASE WHEN pg_catalog.has_sequence_privilege(c.oid, 'UPDATE') AND pg_catalog.has_sequence_privilege(c.oid, 'USAGE')
	THEN pg_catalog.pg_sequence_last_value(c.oid) IS DISTINCT FROM CASE WHEN s.seqincrement > 0 THEN s.seqmax ELSE s.seqmin END ELSE false END`

// NoteSQL notes on the home shard that there are lots of a sequence.
func NoteSQL(sequence string) string {
	return "INSERT INTO weft.lot (sequence, low, high, ends) VALUES (" + quote.Literal(sequence) + "::pg_catalog.regclass, 0, 0, 0) ON CONFLICT DO NOTHING"
}

// NotedSQL asks the home shard whether there are lots. A database in which weft has not kept anything has none.
const NotedSQL = "SELECT FROM weft.lot LIMIT 1"

// LotEndSQL asks a shard where its lot of a sequence ends; no row means that the shard has none.
func LotEndSQL(sequence string) string {
	return "SELECT l.high FROM weft.lot l WHERE l.sequence = " + quote.Literal(sequence) + "::pg_catalog.regclass AND l.high > 0"
}

// ExactStateSQL is StateSQL for who may read the sequence, and knows where one stands that was set and not drawn from since.
func ExactStateSQL(sequence string) string {
	return "SELECT s.seqincrement, s.seqmin, s.seqmax, s.seqcycle, q.last_value, CASE WHEN q.is_called THEN q.last_value END FROM " + sequence + " q, pg_catalog.pg_sequence s " +
		"WHERE s.seqrelid = " + quote.Literal(sequence) + "::pg_catalog.regclass"
}

// RunMessage draws n values, in one message to the home shard, as Message does. The rows of the answer are for DrawnRun. Other draws may take values
// in between: the longest run of values that follow each other is the lot, and the others are holes.
func RunMessage(sequence string, n int, increment int64) string {
	return fmt.Sprintf("BEGIN; SET LOCAL synchronous_commit = on; SET LOCAL lock_timeout = '5s'; SELECT pg_catalog.min(v), pg_catalog.max(v), pg_catalog.max(pg_catalog.max(v)) OVER () FROM ("+
		"SELECT v, v::numeric - %d * pg_catalog.row_number() OVER (ORDER BY v) AS run FROM (SELECT pg_catalog.nextval(%s) AS v FROM pg_catalog.generate_series(1, %d)) d"+
		") r GROUP BY run ORDER BY pg_catalog.count(*) DESC LIMIT 1; %s; COMMIT; DISCARD SEQUENCES", increment, quote.Literal(sequence), n, durable)
}

// DrawnRun reads the answer to RunMessage: the run's first and last value, and the last one of all.
func DrawnRun(rows [][]string) (low, high, last int64, at primary.LSN, err error) {
	if len(rows) != 2 || len(rows[0]) != 3 {
		return 0, 0, 0, 0, errors.New("the home shard has not answered a draw")
	}
	var n [3]int64
	for i := range n {
		if n[i], err = strconv.ParseInt(rows[0][i], 10, 64); err != nil {
			return 0, 0, 0, 0, fmt.Errorf("a run of values: %w", err)
		}
	}
	at, err = primary.ParseLSN(rows[1][0])
	return n[0], n[1], n[2], at, err
}
