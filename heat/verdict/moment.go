package verdict

import "weft/heat"

// Warming returns the keys that have enough of the work of their shards, in the last moment, to be called warm once that has
// lasted. Only keys with many statements are among them: a long statement has much of a moment, and of a moment only. place is as
// in Facts.
func Warming(m *heat.Moment, place func(database string, bucket int32) string) map[heat.Name]bool {
	out := map[heat.Name]bool{}
	for i := range m.Keys.Entries {
		e := &m.Keys.Entries[i]
		if e.Load.Calls() >= leastCalls && share(e.Count-e.Error, m.Shards[place(e.Name.Database, e.Bucket)]) >= warmKey {
			out[e.Name] = true
		}
	}
	return out
}
