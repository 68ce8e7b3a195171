package schema

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
)

// Rows travel as COPY's text, not its binary form: binary arrays and composites
// hold the OIDs of their types, which differ between shards.

// splitter receives the rows of a COPY TO whose first column is the bucket, and sends each row,
// without that column, to the shard that holds the bucket.
type splitter struct {
	placement []uint16
	shards    []directory.Shard
	to        map[string]*bufio.Writer
	all       bool // a reference table: no bucket, every row goes to all shards
	rows      int64
	bytes     int64
	// sum is made of the hashes in the last column, which is cut off, if hashed is set.
	hashed   bool
	sum      uint64
	progress func(rows int64)
	next     time.Time
}

// progressEvery is how often the client is told how many rows have been copied.
const progressEvery = time.Second

// Write takes one row, as Conn.CopyOut promises.
func (s *splitter) Write(row []byte) (int, error) {
	n := len(row)
	if s.hashed {
		var err error
		if row, err = s.cutHash(row); err != nil {
			return 0, err
		}
	}
	s.bytes += int64(len(row))
	if s.all {
		for _, w := range s.to {
			if _, err := w.Write(row); err != nil {
				return 0, err
			}
		}
	} else if err := s.place(row); err != nil {
		return 0, err
	}
	s.rows++
	if s.rows%256 == 0 {
		if now := time.Now(); now.After(s.next) {
			s.next = now.Add(progressEvery)
			s.progress(s.rows)
		}
	}
	return n, nil
}

// cutHash takes the hash from the end of a row and returns the row without it.
func (s *splitter) cutHash(row []byte) ([]byte, error) {
	line := bytes.TrimSuffix(row, []byte{'\n'})
	at := bytes.LastIndexByte(line, '\t')
	if at < 0 {
		return nil, fmt.Errorf("a row of %d bytes has no hash", len(row))
	}
	hash, err := strconv.ParseInt(string(line[at+1:]), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("the hash of a row: %w", err)
	}
	s.sum += uint64(hash)
	line[at] = '\n'
	return line[:at+1], nil
}

func (s *splitter) place(row []byte) error {
	number, rest, ok := bytes.Cut(row, []byte{'\t'})
	if !ok { // a table without any column that holds data
		number, rest = bytes.TrimSuffix(row, []byte{'\n'}), []byte{'\n'}
	}
	bucket, err := strconv.Atoi(string(number))
	if err != nil || bucket < 0 || bucket >= len(s.placement) || int(s.placement[bucket]) >= len(s.shards) {
		return fmt.Errorf("a row belongs to bucket %q, which no shard holds", number)
	}
	w := s.to[s.shards[s.placement[bucket]].Name]
	if w == nil {
		return fmt.Errorf("a row belongs to bucket %d, which is not to be moved", bucket)
	}
	_, err = w.Write(rest)
	return err
}

// copyRows copies the rows of a COPY TO on from into the table on the sessions in to, and returns
// how many rows each took. Memory is bounded by one buffer for each session.
func copyRows(from *session, query string, to []*session, target string, s *splitter) (map[string]int64, error) {
	var group sync.WaitGroup
	taken := make([]int64, len(to))
	errs := make([]error, len(to))
	s.to = map[string]*bufio.Writer{}
	var pipes []*io.PipeWriter
	for i, shard := range to {
		r, w := io.Pipe()
		pipes = append(pipes, w)
		s.to[shard.shard] = bufio.NewWriterSize(w, 64<<10)
		group.Go(func() {
			// A writer that goes on writing gets the reason why this shard stopped reading.
			defer func() { _ = r.CloseWithError(fmt.Errorf("copy into %s: %w", shard.shard, orEnded(errs[i]))) }()
			defer pgerr.Recovered(&errs[i])
			n, err := shard.CopyIn("COPY "+target+" FROM STDIN", r)
			taken[i], errs[i] = n, shard.explain(err)
		})
	}
	s.next = time.Now().Add(progressEvery)
	err := from.explain(from.CopyOut("COPY ("+query+") TO STDOUT", s))
	for i, shard := range to {
		if err == nil {
			err = s.to[shard.shard].Flush()
		}
		_ = pipes[i].CloseWithError(err) // nil is the end of the data
	}
	group.Wait()
	// The error of the shard itself says more than the error of writing to it.
	for _, e := range errs {
		if e != nil && (err == nil || !errors.Is(e, err)) {
			return nil, e
		}
	}
	if err != nil {
		return nil, err
	}
	out := map[string]int64{}
	for i, shard := range to {
		out[shard.shard] = taken[i]
	}
	return out, nil
}

func orEnded(err error) error {
	if err == nil {
		return io.ErrClosedPipe
	}
	return err
}

// columnList returns "(a, b)" for a COPY into the table, or nothing for one
// without columns.
func columnList(columns []string) string {
	if len(columns) == 0 {
		return ""
	}
	return " (" + strings.Join(columns, ", ") + ")"
}
