package proxy

import (
	"encoding/hex"
	"slices"
	"strings"

	"weft/catalog"
	"weft/pgerr"
	"weft/vindex"
)

// refuseExchange refuses entries of unique lookups that go round in a circle: each row of the
// circle gets the value that the next row had. PostgreSQL has checked the rows within each
// shard, so refuseExchange looks only for circles over several shards.
func (lk *lookups) refuseExchange(schema *catalog.Schema, notes map[string]map[string]int) error {
	for name, entries := range notes {
		rel, l := lookupNamed(schema, name)
		if l == nil || !l.Unique {
			continue
		}
		had := map[string]vindex.ID{}
		for e, n := range entries {
			if _, id, err := splitEntry([]byte(e)); err == nil && n < 0 {
				had[valueOf(e)] = id
			}
		}
		next, value := map[vindex.ID][]vindex.ID{}, map[vindex.ID]string{}
		for e, n := range entries {
			_, id, err := splitEntry([]byte(e))
			from, taken := had[valueOf(e)]
			if err != nil || n <= 0 || !taken || from == id {
				continue
			}
			next[id] = append(next[id], from)
			value[id] = valueOf(e)
		}
		round := goesRound(next)
		if slices.ContainsFunc(round, func(id vindex.ID) bool { return !lk.onOneShard(l.Name, id, round[0]) }) {
			return violated(rel, l, value[round[0]])
		}
	}
	return nil
}

// valueOf is an entry without its bucket and ID.
func valueOf(entry string) string {
	_, rest, _ := strings.Cut(entry, ":")
	_, value, _ := strings.Cut(rest, ":")
	return value
}

// onOneShard reports whether rows with these keyspace IDs are on one shard.
func (lk *lookups) onOneShard(lookup string, a, b vindex.ID) bool {
	group := lk.groupOf(lookup)
	x, ok := lk.s.route.shardOf(group, a)
	y, known := lk.s.route.shardOf(group, b)
	return !ok || !known || x == y
}

// goesRound finds IDs that lead to each other in a circle: it removes, again and again, all IDs
// that lead nowhere, and follows what is left.
func goesRound(next map[vindex.ID][]vindex.ID) []vindex.ID {
	left, before := map[vindex.ID]int{}, map[vindex.ID][]vindex.ID{}
	var ends []vindex.ID
	for id, list := range next {
		left[id] = len(list)
		for _, to := range list {
			before[to] = append(before[to], id)
			if len(next[to]) == 0 {
				ends = append(ends, to)
			}
		}
	}
	gone := map[vindex.ID]bool{}
	for len(ends) > 0 {
		id := ends[len(ends)-1]
		if ends = ends[:len(ends)-1]; gone[id] {
			continue
		}
		gone[id] = true
		for _, b := range before[id] {
			if left[b]--; left[b] == 0 {
				ends = append(ends, b)
			}
		}
	}
	for id := range next {
		if gone[id] {
			continue
		}
		// Every ID that is left leads to another that is left.
		var path []vindex.ID
		at := map[vindex.ID]int{}
		for seen := false; !seen; _, seen = at[id] {
			at[id] = len(path)
			path = append(path, id)
			id = next[id][slices.IndexFunc(next[id], func(to vindex.ID) bool { return !gone[to] })]
		}
		return path[at[id]:]
	}
	return nil
}

// violated is the error for a value that exists already.
func violated(rel *catalog.Relation, l *catalog.Lookup, value string) error {
	var texts []string
	for v := range strings.SplitSeq(value, ":") {
		b, err := hex.DecodeString(v)
		if err != nil {
			return err
		}
		if len(b) == 1 && b[0] == 1 { // see weft.lookup_derive
			b = []byte("null")
		}
		texts = append(texts, strings.ToValidUTF8(string(b), "?"))
	}
	name := l.Index
	if name == "" {
		name = l.Name
	}
	e := pgerr.New(pgerr.UniqueViolation, "duplicate key value violates unique constraint %q", name).
		WithDetail("Key (%s)=(%s) already exists.", l.Key(), strings.Join(texts, ", "))
	e.Schema, e.Table, e.Constraint = rel.Schema, rel.Name.Name, name
	return e
}
