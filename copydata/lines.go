package copydata

import "encoding/binary"

// Lines remembers which line of the client's data each line was that one server has
// been sent, as long as the server can still say something about it: the lines sent
// last, within a bound of memory.
//
// Most rows take a line of both and one byte here: how many lines of the client's
// data have passed since the row before.
type Lines struct {
	max    int // bytes
	blocks []block
	size   int

	server, client int64 // lines after the last row
}

// block is a run of rows.
type block struct {
	server, client int64 // lines before the first row of it
	deltas         []byte
}

const blockSize = 4 << 10

// NewLines returns a memory of about that many bytes.
func NewLines(max int) *Lines { return &Lines{max: max} }

// Server returns how many lines the server has been sent.
func (l *Lines) Server() int64 { return l.server }

// Add notes a row that took that many lines of the server's data, and after which so
// many lines of the client's have been read.
func (l *Lines) Add(lines int, client int64) {
	n := len(l.blocks)
	if n == 0 || len(l.blocks[n-1].deltas)+3*binary.MaxVarintLen64 > blockSize {
		l.grow()
		n = len(l.blocks)
	}
	b := &l.blocks[n-1]
	step := uint64(client - l.client)
	if lines != 1 || step == 0 {
		b.deltas = append(b.deltas, 0)
		b.deltas = binary.AppendUvarint(b.deltas, uint64(lines))
	}
	b.deltas = binary.AppendUvarint(b.deltas, step)
	l.server += int64(lines)
	l.client = client
}

// grow begins a new block, in the memory of the oldest if there is no more.
func (l *Lines) grow() {
	var memory []byte
	if l.size+blockSize > l.max && len(l.blocks) > 1 {
		memory = l.blocks[0].deltas[:0]
		l.blocks = append(l.blocks[:0], l.blocks[1:]...)
	} else {
		memory = make([]byte, 0, blockSize)
		l.size += blockSize
	}
	l.blocks = append(l.blocks, block{l.server, l.client, memory})
}

// Client returns which line of the client's data a line of the server's was. It
// reports false if that is not remembered any more.
func (l *Lines) Client(line int64) (int64, bool) {
	for i := len(l.blocks) - 1; i >= 0; i-- {
		b := &l.blocks[i]
		if line <= b.server {
			continue
		}
		server, client := b.server, b.client
		for d := b.deltas; len(d) > 0; {
			lines := uint64(1)
			if d[0] == 0 {
				var n int
				lines, n = binary.Uvarint(d[1:])
				d = d[1+n:]
			}
			step, n := binary.Uvarint(d)
			d = d[n:]
			server += int64(lines)
			client += int64(step)
			if server >= line {
				return client - (server - line), true
			}
		}
		// A line that has not been sent: it is after the last one.
		return client + line - server, true
	}
	return 0, false
}
