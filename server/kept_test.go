package server

import "testing"

func TestNewest(t *testing.T) {
	a := Kept{Shard: "a", Number: 5, Content: "five"}
	b := Kept{Shard: "b", Number: 7, Content: "seven"}
	if got, err := Newest([]Kept{a, b, {Shard: "c", Number: 7, Content: "seven"}}); err != nil || got != b {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := Newest(nil); err == nil {
		t.Error("nothing is found in nothing")
	}
	if _, err := Newest([]Kept{b, {Shard: "c", Number: 7, Content: "other"}}); err == nil {
		t.Error("copies that differ are believed")
	}
	if got, err := Newest([]Kept{b, {Shard: "c", Number: 5, Content: "other"}}); err != nil || got != b {
		t.Errorf("an older one: %+v, %v", got, err)
	}
}
