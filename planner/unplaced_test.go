package planner

import "testing"

// TestUnplaced: the hint fits the reason, also where the key's name is of several words.
func TestUnplaced(t *testing.T) {
	for _, tc := range []struct {
		of            *unplaced
		message, hint string
	}{
		{nil, "this statement visits more than one shard", "Send it as a statement of its own."},
		{
			&unplaced{name: "o", key: "user id"}, "this statement visits more than one shard: o has no condition on user id",
			"Add user id = … to WHERE, or send it as a statement of its own.",
		},
		{
			&unplaced{name: "no known value", key: "id"}, "this statement visits more than one shard: no known value has no condition on id",
			"Add id = … to WHERE, or send it as a statement of its own.",
		},
		{
			&unplaced{name: "o", key: "id", stored: true}, "this statement visits more than one shard: o has no known value for id",
			"Give the shard key as a constant or a parameter, or send it as a statement of its own.",
		},
	} {
		if e := tc.of.refusal(); e.Message != tc.message || e.Hint != tc.hint {
			t.Errorf("%+v:\n%s\n%s", tc.of, e.Message, e.Hint)
		}
	}
}
