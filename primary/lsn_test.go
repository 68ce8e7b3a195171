package primary

import (
	"encoding/json"
	"testing"
)

func TestLSN(t *testing.T) {
	for text, want := range map[string]LSN{"": 0, "0/0": 0, "0/16B3748": 0x16B3748, "A/1": 0xA00000001, "FFFFFFFF/FFFFFFFF": 1<<64 - 1} {
		got, err := ParseLSN(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v", text, got, err)
		}
		if text != "" && got.String() != text {
			t.Errorf("%q is written %s", text, got)
		}
	}
	for _, bad := range []string{"/", "0", "x/1", "0/x", "0/100000000", "0/1/2", "-1/0"} {
		if l, err := ParseLSN(bad); err == nil {
			t.Errorf("%q is %s", bad, l)
		}
	}
	b, err := json.Marshal(LSN(0x60002A8))
	var back LSN
	if err != nil || string(b) != `"0/60002A8"` || json.Unmarshal(b, &back) != nil || back != 0x60002A8 {
		t.Errorf("%s, %v, %s", b, err, back)
	}
}

func TestGeneration(t *testing.T) {
	parse := func(text string) Generation {
		g, err := ParseGeneration(text)
		if err != nil {
			t.Fatal(err)
		}
		if g.String() != text {
			t.Errorf("%q is written %s", text, g)
		}
		return g
	}
	for _, c := range []struct {
		a, b                   string
		above, parted, foreign bool
	}{
		{"7/2@0/60", "7/1", true, false, false},
		{"7/1", "7/2@0/60", false, false, false},
		{"7/2@0/60", "7/2@0/60", false, false, false},
		{"7/2@0/60", "7/2@0/50", false, true, false},
		{"7/2", "7/2@0/50", false, false, false},
		{"7/1", "7/0", true, false, false},
		{"7/3", "8/2", false, false, true},
		{"/3", "8/2", false, false, false},
	} {
		a, b := parse(c.a), parse(c.b)
		if a.Above(b) != c.above || a.Parted(b) != c.parted || a.Foreign(b) != c.foreign {
			t.Errorf("%s and %s: above %v, parted %v, foreign %v", a, b, a.Above(b), a.Parted(b), a.Foreign(b))
		}
	}
	for _, bad := range []string{"", "7", "7/x", "7/1@", "7/1@x", "7/99999999999"} {
		if g, err := ParseGeneration(bad); err == nil && bad != "7/1@" {
			t.Errorf("%q is %s", bad, g)
		}
	}
}
