package supervisor

import "slices"

// standing is what a primary says of one of its standbys.
type standing struct {
	name      string
	streaming bool  // the standby has caught up once, and follows
	sync      bool  // commits wait for it
	flushed   int64 // how far the standby has the log on disk
}

// quorum is whom commits wait for, and which standbys have every acknowledged commit.
//
// Commits wait for all standbys that stream: so each of them may be promoted. A name
// among those that commits wait for proves nothing yet, for two reasons: backends take
// notice of a changed setting a moment later, and the standby may lack what was
// committed before. So a standby is proven when it has what the log held when the
// primary had long known of the name.
type quorum struct {
	names  []string         // whom commits wait for, sorted
	marks  map[string]int64 // the position which a standby must have to be proven
	proven map[string]bool
}

func newQuorum() *quorum {
	return &quorum{marks: map[string]int64{}, proven: map[string]bool{}}
}

// look takes what the primary says while its log ends at now. It returns whether the
// names have changed; the caller then tells the primary. The time between two looks is
// long enough for backends to take notice of changed names.
func (q *quorum) look(now int64, all []standing) (changed bool) {
	var names []string
	for _, st := range all {
		if !st.streaming {
			continue
		}
		names = append(names, st.name)
		mark, marked := q.marks[st.name]
		switch {
		case !slices.Contains(q.names, st.name) || !st.sync:
		case !marked:
			q.marks[st.name] = now
		case st.flushed >= mark:
			q.proven[st.name] = true
		}
	}
	for _, name := range q.names {
		if !slices.Contains(names, name) {
			q.forget(name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	changed = !slices.Equal(names, q.names)
	q.names = names
	return changed
}

// drop takes out a standby that is known to be gone, and returns whether commits
// waited for it. The caller then tells the primary.
func (q *quorum) drop(name string) (changed bool) {
	i := slices.Index(q.names, name)
	if i < 0 {
		return false
	}
	q.names = slices.Delete(q.names, i, i+1)
	q.forget(name)
	return true
}

func (q *quorum) forget(name string) {
	delete(q.marks, name)
	delete(q.proven, name)
}
