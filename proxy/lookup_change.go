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
// (schema/lookup_follow.go). It is done on all shards in the transaction of the command, and
// the client hears of the command when it is done.

// beforeLookups does what must be done before the command. The block has all shards.
func (s *Session) beforeLookups(c *plan.Change) error {
	if c == nil || len(c.Lookups) == 0 {
		return nil
	}
	if err := s.installLookups(); err != nil {
		return err
	}
	if !slices.ContainsFunc(c.Lookups, func(l plan.LookupChange) bool { return l.Kind == plan.Detaching }) {
		return nil
	}
	env, err := s.environment()
	if err != nil {
		return err
	}
	for _, l := range c.Lookups {
		if l.Kind != plan.Detaching {
			continue
		}
		if err := s.followSteps(schema.PartSteps(env.Schema, catalogName(l.Table), catalogName(l.Part), true), false); err != nil {
			return err
		}
	}
	return s.useLane(s.lane)
}

// installLookups makes what the shards need for lookups.
func (s *Session) installLookups() error {
	for i := range s.snap.Shards {
		name := s.snap.Shards[i].Name
		if _, err := s.srv.own(s.ctx, name, s.db.Name); err != nil {
			return err
		}
		if err := schema.InstallLookups(s.ctx, dialer{s.srv}, name, s.db.Name, s.srv.cfg.ServiceUser); err != nil {
			return err
		}
	}
	return nil
}

// afterLookups does what must be done after the command. An error has failed the
// transaction.
func (s *Session) afterLookups(c *plan.Change) error {
	s.beginGather()
	defer s.endGather()
	cat, err := catalog.Load(0, s.askHome)
	if err != nil {
		return err
	}
	snap := s.snap.Clone()
	for _, c := range s.changesLeft(s.done.changes) {
		applyChange(snap, s.db.Name, c)
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
			more, err := schema.UniqueSteps(cat, snap, s.db.Name, table)
			if err != nil {
				return err
			}
			for _, m := range more { // two columns of one command
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
	if err := s.followSteps(steps, true); err != nil {
		return err
	}
	return s.keepWriters() // what goes
}

func catalogName(n plan.Name) catalog.Name { return catalog.Name{Schema: n.Schema, Name: n.Table} }

// followSteps takes steps on all shards. With keep the lookups follow at once.
func (s *Session) followSteps(steps []*schema.LookupStep, keep bool) error {
	if len(steps) == 0 {
		return nil
	}
	if s.conn != nil {
		if err := s.park(); err != nil {
			return err
		}
	}
	all := make([]int, len(s.snap.Shards))
	for i := range all {
		all[i] = i
	}
	for _, step := range steps {
		text, err := step.Text()
		if err != nil {
			return err
		}
		legs, err := s.lookupLegs(all, func(int) lookupCall {
			return lookupCall{sql: schema.FollowSQL, args: []string{text}, proves: []string{"follow", text}}
		})
		if err != nil {
			return err
		}
		s.sendLegs(legs)
		if err = s.endLegs(legs, false); err == nil && keep {
			err = s.keepLookups(slices.Clone(all), nil)
		}
		if err != nil {
			return duplicated(step, err)
		}
	}
	return nil
}

// duplicated words an error about an entry that is there already as one about an
// index that cannot be made.
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

// beforeFollowing makes ready for what follows a command.
func (s *Session) beforeFollowing(e *spread) error {
	if err := s.beforeLookups(e.plan.Change); err != nil {
		return err
	}
	return s.beforeBody(e)
}

// followed does what is left of a command, and then tells the client that it is done.
func (s *Session) followed(e *spread) error {
	if err := s.afterBody(e); err != nil {
		return err
	}
	if len(e.plan.Change.Lookups) > 0 {
		if err := s.afterLookups(e.plan.Change); err != nil {
			return err
		}
	}
	e.told = true
	return nil
}

// tellSpread tells the client of a command that lookups have followed.
func (s *Session) tellSpread(e *spread) {
	if e.told {
		s.toClient.Grow()
		s.toClient.B = wire.AppendFrame(s.toClient.B, wire.CommandComplete, e.tag)
	}
}

// uniqueFirst makes the lookups of an index that is made CONCURRENTLY, while others
// write: when it is there the index cannot fail for what other shards have.
func (s *Session) uniqueFirst(e *spread) error {
	for _, l := range e.plan.Change.Lookups {
		if l.Kind != plan.Uniques {
			continue
		}
		req := s.newRequest()
		req.Table, req.Columns = catalogName(l.Table), l.Columns
		r := schema.LookupRequest{Request: *req, Unique: true, Index: l.Table.Table + "_" + strings.Join(l.Columns, "_") + "_idx"}
		if again := e.plan.Change.Again; again != nil {
			r.Index = again.Name.Table
		}
		if err := s.srv.mover.CreateLookup(s.ctx, r, func(n *pgerr.Error) { s.tell(n); _ = s.flushClient() }); err != nil {
			return err
		}
		e.made = append(e.made, r)
	}
	return nil
}

// takeBack drops lookups whose index could not be made.
func (s *Session) takeBack(e *spread) {
	for _, r := range e.made {
		if err := s.srv.mover.DropLookup(s.ctx, r); err != nil {
			s.log.Warn("a lookup is left whose index could not be made", "table", r.Table.Name, "columns", r.Columns, "err", err)
		}
	}
	e.made = nil
}
