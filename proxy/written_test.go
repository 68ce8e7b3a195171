package proxy

import (
	"testing"

	"weft/parser"
)

// TestMayHaveWritten: of messages whose answers are lost, those may have written that were executed, and not only read, up to a Sync that was sent.
func TestMayHaveWritten(t *testing.T) {
	reads, writes := run{facts: &parser.Facts{Reads: true}}, run{facts: &parser.Facts{}}
	for _, c := range []struct {
		what   string
		ops    []op
		synced bool
		want   bool
	}{
		{"a write", []op{{kind: opParse}, {kind: opBind}, {kind: opExecute, run: writes}, {kind: opSync}}, true, true},
		{"a write without a Sync", []op{{kind: opExecute, run: writes}}, false, false},
		{"a read", []op{{kind: opBind}, {kind: opExecute, run: reads}, {kind: opSync}}, true, false},
		{"the end of what was answered", []op{{kind: opSync}}, true, true},
		{"a statement that is prepared", []op{{kind: opParse}, {kind: opDescribeStatement}, {kind: opSync, void: true}}, true, false},
		{"the end of what was answered, and a statement that is prepared", []op{{kind: opSync}, {kind: opParse}, {kind: opSync, void: true}}, true, true},
		{"a statement that is prepared, and a write", []op{{kind: opSync, void: true}, {kind: opExecute, run: writes}, {kind: opSync}}, true, true},
	} {
		s := &Session{}
		s.pipe.ops.ops = c.ops
		l := loss{s: s}
		if got := l.mayHaveWritten(c.synced); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
