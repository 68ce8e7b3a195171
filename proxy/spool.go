package proxy

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"weft/pgerr"
)

// spool keeps rows that must all be read before the first is used: a statement must not see
// what it writes itself. Few rows stay in memory, many go to a file without a name, so that
// nothing is left behind if the process dies.
type spool struct {
	rows  int
	bytes int64
	limit int64 // weft.max_gather_bytes; 0 is no limit

	mem  []byte
	file *os.File
	out  *bufio.Writer
	in   *bufio.Reader
	row  []byte
}

// spoolInline is how many bytes stay in memory.
const spoolInline = 4 << 20

// add keeps a copy of a row.
func (p *spool) add(row []byte) error {
	p.rows++
	p.bytes += int64(len(row))
	if p.limit > 0 && p.bytes > p.limit {
		return pgerr.GatherTooLarge()
	}
	if p.file == nil {
		if len(p.mem)+len(row)+4 <= spoolInline {
			p.mem = append(binary.BigEndian.AppendUint32(p.mem, uint32(len(row))), row...)
			return nil
		}
		if err := p.spill(); err != nil {
			return fmt.Errorf("keep rows: %w", err)
		}
	}
	var size [4]byte
	binary.BigEndian.PutUint32(size[:], uint32(len(row)))
	if _, err := p.out.Write(size[:]); err != nil {
		return fmt.Errorf("keep rows: %w", err)
	}
	if _, err := p.out.Write(row); err != nil {
		return fmt.Errorf("keep rows: %w", err)
	}
	return nil
}

// spill moves the rows from memory to a file.
func (p *spool) spill() error {
	f, err := os.CreateTemp("", "weft-rows-*")
	if err != nil {
		return err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return err
	}
	p.file, p.out = f, bufio.NewWriterSize(f, 256<<10)
	_, err = p.out.Write(p.mem)
	p.mem = nil
	return err
}

// rewind makes next begin with the first row.
func (p *spool) rewind() error {
	if p.file == nil {
		return nil
	}
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("keep rows: %w", err)
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("keep rows: %w", err)
	}
	p.out, p.in = nil, bufio.NewReaderSize(p.file, 256<<10)
	return nil
}

// next returns the next row, which is valid until the next call, or io.EOF.
func (p *spool) next() ([]byte, error) {
	if p.in == nil {
		if len(p.mem) == 0 {
			return nil, io.EOF
		}
		n := int(binary.BigEndian.Uint32(p.mem))
		row := p.mem[4 : 4+n]
		p.mem = p.mem[4+n:]
		return row, nil
	}
	var size [4]byte
	if _, err := io.ReadFull(p.in, size[:]); err != nil {
		if err == io.EOF { // ReadFull returns io.EOF itself at the end
			return nil, io.EOF
		}
		return nil, fmt.Errorf("read kept rows: %w", err)
	}
	n := int(binary.BigEndian.Uint32(size[:]))
	if cap(p.row) < n {
		p.row = make([]byte, n)
	}
	p.row = p.row[:n]
	if _, err := io.ReadFull(p.in, p.row); err != nil {
		return nil, fmt.Errorf("read kept rows: %w", err)
	}
	return p.row, nil
}

// close drops the rows and closes the file.
func (p *spool) close() {
	if p.file != nil {
		_ = p.file.Close() // the file has no name: nothing is left of it
	}
	p.mem, p.file = nil, nil
}
