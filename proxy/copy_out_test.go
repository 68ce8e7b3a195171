package proxy

import (
	"testing"

	"weft/copydata"
	"weft/plan"
)

// psycopg reads a message as a row, and the first as the head and a row.
func TestBinaryHeadComesWithTheFirstRow(t *testing.T) {
	row := []byte("\x00\x01\x00\x00\x00\x01x")
	const head = "PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00"
	const begun = "H\x00\x00\x00\x09\x01\x00\x01\x00\x01"
	o := &outlet{format: copydata.Format{Kind: copydata.Binary}}
	for range 2 { // it may be used again
		got := string(o.begin(nil, []plan.Column{{Name: "a"}}))
		if got != begun {
			t.Errorf("begin: %q", got)
		}
		if got, err := o.append(nil, row); err != nil || string(got) != "d\x00\x00\x00\x1e"+head+string(row) {
			t.Errorf("first row: %q, %v", got, err)
		}
		if got, err := o.append(nil, row); err != nil || string(got) != "d\x00\x00\x00\x0b"+string(row) {
			t.Errorf("second row: %q, %v", got, err)
		}
		if got := string(o.end(nil)); got != "d\x00\x00\x00\x06\xff\xffc\x00\x00\x00\x04C\x00\x00\x00\x0bCOPY 2\x00" {
			t.Errorf("end: %q", got)
		}
		o.begin(nil, nil)
		if got := string(o.end(nil)); got != "d\x00\x00\x00\x19"+head+"\xff\xffc\x00\x00\x00\x04C\x00\x00\x00\x0bCOPY 0\x00" {
			t.Errorf("no rows: %q", got)
		}
	}
}
