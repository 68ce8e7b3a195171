package proxy

import (
	"slices"

	"weft/directory"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/schema"
)

// A body with commands runs on every shard, and what it does may depend on what it finds there:
// IF NOT EXISTS (SELECT … FROM pg_type …) THEN. So the objects that each shard had before are
// compared with those it has afterwards, in the same transaction. If the shards have not done
// the same, all of them roll back.

// beforeBody notes the objects that the shards have before a body runs. All shards take part in
// the block.
func (u *utility) beforeBody(e *spread) error {
	if e.plan.Change == nil || !e.plan.Change.Body {
		return nil
	}
	if u.s.held.conn == nil {
		if err := u.s.held.useLane(u.s.lane); err != nil {
			return err
		}
	}
	if err := u.s.drawn.mayAsk(); err != nil {
		return err
	}
	var err error
	e.before, err = u.imprints()
	return err
}

// afterBody compares what the shards have done, and removes from the noted change what the body
// has not done.
func (u *utility) afterBody(e *spread) error {
	if !e.plan.Change.Body {
		return nil
	}
	u.s.reach.beginGather()
	defer u.s.reach.endGather()
	after, err := u.imprints()
	if err != nil {
		return err
	}
	home := u.s.route.homeShard()
	for i := range u.s.route.snap.Shards {
		if i == home {
			continue
		}
		if what := schema.Unlike(e.before[home], after[home], e.before[i], after[i]); what != "" {
			return pgerr.New(pgerr.FeatureNotSupported, "the shards have not done the same: %s", what).
				WithDetail("What it found on %s is not what it found on %s.", u.s.route.snap.Shards[home].Name, u.s.route.snap.Shards[i].Name).
				WithHint("Send its statements one by one. SELECT * FROM weft.schema_diff() lists what shards have differently.")
		}
	}
	u.settleBody(e.plan.Change, after[home])
	return nil
}

// imprints returns the objects of each shard.
func (u *utility) imprints() ([]schema.Imprint, error) {
	out, home := make([]schema.Imprint, len(u.s.route.snap.Shards)), u.s.route.homeShard()
	var err error
	if out[home], err = schema.ReadImprint(u.s.route.askHome); err != nil {
		return nil, err
	}
	return out, u.s.every.withOthers(func(shard int, c *pool.Conn) (err error) {
		out[shard], err = schema.ReadImprint(func(sql string) ([][]string, error) { return u.s.commit.askBeside(c, sql) })
		return err
	})
}

// homeShard is the number of the home shard.
func (rt *routing) homeShard() int {
	return slices.IndexFunc(rt.snap.Shards, func(sh directory.Shard) bool { return sh.Name == rt.snap.Home })
}

// settleBody removes from the noted change the drops and renames that have not happened.
func (u *utility) settleBody(c *plan.Change, now schema.Imprint) {
	at := slices.IndexFunc(u.s.record.done.changes, func(x changed) bool { return x.Change == c })
	if at < 0 || len(c.Drops)+len(c.Renames) == 0 {
		return
	}
	done := *c
	done.Drops = slices.DeleteFunc(slices.Clone(c.Drops), func(n plan.Name) bool { return now.Has(catalogName(n)) })
	done.Renames = slices.DeleteFunc(slices.Clone(c.Renames), func(r plan.Rename) bool {
		return now.Has(catalogName(r.From)) || !now.Has(catalogName(r.To))
	})
	u.s.record.done.changes[at].Change = &done
}
