package main

import "testing"

// frame is a message of one type with a body of n bytes.
func frame(kind byte, n int) []byte {
	b := []byte{kind, 0, 0, byte((n + 4) >> 8), byte(n + 4)}
	return append(b, make([]byte, n)...)
}

func TestCounterSeesFramesHoweverTheyAreCut(t *testing.T) {
	var stream []byte
	for _, f := range [][]byte{frame('P', 30), frame('B', 7), frame('S', 0), frame('Q', 300), frame('S', 0), frame('d', 'Q')} {
		stream = append(stream, f...)
	}
	for size := 1; size <= len(stream); size++ {
		c := counter{of: "QS"}
		found := 0
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			found += c.feed(rest[:n])
			rest = rest[n:]
		}
		if found != 3 {
			t.Errorf("cut every %d bytes: %d frames counted, want 3", size, found)
		}
	}
}

func TestCounterCountsWhenTheFrameIsComplete(t *testing.T) {
	c := counter{of: "Z"}
	f := frame('Z', 1)
	if n := c.feed(f[:5]); n != 0 {
		t.Errorf("%d counted before the body came", n)
	}
	if n := c.feed(f[5:]); n != 1 {
		t.Errorf("%d counted at the frame's end, want 1", n)
	}
}
