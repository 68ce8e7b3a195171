package sequence

import "testing"

func TestReadLot(t *testing.T) {
	for _, c := range []struct {
		what string
		row  []string
		lot  Lot
	}{
		{"none", []string{"1", "9223372036854775807", "9223372036854775807", "t", "", ""}, Lot{}},
		{"fresh", []string{"1", "2000", "1001", "f", "1001", "2000"}, Lot{1001, 2000, 1000}},
		{"begun", []string{"1", "2000", "1001", "t", "1001", "2000"}, Lot{1001, 2000, 999}},
		{"used up", []string{"1", "2000", "2000", "t", "1001", "2000"}, Lot{1001, 2000, 0}},
		{"by ten", []string{"10", "1045", "1005", "t", "1005", "1045"}, Lot{1005, 1045, 4}},
		{"restarted", []string{"1", "2000", "1", "f", "1001", "2000"}, Lot{}},
		{"longer than the lot", []string{"1", "9000", "1500", "t", "1001", "2000"}, Lot{}},
		{"backwards", []string{"-1", "2000", "1500", "t", "1001", "2000"}, Lot{}},
	} {
		if lot, err := ReadLot([][]string{c.row}); err != nil || lot != c.lot {
			t.Errorf("%s: %+v, %v, want %+v", c.what, lot, err, c.lot)
		}
	}
	for _, rows := range [][][]string{nil, {{"1"}}, {{"1", "x", "1", "t", "1", "2"}}} {
		if _, err := ReadLot(rows); err == nil {
			t.Errorf("%v: no error", rows)
		}
	}
}
