package finish

import (
	"encoding/binary"
	"fmt"
	"strconv"
	"sync/atomic"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// Stage is a temporary table that rows of pieces stream into. The only piece of a plan has the
// whole table, several pieces have one partition each.
//
// From OpenStage to Close or Abort the Stage owns the backend.
type Stage struct {
	conn *pool.Conn
	in   *Inputs
	name string
	rows []int64 // number of rows of each piece
	feed *feed
	// copied and err are the outcome of the COPY. The goroutine that runs the COPY owns them
	// until the COPY has ended.
	copied int64
	err    error
}

// stages makes the names of tables unique, because a transaction may have several.
var stages atomic.Uint64

// The frame of COPY's binary format. copyHead is its signature, no flags and no extension;
// copyTail is the end.
const (
	copyHead = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00"
	copyTail = "\xff\xff"
)

// analyzeFrom is the number of rows from which a table is analyzed. With fewer rows, wrong
// estimates of the planner cost less than ANALYZE.
const analyzeFrom = 10000

// OpenStage makes the table on a backend in a transaction that may write, and begins to fill it
// with the rows that the inputs have in memory. The inputs drop these rows, but go on counting
// bytes. After an error the backend is usable as after pool.Conn.Exec, but its transaction has
// failed.
func OpenStage(c *pool.Conn, in *Inputs) (*Stage, error) {
	if c.Status() != wire.TxActive {
		return nil, pgerr.New(pgerr.InternalError, "rows cannot be staged outside a transaction")
	}
	s := &Stage{
		conn: c, in: in, name: "weft_gather_" + strconv.FormatUint(stages.Add(1), 10),
		rows: make([]int64, len(in.inputs)), feed: newFeed(),
	}
	sql := string(s.appendTables(nil)) + "COPY pg_temp." + s.name + " FROM STDIN (FORMAT binary)"
	go func() {
		defer s.feed.end()
		defer pgerr.Recovered(&s.err)
		s.copied, s.err = c.CopyIn(sql, s.feed)
	}()
	s.feed.writeString(copyHead)
	if err := s.takeInputs(); err != nil {
		_ = s.Abort()
		return nil, err
	}
	return s, nil
}

// appendTables appends the commands that make the table. Its columns are those of a row: c1, c2, …
// through all pieces, after the tag if there are several.
func (s *Stage) appendTables(dst []byte) []byte {
	dst = append(dst, "CREATE TEMP TABLE pg_temp."...)
	dst = append(dst, s.name...)
	dst = append(dst, " ("...)
	if s.in.tagged {
		dst = append(dst, "tag pg_catalog.int4, "...)
	}
	n := 0
	for i := range s.in.inputs {
		cols := s.in.inputs[i].shape.Columns
		for j := range cols {
			if n > 0 {
				dst = append(dst, ", "...)
			}
			n++
			dst = append(dst, 'c')
			dst = strconv.AppendInt(dst, int64(n), 10)
			dst = append(dst, ' ')
			if Carry(&cols[j]) == Text {
				dst = append(dst, "pg_catalog.text"...)
			} else {
				dst = append(dst, cols[j].SQL...)
			}
		}
	}
	dst = append(dst, ')')
	if s.in.tagged {
		dst = append(dst, " PARTITION BY LIST (tag)"...)
	}
	dst = append(dst, " ON COMMIT DROP;"...)
	for i := range s.in.inputs {
		if !s.in.tagged {
			break
		}
		dst = append(dst, "CREATE TEMP TABLE "...)
		dst = s.appendTable(dst, i)
		dst = append(dst, " PARTITION OF pg_temp."...)
		dst = append(dst, s.name...)
		dst = append(dst, " FOR VALUES IN ("...)
		dst = strconv.AppendInt(dst, int64(i), 10)
		dst = append(dst, ") ON COMMIT DROP;"...)
	}
	return dst
}

// appendTable appends the name of the table that has the rows of a piece.
func (s *Stage) appendTable(dst []byte, piece int) []byte {
	dst = append(dst, "pg_temp."...)
	dst = append(dst, s.name...)
	if s.in.tagged {
		dst = append(dst, '_')
		dst = strconv.AppendInt(dst, int64(piece), 10)
	}
	return dst
}

// takeInputs stages the rows that are in memory.
func (s *Stage) takeInputs() error {
	var row []byte
	for i := range s.in.inputs {
		p := &s.in.inputs[i]
		next := p.reader()
		for range p.rows {
			row = s.in.beginRow(row[:0], i)
			row = next(row)
			row = s.in.endRow(row, i)
			s.rows[i]++
			if err := s.write(row); err != nil {
				return err
			}
		}
		p.rows, p.values, p.arrays = 0, nil, nil
	}
	s.in.values = 0
	return nil
}

// reader returns a function that appends the fields of one row after another.
func (p *input) reader() func(dst []byte) []byte {
	take := func(from *[]byte, dst []byte) []byte {
		rest, _ := skip(*from) // the field was checked when it was added
		dst = append(dst, (*from)[:len(*from)-len(rest)]...)
		*from = rest
		return dst
	}
	if p.byRow {
		values := p.values
		return func(dst []byte) []byte {
			for range p.shape.Columns {
				dst = take(&values, dst)
			}
			return dst
		}
	}
	columns := make([][]byte, len(p.arrays))
	for i := range columns {
		columns[i] = p.arrays[i].elements
	}
	return func(dst []byte) []byte {
		for i := range columns {
			dst = take(&columns[i], dst)
		}
		return dst
	}
}

// beginRow appends the part of a row before the fields of a piece, in the form of a row of a
// statement made by Tagged.
func (in *Inputs) beginRow(dst []byte, piece int) []byte {
	last := &in.inputs[len(in.inputs)-1]
	dst = binary.BigEndian.AppendUint16(dst, uint16(last.first+len(last.shape.Columns)))
	first := in.inputs[piece].first
	if in.tagged {
		dst = append(dst, 0, 0, 0, 4)
		dst = binary.BigEndian.AppendUint32(dst, uint32(piece))
		first--
	}
	return appendNulls(dst, first)
}

// endRow appends the part of a row after the fields of a piece: NULLs.
func (in *Inputs) endRow(dst []byte, piece int) []byte {
	for i := piece + 1; i < len(in.inputs); i++ {
		dst = appendNulls(dst, len(in.inputs[i].shape.Columns))
	}
	return dst
}

func appendNulls(dst []byte, n int) []byte {
	for range n {
		dst = append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return dst
}

// Add stages the body of a DataRow, as Inputs.Add takes it. The row is copied. An error of the
// backend may be returned by a later call than the one that caused it. After an error only Abort
// may be called.
func (s *Stage) Add(row []byte) error {
	if err := s.in.charge(len(row)); err != nil {
		return err
	}
	piece := 0
	if s.in.tagged {
		var err error
		if len(row) < 2 {
			return wire.ErrMalformed
		}
		if piece, err = tag(row[2:], len(s.rows)); err != nil {
			return err
		}
	}
	s.rows[piece]++
	return s.write(row)
}

func (s *Stage) write(row []byte) error {
	if s.feed.write(row) {
		return nil
	}
	return s.failed()
}

// failed returns the reason why the COPY ended before its data.
func (s *Stage) failed() error {
	if s.err == nil {
		return pgerr.New(pgerr.InternalError, "COPY ended before its data")
	}
	return s.err
}

// Rows returns how many rows of a piece have been added.
func (s *Stage) Rows(piece int) int64 { return s.rows[piece] }

// Close ends the COPY, then indexes and analyzes large tables. The rows are in the table. The
// backend is the caller's again, usable after an error as after pool.Conn.Exec.
func (s *Stage) Close() error {
	s.feed.writeString(copyTail)
	s.feed.finish()
	<-s.feed.ended
	if s.err != nil {
		return s.err
	}
	var total int64
	var large []byte
	for i, n := range s.rows {
		total += n
		if n >= analyzeFrom || n >= indexFrom && len(s.in.inputs[i].shape.Index) > 0 {
			if large != nil {
				large = append(large, ", "...)
			}
			large = s.appendTable(large, i)
		}
	}
	if total != s.copied {
		return pgerr.New(pgerr.InternalError, "%d rows were staged, but %d have come", s.copied, total)
	}
	if large == nil {
		return nil
	}
	if s.err = s.makeIndexes(); s.err != nil {
		return s.err
	}
	s.err = s.analyze(string(large)) // Abort looks at err too
	return s.err
}

// makeIndexes makes the indexes that the remainder looks rows up by.
func (s *Stage) makeIndexes() error {
	var sql []byte
	for i, n := range s.rows {
		p := &s.in.inputs[i]
		first := p.first
		if !s.in.tagged {
			first++
		}
		for _, column := range p.shape.Index {
			if c := &p.shape.Columns[column]; n < indexFrom || Carry(c) == Text || c.Type >= firstAssigned {
				continue
			}
			sql = append(sql, "CREATE INDEX ON "...)
			sql = s.appendTable(sql, i)
			sql = append(sql, " ("...)
			sql = append(appendNames(sql, first+column, 1), ");"...)
		}
	}
	if sql == nil {
		return nil
	}
	if _, err := s.conn.Exec(string(sql)); err != nil {
		return fmt.Errorf("index staged rows: %w", err)
	}
	return nil
}

// analyze gives the planner statistics of tables. A tenth of the usual sample tells common values
// from rare ones, in 16 instead of 103 ms.
func (s *Stage) analyze(tables string) error {
	old, err := s.conn.Exec("SELECT pg_catalog.current_setting('default_statistics_target');" +
		"SET LOCAL default_statistics_target = 10; ANALYZE " + tables)
	if err == nil {
		// Restore the client's setting for the rest of the transaction.
		_, err = s.conn.Exec("SET LOCAL default_statistics_target = " + old[0][0])
	}
	if err != nil {
		return fmt.Errorf("analyze staged rows: %w", err)
	}
	return nil
}

// Abort ends the COPY without its rows, which fails the transaction. The backend is the caller's
// again, and usable unless Abort returns an error. Abort may be called at any time, also after
// Close.
func (s *Stage) Abort() error {
	s.feed.stop(errAborted)
	<-s.feed.ended
	if lost(s.err) {
		return s.err
	}
	return nil
}

// AppendInput appends the subquery that returns the rows of a piece.
func (s *Stage) AppendInput(dst []byte, piece int) []byte {
	p := &s.in.inputs[piece]
	first := p.first
	if !s.in.tagged {
		first++
	}
	dst = append(dst, "(SELECT "...)
	dst = p.shape.appendItems(dst, "", first)
	dst = append(dst, " FROM "...)
	dst = s.appendTable(dst, piece)
	return append(dst, ')')
}
