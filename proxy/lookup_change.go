package proxy

import (
	"errors"
	"slices"
	"strings"

	"weft/catalog"
	"weft/pgerr"
	"weft/plan"
	"weft/schema"
	"weft/wire"
)

// DDL may need lookups, or change which rows they have: package schema says how
// (schema/lookup_follow.go). The lookups follow on all shards in the transaction of the
// command, and the client hears of the command when they have.

// beforeLookups takes the steps that lookups need before the command. All shards take part in
// the block.
func (lk *lookups) beforeLookups(c *plan.Change) error {
	if c == nil || len(c.Lookups) == 0 {
		return nil
	}
	if err := lk.installLookups(); err != nil {
		return err
	}
	if !slices.ContainsFunc(c.Lookups, func(l plan.LookupChange) bool { return l.Kind == plan.Detaching }) {
		return nil
	}
	env, err := lk.s.route.environment()
	if err != nil {
		return err
	}
	for _, l := range c.Lookups {
		if l.Kind != plan.Detaching {
			continue
		}
		if err := lk.followSteps(schema.PartSteps(env.Schema, catalogName(l.Table), catalogName(l.Part), true), false); err != nil {
			return err
		}
	}
	return lk.s.held.useLane(lk.s.lane)
}

// installLookups installs the objects that shards need for lookups.
func (lk *lookups) installLookups() error {
	for i := range lk.s.route.snap.Shards {
		name := lk.s.route.snap.Shards[i].Name
		if _, err := lk.s.srv.keeper.owns.Ensure(lk.s.srv.ctx, name, lk.s.db.Name); err != nil {
			return err
		}
		if err := schema.InstallLookups(lk.s.srv.ctx, dialer{srv: lk.s.srv}, name, lk.s.db.Name, lk.s.srv.cfg.ServiceUser); err != nil {
			return err
		}
	}
	return nil
}

// afterLookups takes the steps that lookups need after the command. If it returns an error, the
// transaction has failed.
func (lk *lookups) afterLookups(c *plan.Change) error {
	lk.s.reach.beginGather()
	defer lk.s.reach.endGather()
	cat, err := catalog.Load(0, lk.s.route.askHome)
	if err != nil {
		return err
	}
	snap := lk.s.route.snap.Clone()
	for _, c := range lk.s.tx.changesLeft(lk.s.record.done.changes) {
		applyChange(snap, lk.s.db.Name, c)
	}
	var steps []*schema.LookupStep
	for _, l := range c.Lookups {
		table := catalogName(l.Table)
		for _, r := range c.Renames {
			if r.From == l.Table {
				table = catalogName(r.To)
			}
		}
		switch l.Kind {
		case plan.Uniques:
			more, err := schema.UniqueSteps(cat, snap, lk.s.db.Name, table)
			if err != nil {
				return err
			}
			for _, m := range more { // two columns of one command may need the same lookup
				if !slices.ContainsFunc(steps, func(x *schema.LookupStep) bool { return x.Name == m.Name }) {
					steps = append(steps, m)
				}
			}
		case plan.Attached:
			steps = append(steps, schema.PartSteps(cat, table, catalogName(l.Part), false)...)
		case plan.Rewritten:
			steps = append(steps, schema.AnewSteps(cat, table, l.Columns)...)
		}
	}
	if err := lk.followSteps(steps, true); err != nil {
		return err
	}
	return lk.keepWritten(&keeping{}) // removes the entries of rows that have gone
}

func catalogName(n plan.Name) catalog.Name { return catalog.Name{Schema: n.Schema, Name: n.Table} }

// followSteps takes steps on all shards. With keep, the entries are brought up to date after
// each step.
func (lk *lookups) followSteps(steps []*schema.LookupStep, keep bool) error {
	if len(steps) == 0 {
		return nil
	}
	if lk.s.held.conn != nil {
		if err := lk.s.held.park(); err != nil {
			return err
		}
	}
	all := make([]int, len(lk.s.route.snap.Shards))
	for i := range all {
		all[i] = i
	}
	for _, step := range steps {
		text, err := step.Text()
		if err != nil {
			return err
		}
		legs, err := lk.lookupLegs(all, func(int) lookupCall {
			return lookupCall{sql: schema.FollowSQL, args: []string{text}, proves: []string{"follow", text}}
		})
		if err != nil {
			return err
		}
		lk.s.gather.sendLegs(legs)
		if err = lk.s.legs.endLegs(legs, false); err == nil && keep {
			err = lk.keepLookups(slices.Clone(all), &keeping{})
		}
		if err != nil {
			return duplicated(step, err)
		}
	}
	return nil
}

// duplicated turns an error about an existing entry into one about an index that cannot be
// made.
func duplicated(step *schema.LookupStep, err error) error {
	var e *pgerr.Error
	if !errors.As(err, &e) || e.Code != pgerr.UniqueViolation {
		return err
	}
	_, value, found := strings.Cut(e.Detail, ")=(")
	if !found {
		return err
	}
	return step.Duplicated(strings.TrimSuffix(value, ") already exists."))
}

// beforeFollowing prepares what is done after a command, for lookups and for its body.
func (lk *lookups) beforeFollowing(e *spread) error {
	if err := lk.beforeLookups(e.plan.Change); err != nil {
		return err
	}
	return lk.s.util.beforeBody(e)
}

// finishFollowing does what is left to do after a command, and notes that the client can be
// told of it.
func (lk *lookups) finishFollowing(e *spread) error {
	if err := lk.s.util.afterBody(e); err != nil {
		return err
	}
	for _, f := range e.renumbers {
		if err := lk.s.gather.renumber(f); err != nil {
			return err
		}
	}
	if len(e.renumbers) > 0 {
		if err := lk.s.every.sealElsewhere(); err != nil {
			return err
		}
	}
	if len(e.plan.Change.Lookups) > 0 {
		if err := lk.afterLookups(e.plan.Change); err != nil {
			return err
		}
	}
	e.told = true
	return nil
}

// tellSpread tells the client of a command after its lookups have followed.
func (o *answers) tellSpread(e *spread) {
	if e.told {
		o.Grow()
		o.B = wire.AppendFrame(o.B, wire.CommandComplete, e.tag)
	}
}

// uniqueFirst makes the lookups of an index that is made CONCURRENTLY, while other sessions
// write: once a lookup is there, rows of other shards can no longer make the index fail.
func (lk *lookups) uniqueFirst(e *spread) error {
	for _, l := range e.plan.Change.Lookups {
		if l.Kind != plan.Uniques {
			continue
		}
		req := lk.s.util.newRequest()
		req.Table, req.Columns = catalogName(l.Table), l.Columns
		r := schema.LookupRequest{Request: *req, Unique: true, Index: l.Table.Table + "_" + strings.Join(l.Columns, "_") + "_idx"}
		if again := e.plan.Change.Again; again != nil {
			r.Index = again.Name.Table
		}
		if err := lk.s.srv.mover.CreateLookup(lk.s.srv.ctx, r, func(n *pgerr.Error) { lk.s.out.tell(n); _ = lk.s.out.flushClient() }); err != nil {
			return err
		}
		e.made = append(e.made, r)
	}
	return nil
}

// takeBack drops lookups whose index could not be made.
func (lk *lookups) takeBack(e *spread) {
	for _, r := range e.made {
		if err := lk.s.srv.mover.DropLookup(lk.s.srv.ctx, r); err != nil {
			lk.s.log.Warn("a lookup is left whose index could not be made", "table", r.Table.Name, "columns", r.Columns, "err", err)
		}
	}
	e.made = nil
}
