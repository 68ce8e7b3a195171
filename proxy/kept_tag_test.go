package proxy

import (
	"bytes"
	"testing"

	"weft/wire"
)

// TestKeptTag: whatever the pieces are that an answer comes in, rows pass at once, the tag
// and what follows it in the end, or what follows it alone.
func TestKeptTag(t *testing.T) {
	row := wire.AppendFrame(nil, wire.DataRow, bytes.Repeat([]byte{'C'}, 100))
	rows := append(append([]byte{}, row...), row...)
	tag := wire.AppendCommandComplete(nil, "SELECT 2")
	status := wire.AppendParameterStatus(nil, "application_name", "x")
	for cut := wire.HeaderLen; cut <= len(rows); cut++ {
		if second := cut - len(row); second > 0 && second < wire.HeaderLen {
			continue // headers are never cut
		}
		for _, committed := range []bool{true, false} {
			k := &keptTag{}
			var got []byte
			got = append(got, k.take(rows[:cut])...)
			got = append(got, k.take(append(append([]byte{}, rows[cut:]...), tag...))...)
			got = append(got, k.take(status)...)
			if !bytes.Equal(got, rows) {
				t.Fatalf("cut at %d: %q passed", cut, got)
			}
			want := status
			if committed {
				want = append(append([]byte{}, tag...), status...)
			}
			if got := k.rest(committed); !bytes.Equal(got, want) {
				t.Fatalf("cut at %d, committed %v: %q is left", cut, committed, got)
			}
		}
	}
	if got := (&keptTag{}).rest(false); len(got) != 0 {
		t.Errorf("%q is left of nothing", got)
	}
}
