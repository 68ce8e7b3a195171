package planner

import (
	"reflect"

	"weft/datum"
)

// colocated reports whether equal keys of two tables are on the same shard.
func colocated(a, b *table) bool {
	if a.Reference || b.Reference || a.broken != nil || b.broken != nil || len(a.keys) != len(b.keys) {
		return false
	}
	if a.Group != b.Group {
		return false // the rows of one are on their way
	}
	if a.vindex.Kind != b.vindex.Kind || a.vindex.Name != b.vindex.Name || a.vindex.Buckets != b.vindex.Buckets || !sameParams(a.vindex.Params, b.vindex.Params) {
		return false
	}
	for i := range a.keys {
		if class(datum.Type(a.keys[i].Type)) != class(datum.Type(b.keys[i].Type)) {
			return false
		}
	}
	return true
}

func sameParams(a, b map[string]any) bool {
	return len(a) == 0 && len(b) == 0 || reflect.DeepEqual(a, b)
}
