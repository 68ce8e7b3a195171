package copydata

import "bytes"

// State says what Next has found.
type State uint8

// What it can be.
const (
	// More: the row is not whole yet. Ask again with the same bytes and more.
	More State = iota
	// Found: a row, and Row says what it is.
	Found
	// Head: not a row but what stands before them: a binary signature.
	Head
	// End: there are no more rows. What follows is not looked at.
	End
	// Broken: this cannot be cut. A server will say what is wrong with it.
	Broken
)

// Row is a row that has been found.
type Row struct {
	// Size is how many bytes it takes, Body how many of them without what ends
	// its line.
	Size, Body int
	// Lines is by how many PostgreSQL's line counter goes up with it, and First by
	// how many if it is the first row that a server sees: what a newline inside of
	// quotes counts for depends on how lines end, and that is not known before.
	Lines, First int

	plain bool // nothing in it is escaped or quoted
}

// newline is how lines end. The first one says, and the others must do as it does.
type newline uint8

const (
	unknown newline = iota
	lf
	cr
	crlf
)

// Cutter cuts the data of one COPY into rows.
type Cutter struct {
	Format
	// Row is what Next has found.
	Row Row
	// Line is what PostgreSQL's line counter would be at.
	Line int64

	eol   newline
	ended bool // an end marker has been seen
	begun bool // a binary signature has been seen

	// Of the row that is being looked for: how far, and what is known so far.
	at           int
	quoted, esc  bool
	inner, outer int // newlines and carriage returns in quotes
	plain        bool
	fields       int // of a binary row that are still to come, -1 before its count

	scratch []byte // decoded fields
}

// New returns a cutter.
func New(f Format) *Cutter {
	c := &Cutter{Format: f, scratch: make([]byte, 0, 256)}
	c.restart()
	return c
}

// Counted reports whether Line counts what comes next already: the end of binary data
// is a row of its own.
func (c *Cutter) Counted() bool { return c.ended && c.Kind == Binary }

// Seen returns how many bytes of a row that is not found have been looked at and are
// all right so far.
func (c *Cutter) Seen() int { return c.at }

// Settle appends what makes a server that has seen nothing but rows of this data act
// on the last of them, if something must follow it: a carriage return says whether
// it is a line's end of its own only when the next byte is there.
func (c *Cutter) Settle(dst []byte) []byte {
	if c.eol == cr {
		return append(dst, ' ')
	}
	return dst
}

func (c *Cutter) restart() {
	c.at, c.quoted, c.esc, c.inner, c.outer, c.plain, c.fields = 0, false, false, 0, 0, true, -1
}

// Next finds the end of the row that data begins with. With eof there is no more
// than that. If it says Found or Head, the caller takes Row.Size bytes away before
// it asks again.
func (c *Cutter) Next(data []byte, eof bool) (State, error) {
	switch {
	case c.Kind == Binary:
		return c.binary(data, eof)
	case c.ended:
		return End, nil
	case c.at == 0 && c.eol != unknown && c.short(data):
		return Found, nil
	}
	return c.line(data, eof)
}

// found notes a row.
func (c *Cutter) found(body, size int) State {
	r := Row{Size: size, Body: body, Lines: 1, First: 1 + c.outer, plain: c.plain}
	switch c.eol {
	case lf:
		r.Lines += c.inner
	default:
		r.Lines += c.outer
	}
	c.Row = r
	c.Line += int64(r.Lines)
	c.restart()
	return Found
}

// short finds the end of an ordinary line by searching for it. It reports false,
// and has changed nothing, for lines that must be read byte by byte.
func (c *Cutter) short(data []byte) bool {
	end := bytes.IndexByte(data, '\n')
	if end < 0 || c.eol == cr {
		return false
	}
	body := end
	if c.eol == crlf {
		if end == 0 || data[end-1] != '\r' {
			return false
		}
		body--
	}
	line := data[:body]
	if c.Kind == Text {
		if bytes.IndexByte(line, '\\') >= 0 || bytes.IndexByte(line, '\r') >= 0 {
			return false
		}
		c.Row = Row{Size: end + 1, Body: body, Lines: 1, First: 1, plain: true}
		c.Line++
		return true
	}
	if body > 0 && data[0] == '\\' || bytes.IndexByte(line, '\r') >= 0 {
		return false
	}
	plain := bytes.IndexByte(line, c.Quote) < 0
	if !plain && (c.Quote != c.Escape || bytes.Count(line, []byte{c.Quote})&1 != 0) {
		return false
	}
	c.Row = Row{Size: end + 1, Body: body, Lines: 1, First: 1, plain: plain}
	c.Line++
	return true
}
