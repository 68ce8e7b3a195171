package copydata

import "encoding/binary"

// signature begins all binary data. Flags and the length of an extension follow.
const signature = "PGCOPY\n\xff\r\n\x00"

const headSize = len(signature) + 8

// binary finds the end of a binary row: a count, and as many fields, each behind its
// length.
func (c *Cutter) binary(data []byte, eof bool) (State, error) {
	switch {
	case c.ended && len(data) > 0:
		return Broken, errAfterMark
	case c.ended:
		if eof {
			return End, nil
		}
		return More, nil
	case !c.begun:
		return c.head(data, eof)
	case len(data) == 0 && eof:
		return End, nil
	}
	if c.fields < 0 {
		if len(data) < 2 {
			if eof {
				return End, nil // PostgreSQL takes half a count for the end, too
			}
			return More, nil
		}
		n := int(int16(binary.BigEndian.Uint16(data)))
		if n == -1 {
			c.Line++ // it counts as a row
			c.ended = true
			c.Row = Row{Size: 2}
			return Head, nil
		}
		if n < 0 {
			return Broken, nil
		}
		c.fields, c.at = n, 2
	}
	for c.fields > 0 {
		if len(data)-c.at < 4 {
			return c.unfinished(eof), nil
		}
		size := int(int32(binary.BigEndian.Uint32(data[c.at:])))
		if size < -1 {
			return Broken, nil
		}
		size = max(size, 0)
		if len(data)-c.at-4 < size {
			return c.unfinished(eof), nil
		}
		c.at += 4 + size
		c.fields--
	}
	return c.found(c.at, c.at), nil
}

// unfinished says what it means that a row is not whole.
func (c *Cutter) unfinished(eof bool) State {
	if eof {
		return Broken
	}
	return More
}

// head finds what stands before the first row.
func (c *Cutter) head(data []byte, eof bool) (State, error) {
	n := min(len(data), len(signature))
	if string(data[:n]) != signature[:n] {
		return Broken, nil
	}
	if len(data) < headSize {
		return c.unfinished(eof), nil
	}
	extension := int(int32(binary.BigEndian.Uint32(data[headSize-4:])))
	if extension < 0 {
		return Broken, nil
	}
	if len(data)-headSize < extension {
		return c.unfinished(eof), nil
	}
	c.begun = true
	c.Row = Row{Size: headSize + extension}
	return Head, nil
}

// Count returns how many fields a binary row says that it has.
func Count(row []byte) int { return int(int16(binary.BigEndian.Uint16(row))) }

// AppendHead appends what stands before the rows of binary data, and AppendTail what
// stands after them.
func AppendHead(dst []byte) []byte {
	return append(append(dst, signature...), 0, 0, 0, 0, 0, 0, 0, 0)
}

// AppendTail appends what ends binary data.
func AppendTail(dst []byte) []byte { return append(dst, 0xff, 0xff) }
