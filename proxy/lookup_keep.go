package proxy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/catalog"
	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/vindex"
	"weft/wire"
)

// Lookup tables follow their owners inside the same transaction. Triggers note on each shard
// what a statement has changed; weft fetches the notes after the statement, before the client
// is told of it, and writes the entries on the shards where their values belong. Package schema
// has the other half (schema/sql/lookup_make.sql).

// maxDrain bounds how many notes are fetched at once; a note has at most 2000 entries. maxApply
// bounds the entries in one statement, in bytes.
const (
	maxDrain = 50
	maxApply = 1 << 20
)

// keeping is what is known of a statement beside its notes.
type keeping struct {
	claims []lookupClaim // entries that have been made already
	met    []lookupClaim // entries that were not made because other rows had the values
	// strict are the lookups to which only claimed values may be added.
	strict map[string]bool
	// exchange says that rows that exchange their values are an error, as in PostgreSQL, which
	// checks uniqueness row by row: the row it changes first finds its value taken.
	exchange bool
}

// keeping returns what keepLookups has to know of a write.
func (x *gathering) keeping() *keeping {
	return &keeping{claims: x.progress.claims, met: x.progress.met, strict: x.strictLookups()}
}

// keepLookups brings the lookups up to date after a statement that has written on these shards.
// If it returns an error, the transaction has failed.
func (lk *lookups) keepLookups(shards []int, k *keeping) error {
	claimed := map[string]bool{}
	for _, c := range k.claims {
		claimed[c.lookup] = true
	}
	for len(shards) > 0 {
		notes := lookupNotes{entries: map[string]map[string]int{}}
		// The loop ends early so that many rows that are only added, as by COPY, are not held
		// all at once.
		for len(shards) > 0 && (notes.gone || len(notes.entries) == 0) {
			var err error
			if shards, err = lk.drainLookups(shards, &notes); err != nil {
				return err
			}
		}
		if len(notes.entries) == 0 {
			continue
		}
		// The schema is read now, not after an error: errors contain names that perhaps only
		// this transaction knows.
		env, err := lk.s.route.environment()
		if err != nil {
			return err
		}
		if k.exchange {
			if err := lk.refuseExchange(env.Schema, notes.entries); err != nil {
				return err
			}
		}
		gone := k.rowsGone(notes.entries)
		for name := range k.strict {
			if gone[name] {
				return rowGone(nil)
			}
		}
		calls, err := lk.applyCalls(notes.entries, claimed, k.strict)
		if err == nil {
			err = lk.applyLookups(calls)
		}
		if err != nil {
			return goneError(lookupError(env.Schema, err), takenIn(err), gone)
		}
	}
	return lk.applyLookups(releaseCalls(k.claims))
}

// keepWritten is keepLookups for all participants that have written.
func (lk *lookups) keepWritten(k *keeping) error {
	if lk.s.held.conn != nil {
		if err := lk.s.held.park(); err != nil {
			return err
		}
	}
	var shards []int
	for i := range lk.s.route.snap.Shards {
		lane := lk.s.held.laneOf(lk.s.route.snap, i).lane
		if slices.ContainsFunc(lk.s.held.parked, func(c *pool.Conn) bool {
			return c.Lane() == lane && c.Status() == wire.TxActive && (c == lk.s.tx.writer || slices.Contains(lk.s.tx.also, c))
		}) {
			shards = append(shards, i)
		}
	}
	return lk.keepLookups(shards, k)
}

// lookupNotes are the changes of entries that triggers have noted.
type lookupNotes struct {
	// entries count, by lookup and entry, how often the entry was added, less how often it was
	// removed. So the order of the changes does not matter.
	entries map[string]map[string]int
	gone    bool // an entry was removed
}

// drainLookups fetches notes of these shards, and returns the shards that may have more.
func (lk *lookups) drainLookups(shards []int, notes *lookupNotes) (more []int, err error) {
	legs, err := lk.lookupLegs(shards, func(int) lookupCall { return lookupCall{sql: drainSQL, proves: []string{"drain"}} })
	if err != nil {
		return nil, err
	}
	lk.s.gather.sendLegs(legs)
	for _, l := range legs {
		if err = lk.readNotes(l, notes); err != nil {
			break
		}
		if l.rows == maxDrain {
			more = append(more, l.shard)
		}
	}
	if ended := lk.s.legs.endLegs(legs, err != nil); ended != nil {
		err = ended
	}
	return more, err
}

