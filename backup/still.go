package backup

import (
	"fmt"

	"weft/directory"
)

// unsettled says what is under way in the directory and must be over before a point is made, "" if nothing is.
func unsettled(s *directory.Snapshot) string {
	if len(s.Pending) > 0 {
		return fmt.Sprintf("a change of schemas in database %s is being committed", s.Pending[0].Database)
	}
	for i := range s.Moves {
		m := &s.Moves[i]
		if m.Round != nil {
			return fmt.Sprintf("job %s carries rows at the moment", m.ID)
		}
		if !m.Carries() {
			return fmt.Sprintf("job %s changes the set of shards", m.ID)
		}
	}
	return ""
}

// changed says what has changed in the directory while a point was made, "" if nothing that a backup has.
func changed(before, after *directory.Snapshot) string {
	if why := unsettled(after); why != "" {
		return why
	}
	a, errA := before.EncodeCopy()
	b, errB := after.EncodeCopy()
	switch {
	case errA != nil || errB != nil || a != b:
		return "declarations or the placement of rows have changed meanwhile"
	case !sameCounts(before.Schemas, after.Schemas):
		return "a schema has changed meanwhile"
	}
	return ""
}

// current returns an error if a point was made on a server that is not its shard's primary any more.
func current(s *directory.Snapshot, m *Manifest) error {
	for i := range s.Shards {
		if timeline := m.Marks[i].number(); timeline < s.Shards[i].Timeline {
			return &BusyError{Why: fmt.Sprintf("a server of shard %s with timeline %d took the point, and the primary has timeline %d", s.Shards[i].Name, timeline, s.Shards[i].Timeline)}
		}
	}
	return nil
}

func sameCounts(a, b map[string]int64) bool {
	if len(a) != len(b) {
		return false
	}
	for k, v := range a {
		if w, ok := b[k]; !ok || v != w {
			return false
		}
	}
	return true
}
