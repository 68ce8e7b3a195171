package proxy

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"weft/executor"
	"weft/pgerr"
	"weft/plan"
	"weft/reshard"
	"weft/vindex"
)

// A statement that gives no shard key may give the value of a column that has a lookup. The
// lookup's table, spread over the shards by its values, says where the rows are. The
// statement's own conditions still find the rows: a surplus entry costs a visit only. No entry
// is missing, as the transaction that wrote the row wrote its entry, too. Where an entry may be
// missing, because a shard has not followed yet, the lookup says so and all shards are visited.

// lookUp asks the lookups where the rows of these instances are. It puts the answers into the
// router's arguments.
func (lk *lookups) lookUp(r *router, p *plan.Plan, instances []plan.Instance) error {
	if !p.Looks {
		return nil
	}
	clear(r.args.Found)
	for i := range instances {
		in := &instances[i]
		if in.Lookup == nil || r.args.Found[in.Lookup] != nil {
			continue
		}
		// The entries must be as old as the rows that the statement will see.
		if err := lk.s.tx.takeSnapshots(); err != nil {
			return err
		}
		if lk.s.route.touch.noting() {
			if err := lk.s.route.touch.enterAll(reshard.Read); err != nil {
				return err
			}
		}
		f, err := lk.find(r, p, in)
		if err != nil {
			return err
		}
		if r.args.Found == nil {
			r.args.Found = map[*plan.LookupKey]*executor.Found{}
		}
		r.args.Found[in.Lookup] = f
	}
	return nil
}

// find asks one lookup.
func (lk *lookups) find(r *router, p *plan.Plan, in *plan.Instance) (*executor.Found, error) {
	wanted, ok := r.bind.Wants(p, in, lk.s.route.snap, &r.args)
	if !ok {
		return &executor.Found{Unsure: true}, nil
	}
	f := &executor.Found{}
	for _, w := range wanted {
		slices.Sort(w.Values)
		rows, err := lk.askProved(lk.s.held.laneOf(lk.s.route.snap, w.Shard).lane, callOf(in.Lookup.Name, "find", strings.Join(slices.Compact(w.Values), ",")))
		var e *pgerr.Error
		if errors.As(err, &e) && (e.Code == pgerr.UndefinedFunction || e.Code == pgerr.UndefinedTable || e.Code == "3F000") {
			return &executor.Found{Unsure: true}, nil // the lookup has just been dropped
		}
		if err != nil {
			return nil, err
		}
		for _, row := range rows {
			if row[0] == "" {
				return &executor.Found{Unsure: true}, nil
			}
			n, err := strconv.ParseInt(row[0], 10, 64)
			if err != nil {
				return nil, err
			}
			f.IDs = append(f.IDs, vindex.ID(n))
		}
	}
	return f, nil
}
