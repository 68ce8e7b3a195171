package copydata

var (
	errTextCR    = &Error{"literal carriage return found in data", `Use "\r" to represent carriage return.`}
	errTextLF    = &Error{"literal newline found in data", `Use "\n" to represent newline.`}
	errCSVCR     = &Error{"unquoted carriage return found in data", "Use quoted CSV field to represent carriage return."}
	errCSVLF     = &Error{"unquoted newline found in data", "Use quoted CSV field to represent newline."}
	errCorrupt   = &Error{Message: "end-of-copy marker corrupt"}
	errNewline   = &Error{Message: "end-of-copy marker does not match previous newline style"}
	errAlone     = &Error{Message: "end-of-copy marker is not alone on its line"}
	errAfterMark = &Error{Message: "received copy data after EOF marker"}
)

// line finds the end of a line byte by byte, from where it was left, in the steps
// of PostgreSQL's CopyReadLineText.
func (c *Cutter) line(data []byte, eof bool) (State, error) {
	csv := c.Kind == CSV
	escape := c.Escape
	if escape == c.Quote {
		escape = 0 // the quote itself toggles
	}
	for i := c.at; i < len(data); i++ {
		b := data[i]
		// Some need a look at what comes next, before anything is noted of them.
		if i+1 == len(data) && !eof && (b == '\\' || b == '\r' && (csv || c.eol == unknown || c.eol == crlf)) {
			return c.more(i), nil
		}
		if csv {
			if c.quoted && b == escape && escape != 0 {
				c.esc = !c.esc
			}
			if b == c.Quote {
				c.plain = false
				if !c.esc {
					c.quoted = !c.quoted
				}
			}
			if b != escape || escape == 0 {
				c.esc = false
			}
			if c.quoted {
				switch b {
				case '\n':
					c.inner++
				case '\r':
					c.outer++
				}
			}
		}
		switch {
		case b == '\r' && !c.quoted:
			return c.carriageReturn(data, i)
		case b == '\n' && !c.quoted:
			if c.eol == cr || c.eol == crlf {
				return Broken, c.told(errTextLF, errCSVLF)
			}
			state := c.found(i, i+1)
			c.eol = lf
			return state, nil
		case b == '\\' && (!csv || i == 0 && c.Server < 18):
			c.plain = c.plain && csv
			if i+1 == len(data) {
				break // the last byte of all: data
			}
			if data[i+1] == '.' {
				is, state, err := c.marker(data, i, eof)
				if is || err != nil || state == More {
					return state, err
				}
			} else if !csv {
				i++ // whatever it is, it ends no line
			}
		}
		c.at = i + 1
	}
	switch {
	case !eof:
		return c.more(len(data)), nil
	case len(data) == 0:
		c.ended = true
		return End, nil
	}
	c.ended = true
	return c.found(len(data), len(data)), nil
}

// more notes how far the row has been looked at.
func (c *Cutter) more(at int) State {
	c.at = at
	return More
}

// told chooses between the words for text and for CSV. The line that is being read
// counts.
func (c *Cutter) told(text, csv *Error) error {
	c.Line += int64(1)
	if c.Kind == CSV {
		if c.eol == lf {
			c.Line += int64(c.inner)
		} else {
			c.Line += int64(c.outer)
		}
		return csv
	}
	return text
}

// carriageReturn ends a line, alone or with the newline that follows. What follows
// is there, unless this is the end.
func (c *Cutter) carriageReturn(data []byte, i int) (State, error) {
	switch c.eol {
	case lf:
		return Broken, c.told(errTextCR, errCSVCR)
	case unknown, crlf:
		if i+1 < len(data) && data[i+1] == '\n' {
			state := c.found(i, i+2)
			c.eol = crlf
			return state, nil
		}
		if c.eol == crlf {
			return Broken, c.told(errTextCR, errCSVCR)
		}
	}
	state := c.found(i, i+1)
	c.eol = cr
	return state, nil
}

// corrupt is what PostgreSQL says of an end marker with something beside it.
func (c *Cutter) corrupt() error {
	if c.Server >= 18 {
		return c.told(errAlone, errAlone)
	}
	return c.told(errCorrupt, errCorrupt)
}

// marker looks at a \. that begins at i. It reports false if that is data.
func (c *Cutter) marker(data []byte, i int, eof bool) (is bool, s State, err error) {
	at := i + 2
	next := func() (b byte, ok bool) { // 0 at the end
		if at >= len(data) && !eof {
			return 0, false
		}
		if at < len(data) {
			b = data[at]
		}
		at++
		return b, true
	}
	csv := c.Kind == CSV
	if c.eol == crlf {
		b, ok := next()
		switch {
		case !ok:
			return false, c.more(i), nil
		case b != '\r' && csv:
			return false, Found, nil
		case b == '\n':
			return false, Broken, c.told(errNewline, errNewline)
		case b != '\r':
			return false, Broken, c.corrupt()
		}
	}
	b, ok := next()
	switch {
	case !ok:
		return false, c.more(i), nil
	case b != '\r' && b != '\n' && csv:
		return false, Found, nil
	case b != '\r' && b != '\n':
		return false, Broken, c.corrupt()
	case (c.eol == lf || c.eol == crlf) && b != '\n', c.eol == cr && b != '\r':
		return false, Broken, c.told(errNewline, errNewline)
	}
	if i > 0 && c.Server >= 18 {
		return false, Broken, c.corrupt()
	}
	c.ended = true
	if i == 0 {
		return true, End, nil
	}
	return true, c.found(i, min(at, len(data))), nil
}
