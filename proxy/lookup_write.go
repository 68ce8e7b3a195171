package proxy

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"weft/executor"
	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
	"weft/wire"
)

// A statement that lookups must follow is carried out by weft even if it visits one shard only:
// the client is told of the statement when the lookups have followed.

// visitWhole finds the one shard that runs the client's statement as it is.
func (lk *lookups) visitWhole(r *router, x *gathering, w *plan.Whole) error {
	if g := x.plan.Generate; g != nil && len(x.progress.supplied) == len(g.Values) {
		// The values were drawn by an earlier attempt.
		r.args.Generated = append(r.args.Generated[:0], x.progress.supplied...)
	} else if g != nil {
		if err := lk.s.drawn.generate(r, x.plan); err != nil {
			return err
		}
		x.progress.supplied = slices.Clone(r.args.Generated)
	}
	if err := lk.lookUp(r, x.plan, x.plan.Instances); err != nil {
		return err
	}
	for {
		shards, err := r.bind.Bind(x.plan, lk.s.route.snap, &r.args)
		if err != nil {
			return err
		}
		one, ok := shards.One()
		if !ok {
			return x.plan.Refusal
		}
		if len(shards.Missing) == 0 {
			if len(w.Conflict) > 0 {
				if err = lk.askItems(x, w.Conflict); err != nil {
					return err
				}
				if one, err = lk.claim(r, x, w.Conflict, one); err != nil {
					return err
				}
			}
			x.rounds.visit(one, 0)
			return nil
		}
		if err := lk.s.route.enterMissing(shards.Missing); err != nil {
			return err
		}
		lk.s.route.refresh()
	}
}

