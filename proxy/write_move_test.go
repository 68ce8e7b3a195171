package proxy

import (
	"encoding/binary"
	"testing"

	"weft/plan"
)

// rowOf makes the body of a DataRow; an empty string stands for NULL.
func rowOf(values ...string) []byte {
	row := binary.BigEndian.AppendUint16(nil, uint16(len(values)))
	for _, v := range values {
		if v == "" {
			row = binary.BigEndian.AppendUint32(row, ^uint32(0))
			continue
		}
		row = append(binary.BigEndian.AppendUint32(row, uint32(len(v))), v...)
	}
	return row
}

func TestCrosses(t *testing.T) {
	one, two := []plan.Move{{Old: []int{1}, New: []int{0}}}, []plan.Move{{Old: []int{2, 3}, New: []int{0, 1}}}
	for _, c := range []struct {
		name  string
		moves []plan.Move
		rows  [][]byte
		want  bool
	}{
		{"nothing", one, nil, false},
		{"each to its own place", one, [][]byte{rowOf("1", "11"), rowOf("2", "12")}, false},
		{"to itself", one, [][]byte{rowOf("1", "1"), rowOf("2", "2")}, false},
		{"one after the other", one, [][]byte{rowOf("2", "1"), rowOf("3", "2")}, true},
		{"exchanged", one, [][]byte{rowOf("2", "1"), rowOf("1", "2")}, true},
		{"NULL is nobody's", one, [][]byte{rowOf("", "1"), rowOf("1x", "")}, false},
		{"two columns", two, [][]byte{rowOf("1", "a", "1", "b"), rowOf("2", "b", "1", "a")}, true},
		{"one of two columns", two, [][]byte{rowOf("1", "a", "1", "b"), rowOf("2", "b", "2", "a")}, false},
		{"columns that run together", two, [][]byte{rowOf("1", "23", "x", "y"), rowOf("z", "z", "12", "3")}, false},
	} {
		if got := crosses(c.moves, c.rows) != nil; got != c.want {
			t.Errorf("%s: refused %v, want %v", c.name, got, c.want)
		}
	}
	if err := crosses(one, [][]byte{{0, 1}}); err == nil {
		t.Error("a row without its values is taken for one")
	}
}