// lookupLegs makes a leg with a call to each of these shards, which take part in the block.
func (lk *lookups) lookupLegs(shards []int, call func(shard int) lookupCall) (legs []*leg, err error) {
	defer func() {
		if err != nil {
			_ = lk.s.legs.endLegs(legs, true)
		}
	}()
	for _, shard := range shards {
		l, err := lk.s.legs.legFor(shard, false)
		if l != nil {
			legs = append(legs, l)
			lk.s.reach.track(legs)
		}
		if err != nil {
			return legs, err
		}
		if l.out, err = lk.appendCall(l.out, l.conn, call(shard)); err != nil {
			return legs, err
		}
	}
	return legs, nil
}

// readNotes reads the notes of one shard.
func (lk *lookups) readNotes(l *leg, notes *lookupNotes) error {
	for {
		row, err := l.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		fields, ok := rowFields(row, 3)
		if !ok {
			return wire.ErrMalformed
		}
		name, sign := string(fields[0]), 1
		if string(fields[1]) == "t" {
			sign, notes.gone = -1, true
		}
		if notes.entries[name] == nil {
			notes.entries[name] = map[string]int{}
		}
		for e := range bytes.SplitSeq(fields[2], []byte{','}) {
			if sign > 0 {
				if err := lk.rightPlace(l.shard, name, e); err != nil {
					return err
				}
			}
			notes.entries[name][string(e)] += sign
		}
	}
}

// rightPlace refuses a row that was stored on another shard than its key's: ON CONFLICT sends a
// row to the shard of the row it conflicts with.
func (lk *lookups) rightPlace(shard int, lookup string, entry []byte) error {
	_, id, err := splitEntry(entry)
	if err != nil {
		return err
	}
	if at, ok := lk.s.route.shardOf(lk.groupOf(lookup), id); !ok || at != shard {
		return rowGone(nil)
	}
	return nil
}

// groupOf returns the group of the table that has a lookup.
func (lk *lookups) groupOf(lookup string) string {
	rt := &lk.s.route
	if rt.env == nil || !slices.ContainsFunc(rt.snap.Declared(rt.s.db.Name), func(t directory.Table) bool { return t.Group != "" }) {
		return ""
	}
	if rel, _ := lookupNamed(rt.env.Schema, lookup); rel != nil {
		if t := rt.env.Tables.Find(rel.Schema, rel.Name.Name); t != nil {
			return t.Group
		}
	}
	return ""
}

// shardOf returns the shard that rows of a group with a keyspace ID are on.
func (rt *routing) shardOf(group string, id vindex.ID) (int, bool) {
	at := int(directory.PlacesIn(rt.snap).Of(group)[rt.snap.BucketOf(id)])
	return at, at < len(rt.snap.Shards)
}

// splitEntry returns the numbers that an entry begins with: that of its bucket, as directory.Numbering
// has it, and its keyspace ID.
func splitEntry(e []byte) (number int, id vindex.ID, err error) {
	first, rest, _ := bytes.Cut(e, []byte{':'})
	second, _, _ := bytes.Cut(rest, []byte{':'})
	number, err1 := strconv.Atoi(string(first))
	n, err2 := strconv.ParseInt(string(second), 10, 64)
	if err1 != nil || err2 != nil || number < 0 {
		return 0, 0, fmt.Errorf("the note %q of a lookup cannot be read", e)
	}
	return number, vindex.ID(n), nil
}

// rowFields splits a DataRow of text columns. It reports false if a column is NULL or their
// number is not want.
func rowFields(body []byte, want int) ([][]byte, bool) {
	if len(body) < 2 || int(binary.BigEndian.Uint16(body)) != want {
		return nil, false
	}
	body = body[2:]
	fields := make([][]byte, 0, want)
	for range want {
		if len(body) < 4 {
			return nil, false
		}
		n := int(int32(binary.BigEndian.Uint32(body)))
		if body = body[4:]; n < 0 || n > len(body) {
			return nil, false
		}
		fields, body = append(fields, body[:n]), body[n:]
	}
	return fields, true
}

