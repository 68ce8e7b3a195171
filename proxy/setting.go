package proxy

import (
	"strconv"

	"weft/catalog"
	"weft/executor"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/proxy/custom"
)

// A plan may find its shard by a custom parameter that a policy of row security compares with the shard key. The
// session tells the value only if no other is possible: it knows what the client has set outside of a block, and
// which commands all participants of the block have run since. After anything else that may have set the
// parameter, such as a function that calls set_config, the value is unknown.

// customs is the record of a session as far as custom parameters go.
type customs record

var _ executor.Settings = (*customs)(nil)

// unsettledEffects are effects after which a parameter may have any value.
const unsettledEffects = parser.Opaque | parser.ChangesAllSettings | parser.DiscardAll

// customsDuring returns what is known of custom parameters while a statement runs, nil if the statement may change
// them itself. A cursor is left out as well: its rows are read later, perhaps under other values.
func customsDuring(rc *record, f *parser.Facts) executor.Settings {
	if f == nil || f.Effects&(unsettledEffects|parser.ChangesSettings|parser.Cursors) != 0 || rc.touches(f) != catalog.Untouched {
		return nil
	}
	return (*customs)(rc)
}

// Setting returns the value of a custom parameter. One that is empty counts as unknown: so does PostgreSQL leave a
// parameter that was never set but locally.
func (rc *customs) Setting(name string) (value string, known bool) {
	d := &rc.done
	if d.bits&unsettledEffects != 0 {
		return "", false
	}
	sets := 0
	for i := range d.sets {
		if d.sets[i].Name == name {
			sets++
		}
	}
	if sets > 0 {
		if !rc.s.tx.isOpen() {
			return "", false
		}
		value, set, ok := custom.Value(rc.s.tx.replay, name, sets)
		if !ok || set {
			return value, ok && value != ""
		}
	}
	value, known = rc.settings.Get(name)
	return value, known && value != ""
}

// runsWhole is what a client that sends EXPLAIN is told if the shard runs a whole routine, and weft does not run its statements.
func runsWhole(routine, shard string) *pgerr.Error {
	e := pgerr.New("00000", "function %s runs as a whole on shard %s: all its statements keep to the key that its argument gives", strconv.Quote(routine), strconv.Quote(shard))
	e.Severity = pgerr.SeverityNotice
	return e
}

// ledBy is what a client that sends EXPLAIN is told if row security has led to the shard. The shard's own plan
// follows, unchanged.
func ledBy(in *plan.Instance, shard string) *pgerr.Error {
	key := in.Table.Vindex.Columns()[0].Name
	e := pgerr.New("00000", "row security leads to shard %s: in %s %s = %s, by policy %s", strconv.Quote(shard), in.Name, key, in.Policy.Set[0].Text, strconv.Quote(in.Policy.Name))
	e.Severity = pgerr.SeverityNotice
	return e
}
