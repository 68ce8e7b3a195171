package schema

import (
	"slices"
	"strings"
	"testing"
)

// TestRanges: lists of buckets are written as they are read.
func TestRanges(t *testing.T) {
	for text, want := range map[string][]int{
		"0":        {0},
		"0-3":      {0, 1, 2, 3},
		"0-1,5":    {0, 1, 5},
		"3,5,7-63": append([]int{3, 5}, count(7, 63)...),
	} {
		got, err := ReadBuckets(text, 64)
		if err != nil || !slices.Equal(got, want) || Ranges(want) != text {
			t.Errorf("%s: %v, %v, %s", text, got, err, Ranges(want))
		}
	}
	for _, bad := range []string{"", "x", "1-", "-1", "5-4", "64", "0-64", "1,,2"} {
		if _, err := ReadBuckets(bad, 64); err == nil || !strings.Contains(err.Error(), "no bucket") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func count(from, to int) (out []int) {
	for ; from <= to; from++ {
		out = append(out, from)
	}
	return out
}

// TestCutHash: the hash at the end of a row is added up and cut off.
func TestCutHash(t *testing.T) {
	s := &splitter{}
	for _, row := range []string{"1\tx\t-5\n", "\\N\t7\n"} {
		got, err := s.cutHash([]byte(row))
		if err != nil || string(got) != row[:strings.LastIndexByte(row, '\t')]+"\n" {
			t.Errorf("%q: %q, %v", row, got, err)
		}
	}
	if s.sum != 2 {
		t.Errorf("the sum is %d", s.sum)
	}
	for _, row := range []string{"1\n", "1\tx\n"} {
		if _, err := s.cutHash([]byte(row)); err == nil {
			t.Errorf("%q has a hash", row)
		}
	}
}
