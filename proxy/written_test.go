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
		wrote  bool // before the first of ops, since a Sync was answered
		synced bool
		want   bool
	}{
		{"a write", []op{{kind: opParse}, {kind: opBind}, {kind: opExecute, run: writes}, {kind: opSync}}, false, true, true},
		{"a write without a Sync", []op{{kind: opExecute, run: writes}}, false, false, false},
		{"a read", []op{{kind: opBind}, {kind: opExecute, run: reads}, {kind: opSync}}, false, true, false},
		{"the end of what was answered", []op{{kind: opSync}}, false, true, true},
		{"a statement that is prepared", []op{{kind: opParse}, {kind: opDescribeStatement}, {kind: opSync, void: true}}, false, true, false},
		{"the end of what was answered, and a statement that is prepared", []op{{kind: opSync}, {kind: opParse}, {kind: opSync, void: true}}, false, true, true},
		{"a read behind a write that was answered", []op{{kind: opExecute, run: reads}, {kind: opSync}}, true, true, true},
		{"a statement that is prepared, and a write", []op{{kind: opSync, void: true}, {kind: opExecute, run: writes}, {kind: opSync}}, false, true, true},
	} {
		s := &Session{}
		s.pipe.ops.ops = c.ops
		l := loss{s: s}
		l.retry.wrote = c.wrote
		if got := l.mayHaveWritten(c.synced); got != c.want {
			t.Errorf("%s: %v", c.what, got)
		}
	}
}
