package analytics

import (
	"bufio"
	"io"
	"strings"
)

// table is how one table's rows are made.
type table struct {
	name string
	rows func(emit)
}

// emit takes one row, its values as COPY writes them.
type emit func(values ...string)

// copyText is the whole table as COPY reads it. No value that is made needs
// escapes.
func (t table) copyText() io.ReadCloser {
	r, w := io.Pipe()
	go func() { // ends when the rows do, or when the reader closes
		b := bufio.NewWriterSize(w, 64<<10)
		t.rows(func(values ...string) {
			b.WriteString(strings.Join(values, "\t")) // a write that failed is told by Flush
			b.WriteByte('\n')
		})
		w.CloseWithError(b.Flush())
	}()
	return r
}
