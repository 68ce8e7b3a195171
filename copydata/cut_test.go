package copydata

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// cutAll cuts data that comes in pieces, and says what was found.
func cutAll(f Format, data []byte, piece int) (out []string) {
	c := New(f)
	var have []byte
	for {
		eof := len(data) == 0
		for {
			state, err := c.Next(have, eof)
			if err != nil {
				return append(out, fmt.Sprintf("line %d: %v", c.Line, err))
			}
			if state == More {
				break
			}
			if state != Found && state != Head {
				return append(out, fmt.Sprintf("state %d at line %d", state, c.Line))
			}
			row := have[:c.Row.Size]
			if state == Found && f.Kind != Binary {
				fields, err := c.All(row)
				out = append(out, fmt.Sprintf("%q %q %d %d %d %v", row, fields, c.Line, c.Row.Lines, c.Row.First, err))
			} else {
				out = append(out, fmt.Sprintf("%q %d", row, c.Line))
			}
			have = have[c.Row.Size:]
		}
		if eof {
			return append(out, "unfinished")
		}
		n := min(piece, len(data))
		have = append(have[:len(have):len(have)], data[:n]...)
		data = data[n:]
	}
}

// FuzzCut: it does not matter in which pieces data comes, and no byte is lost.
func FuzzCut(f *testing.F) {
	for _, s := range []string{
		"1\tx\n2\ty\\\nz\n\\.\n3", "1,\"a\nb\"\r\n2,\"\"\"\"\r\n", "a\rb\rc", "\\", "\"", "x\\.\n", "\\.x\n\\.\r", signature + "\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x01x\xff\xff",
	} {
		for kind := range byte(4) {
			f.Add([]byte(s), 3, kind)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, piece int, kind byte) {
		format := Default(Kind(kind % 3))
		if kind == 3 {
			format = Default(CSV)
			format.Quote, format.Escape = '\'', '\\'
		}
		want := cutAll(format, data, max(len(data), 1))
		if got := cutAll(format, data, max(piece, 1)); !reflect.DeepEqual(want, got) {
			t.Errorf("%q in pieces of %d:\n%s\nwhole:\n%s", data, piece, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestLines finds lines again, and forgets the oldest ones.
func TestLines(t *testing.T) {
	l := NewLines(3 * blockSize)
	var server, client int64
	at := map[int64]int64{}
	for i := range 40_000 {
		lines := 1 + i%3/2
		server += int64(lines)
		client += int64(lines + i%200)
		l.Add(lines, client)
		at[server] = client
	}
	if got, ok := l.Client(server); !ok || got != client {
		t.Errorf("the last line is %d, want %d", got, client)
	}
	known := 0
	for s, want := range at {
		if got, ok := l.Client(s); ok {
			known++
			if got != want {
				t.Fatalf("line %d is %d, want %d", s, got, want)
			}
		}
	}
	if known < 1000 || known == len(at) {
		t.Errorf("%d of %d lines are known", known, len(at))
	}
}

// TestNoAllocation: cutting a row and finding its key allocates nothing.
func TestNoAllocation(t *testing.T) {
	row := []byte("12345\t7\t0\t" + strings.Repeat("x", 84) + "\n")
	c := New(Default(Text))
	if _, err := c.Next(row, false); err != nil {
		t.Fatal(err)
	}
	want, out := []int{0}, make([][]byte, 1)
	n := testing.AllocsPerRun(1000, func() {
		if s, err := c.Next(row, false); s != Found || err != nil || !c.Fields(row, want, out) || string(out[0]) != "12345" {
			t.Fatal(s, err, out)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations per row", n)
	}
}