// appendWhole appends the client's own statement, with generated values as further parameters.
func (x *gathering) appendWhole(dst []byte, l *leg) ([]byte, error) {
	text, values, types := string(x.req.text), x.req.values, x.d.Params
	if g := x.plan.Generate; g != nil {
		edits, err := executor.ParamEdits(g, x.req.text, x.req.literals, len(x.plan.Params))
		if err != nil {
			return dst, err
		}
		text = edits.Apply(text)
		if values, err = executor.AppendBind(nil, values, x.progress.supplied); err != nil {
			return dst, err
		}
	}
	given := appendOIDs(nil, types)
	oids, err := l.translate.ParseOIDs(given)
	if err != nil {
		return dst, untranslatable(err)
	}
	if values, err = l.translate.Bind(values, given); err != nil {
		return dst, untranslatable(err)
	}
	dst = wire.AppendParse(dst, "", text, oids)
	dst, at := wire.Begin(dst, wire.Bind)
	dst = append(dst, 0, 0)
	dst = append(append(dst, values...), x.req.formats...)
	dst = wire.End(dst, at)
	if l.translate != nil && x.write.Returns {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	return wire.AppendEmpty(appendExecute(dst), wire.Sync), nil
}

// lookupClaim is a value that has been entered into a lookup before its row is
// stored.
type lookupClaim struct {
	lookup, entry string
	shard         int // where the entry is
}

// strictLookups are the lookups in which ON CONFLICT claims values that a trigger may change.
// Only claimed values may be stored there: conflicts of other values have not been looked for.
func (x *gathering) strictLookups() map[string]bool {
	var out map[string]bool
	add := func(keys []*plan.LookupKey) {
		for _, k := range keys {
			if k.Triggered {
				if out == nil {
					out = map[string]bool{}
				}
				out[k.Name] = true
			}
		}
	}
	switch s := x.write.Shape.(type) {
	case *plan.Whole:
		add(s.Conflict)
	case *plan.Rows:
		for i := range s.Rows {
			add(s.Rows[i].Conflict)
		}
	case *plan.Local, *plan.AtHome, *plan.Share, *plan.Stream, *plan.Copies, *plan.Own, *plan.Locking:
	}
	return out
}

// claim enters the values of a row into the lookups that ON CONFLICT asks, and returns the
// shard that the INSERT goes to: the shard of the row that has one of the values already, else
// the row's own. From now on, other transactions that want to store these values wait.
func (lk *lookups) claim(r *router, x *gathering, keys []*plan.LookupKey, own int) (int, error) {
	at := slices.IndexFunc(x.plan.Instances, func(in plan.Instance) bool { return in.Stored })
	if at < 0 {
		return 0, x.plan.Refusal
	}
	places := []int{own}
	err := lk.claimRows(r, x, places, func(int) (*plan.Instance, []*plan.LookupKey) { return &x.plan.Instances[at], keys })
	return places[0], err
}

// claimRows is claim for several rows. places are the shards of the rows, which claimRows
// changes. Of several rows with the same value the first gets it, and the others go to the
// shard of the first.
func (lk *lookups) claimRows(r *router, x *gathering, places []int, row func(i int) (*plan.Instance, []*plan.LookupKey)) error {
	if lk.s.held.conn != nil {
		if err := lk.s.held.park(); err != nil {
			return err
		}
	}
	_, keys := row(0)
	taken := make([]bool, len(places)) // whether another row has the value already
	for n := range keys {
		lists := map[int]*claiming{}
		for i := range places {
			in, keys := row(i)
			if taken[i] {
				continue
			}
			entry, shard, ok := r.bind.Claim(x.plan, in, keys[n], x.progress.items[keys[n]], lk.s.route.snap, &r.args)
			switch {
			case !ok:
				return pgerr.New(pgerr.FeatureNotSupported, "a value that lookup %q has to be asked for cannot be told", keys[n].Name).
					WithHint("Give it as a constant or a parameter of the column's type.")
			case entry == "":
				continue
			case lists[shard] == nil:
				lists[shard] = &claiming{lookup: keys[n].Name, shard: shard}
			}
			lists[shard].rows, lists[shard].entries = append(lists[shard].rows, i), append(lists[shard].entries, entry)
		}
		// One shard after the other, always in the same order, as transactions that claim wait
		// for each other.
		for _, shard := range slices.Sorted(maps.Keys(lists)) {
			if err := lk.claimAt(x, lists[shard], places, taken); err != nil {
				return err
			}
		}
	}
	return nil
}

// claiming are the claims of one lookup whose entries are on one shard.
type claiming struct {
	lookup  string
	shard   int
	rows    []int
	entries []string
}

// claimAt enters values on one shard, in portions.
func (lk *lookups) claimAt(x *gathering, c *claiming, places []int, taken []bool) error {
	for len(c.rows) > 0 {
		n, size := 0, 0
		for n < len(c.rows) && size < maxApply {
			size += len(c.entries[n]) + 1
			n++
		}
		if err := lk.claimSome(x, c, n, places, taken); err != nil {
			return err
		}
		c.rows, c.entries = c.rows[n:], c.entries[n:]
	}
	return nil
}

// claimSome enters the first n values. It notes claims that succeed, and sends a row to the
// shard of the row that has its value.
func (lk *lookups) claimSome(x *gathering, c *claiming, n int, places []int, taken []bool) error {
	legs, err := lk.lookupLegs([]int{c.shard}, func(int) lookupCall { return callOf(c.lookup, "claim", strings.Join(c.entries[:n], ",")) })
	if err != nil {
		return err
	}
	if err := lk.s.tx.noteWriter(legs[0].conn); err != nil {
		_ = lk.s.legs.endLegs(legs, true)
		return err
	}
	lk.s.gather.sendLegs(legs)
	for i := range n {
		var row []byte
		if row, err = legs[0].Next(); err != nil {
			break
		}
		fields, ok := rowFields(row, 1)
		if !ok {
			err = wire.ErrMalformed
			break
		}
		if len(fields[0]) == 0 {
			x.progress.claims = append(x.progress.claims, lookupClaim{c.lookup, c.entries[i], c.shard})
			continue
		}
		var other int64
		if other, err = strconv.ParseInt(string(fields[0]), 10, 64); err != nil {
			break
		}
		x.progress.met = append(x.progress.met, lookupClaim{c.lookup, c.entries[i], c.shard})
		if to, ok := lk.s.route.shardOf(lk.groupOf(c.lookup), vindex.ID(other)); ok {
			x.progress.astray = x.progress.astray || places[c.rows[i]] != to
			places[c.rows[i]], taken[c.rows[i]] = to, true
		}
	}
	if ended := lk.s.legs.endLegs(legs, err != nil); ended != nil {
		err = ended
	}
	return err
}
