package twopc

import (
	"errors"
	"testing"

	"weft/pgerr"
)

func TestReadOutcome(t *testing.T) {
	for _, c := range []struct {
		status string
		err    error
		want   Outcome
		fails  bool
	}{
		{"committed", nil, Committed, false},
		{"aborted", nil, Aborted, false},
		{"in progress", nil, Open, false},
		{"", nil, Forgotten, false},
		{"", pgerr.New(pgerr.InvalidParameterValue, "transaction ID 9 is in the future"), Aborted, false},
		{"", pgerr.New(pgerr.QueryCanceled, "canceled"), Open, true},
		{"", errors.New("connection reset"), Open, true},
		{"perhaps", nil, Open, true},
	} {
		got, err := ReadOutcome(c.status, c.err)
		if got != c.want || (err != nil) != c.fails {
			t.Errorf("%q, %v: %v, %v", c.status, c.err, got, err)
		}
	}
}

// TestNext: no participant ends otherwise than the decider has, and none is
// left that could still prepare or is prepared.
func TestNext(t *testing.T) {
	for _, c := range []struct {
		decided Outcome
		found   Found
		want    Step
	}{
		{Committed, Found{true, Open}, Commit},
		{Committed, Found{false, Open}, Wait},
		{Committed, Found{false, Committed}, Done},
		{Committed, Found{false, Aborted}, Missing},
		{Committed, Found{false, Forgotten}, Done},
		{Aborted, Found{true, Open}, Rollback},
		{Aborted, Found{false, Open}, End},
		{Aborted, Found{false, Aborted}, Done},
		{Aborted, Found{false, Forgotten}, Done},
		{Open, Found{true, Open}, Wait},
		{Open, Found{false, Aborted}, Wait},
		{Forgotten, Found{true, Open}, Wait},
	} {
		if got := Next(c.decided, c.found); got != c.want {
			t.Errorf("decided %v, found %+v: %v, want %v", c.decided, c.found, got, c.want)
		}
	}
}