// applyCalls returns the calls that write entries, by shard. In a lookup with claimed values,
// the entries replace the claims.
func (lk *lookups) applyCalls(notes map[string]map[string]int, claimed, strict map[string]bool) (map[int][]lookupCall, error) {
	out := map[int][]lookupCall{}
	for _, name := range slices.Sorted(maps.Keys(notes)) {
		type part struct{ gone, added []string }
		parts := map[int]*part{}
		for e, n := range notes[name] {
			number, _, err := splitEntry([]byte(e))
			if err != nil {
				return nil, err
			}
			bucket := directory.NumberingOf(lk.s.route.snap).Noted(number)
			if bucket >= len(lk.s.route.snap.Placement) || int(lk.s.route.snap.Placement[bucket]) >= len(lk.s.route.snap.Shards) {
				return nil, fmt.Errorf("an entry of lookup %s belongs to bucket %d, which no shard holds", name, bucket)
			}
			at := int(lk.s.route.snap.Placement[bucket])
			if parts[at] == nil {
				parts[at] = &part{}
			}
			for ; n > 0; n-- {
				parts[at].added = append(parts[at].added, e)
			}
			for ; n < 0; n++ {
				parts[at].gone = append(parts[at].gone, e)
			}
		}
		for at, p := range parts {
			// Sorted, so that two transactions that write the same values wait for each other
			// in one direction only. All removals come first.
			slices.Sort(p.gone)
			slices.Sort(p.added)
			for _, list := range chunked(p.gone) {
				out[at] = append(out[at], callOf(name, "apply", list, ""))
			}
			for _, list := range chunked(p.added) {
				if strict[name] {
					out[at] = append(out[at], callOf(name, "settle", list, "!"))
				} else if claimed[name] {
					out[at] = append(out[at], callOf(name, "settle", list, ""))
				} else {
					out[at] = append(out[at], callOf(name, "apply", "", list))
				}
			}
		}
	}
	return out, nil
}

// releaseCalls returns the calls, by shard, that take back claims for rows that were not
// stored.
func releaseCalls(claims []lookupClaim) map[int][]lookupCall {
	lists := map[int]map[string][]string{}
	for _, c := range claims {
		if lists[c.shard] == nil {
			lists[c.shard] = map[string][]string{}
		}
		lists[c.shard][c.lookup] = append(lists[c.shard][c.lookup], c.entry)
	}
	out := map[int][]lookupCall{}
	for shard, names := range lists {
		for _, name := range slices.Sorted(maps.Keys(names)) {
			for _, list := range chunked(names[name]) {
				out[shard] = append(out[shard], callOf(name, "settle", "", list))
			}
		}
	}
	return out
}

// chunked joins entries to lists of limited size.
func chunked(entries []string) []string {
	var out []string
	for len(entries) > 0 {
		size, n := 0, 0
		for n < len(entries) && (n == 0 || size < maxApply) {
			size += len(entries[n]) + 1
			n++
		}
		out = append(out, strings.Join(entries[:n], ","))
		entries = entries[n:]
	}
	return out
}

// applyLookups writes entries, round by round, on all shards at once. On each shard all
// removals come before additions; all entries of a value are on one shard.
func (lk *lookups) applyLookups(calls map[int][]lookupCall) error {
	for len(calls) > 0 {
		shards := slices.Sorted(maps.Keys(calls))
		legs, err := lk.lookupLegs(shards, func(shard int) lookupCall { return calls[shard][0] })
		if err != nil {
			return err
		}
		for _, l := range legs {
			if err = lk.s.tx.noteWriter(l.conn); err != nil {
				_ = lk.s.legs.endLegs(legs, true)
				return err
			}
		}
		lk.s.gather.sendLegs(legs)
		if err := lk.s.legs.endLegs(legs, false); err != nil {
			return err
		}
		for _, shard := range shards {
			if calls[shard] = calls[shard][1:]; len(calls[shard]) == 0 {
				delete(calls, shard)
			}
		}
	}
	return nil
}

// lookupError turns an error about a lookup's table into one about the table that owns the
// lookup.
func lookupError(schema *catalog.Schema, err error) error {
	var e *pgerr.Error
	name := takenIn(err)
	rel, l := lookupNamed(schema, name)
	if name == "" || l == nil || !errors.As(err, &e) {
		return err
	}
	told := *e
	told.Where, told.Schema, told.Table, told.Position = "", rel.Schema, rel.Name.Name, 0
	if name = l.Index; name == "" {
		name = l.Name
	}
	told.Message = strings.Replace(e.Message, e.Constraint, name, 1)
	told.Constraint = name
	var vs []string
	for i := range max(len(l.Columns), len(l.Items)) {
		vs = append(vs, "v"+strconv.Itoa(i+1))
	}
	told.Detail = strings.Replace(e.Detail, "("+strings.Join(vs, ", ")+")", "("+l.Key()+")", 1)
	return &told
}

// takenIn returns the lookup whose table has refused an entry, because there is one of the same
// value. It is empty for other errors.
func takenIn(err error) string {
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Schema != "weft" || e.Code != pgerr.UniqueViolation {
		return ""
	}
	return e.Table
}

// lookupNamed finds a lookup and its owner by name.
func lookupNamed(schema *catalog.Schema, name string) (*catalog.Relation, *catalog.Lookup) {
	for _, rel := range schema.LookedUp() {
		for i := range rel.Lookups {
			if rel.Lookups[i].Name == name {
				return rel, &rel.Lookups[i]
			}
		}
	}
	return nil, nil
}
