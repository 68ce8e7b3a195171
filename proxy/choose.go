package proxy

import (
	"weft/executor"
	"weft/parser"
	"weft/plan"
	"weft/pool"
)

// choice is what is to be done with a planned statement. If one shard runs the text, lane is
// that shard's; the home shard's if every shard does.
type choice struct {
	do   deed
	lane *pool.Lane
}

// choose decides what is to be done with a text of that plan, and takes the steps on the way:
// it draws values, looks at keys and makes lookup entries. r.args has the text, and the values
// of a Bind. Statements come here by outset.choose.
func (rt *routing) choose(r *router, p *plan.Plan, text []byte, f *parser.Facts, how manner) (choice, error) {
	home, err := rt.s.held.away.begin(p, text, f, how)
	if err != nil {
		return choice{}, err
	}
	in := standing{how: how, open: rt.s.tx.isOpen(), clocked: rt.s.tx.isOpen() && rt.s.tx.clock != nil, late: p.Timed && rt.s.tx.late(home)}
	var at *pool.Lane
	var atErr error
	if how != asParse {
		at, atErr = rt.s.portals.cursorsOf(text, p, f)
		in.cursor = at != nil || atErr != nil
	}
	var missing []executor.Missing
	if len(p.Lots) > 0 && how != asParse {
		if err := rt.s.drawn.ensureLots(p); err != nil {
			return choice{}, err
		}
	}
	rt.touch.begin()
	for {
		do := decidePlanned(p, f, in)
		rt.touch.expectDeed(do, p, f)
		var err error
		switch do {
		case drawValues:
			err, in.drawn = rt.s.drawn.drawFor(r, p, how), true
		case findShards:
			r.bind.Noting = rt.touch.noting()
			if p.Policed {
				r.args.Settings = customsDuring(&rt.s.record, f)
			}
			at, missing, err = rt.findShards(r, p, &in)
			rt.touch.expectKeyed(r, p, f)
		case enterValues:
			// Another session may give a value another place meanwhile, so look again.
			err, in.found, in.missing = rt.enterMissing(missing), unsought, false
			rt.refresh()
		case runEverywhere, denyParameters:
			return choice{do, rt.s.lane}, nil
		case runHome:
			lane, err := rt.s.held.away.home()
			return choice{do, lane}, err
		case runAtHand, runFree:
			lane, err := rt.s.held.away.hand()
			return choice{do, lane}, err
		case runAtClock:
			return choice{do, rt.s.tx.clock.Lane()}, nil
		case runAtCursor:
			return choice{do, at}, atErr
		case runOnCopy:
			lane, err := rt.s.held.away.lane(int(rt.s.id) % len(rt.snap.Shards))
			return choice{do, lane}, err
		case runOnShard:
			return choice{do, at}, nil
		default:
			return choice{do: do}, nil
		}
		if err != nil {
			return choice{}, err
		}
	}
}

// findShards looks at the keys of a plan and notes what they lead to. It returns the lane of
// the shard, if it is one, and the values that have no lookup entry yet.
func (rt *routing) findShards(r *router, p *plan.Plan, in *standing) (*pool.Lane, []executor.Missing, error) {
	r.args.ASCII = rt.s.out.encoding != "UTF8"
	if err := rt.s.lookups.lookUp(r, p, p.Instances); err != nil {
		r.args.Settings = nil
		return nil, nil, err
	}
	rt.touch.routed = rt.snap
	r.args.Watch, r.args.Database = rt.s.srv.counts.heat.watch.Load(), rt.s.db.Name
	if r.rules != nil {
		r.args.Limits = r.rules.Places
	}
	r.args.Hot = r.hot
	shards, err := r.bind.Bind(p, rt.snap, &r.args)
	r.args.Watch, r.args.Limits, r.args.Hot, r.args.Settings = nil, nil, nil, nil // sessions of other databases borrow the router too
	if err != nil {
		return nil, nil, err
	}
	r.hotKey = r.bind.Hot()
	if r.rules != nil {
		r.noteFound(shards, rt.snap)
	}
	if in.how != asParse {
		rt.s.account.noteUsed(r.bind.Used(), p.Writes)
	}
	one, ok := shards.One()
	if !ok {
		in.found = onSeveral
		return nil, nil, nil
	}
	lane, err := rt.s.held.away.lane(one)
	if err != nil {
		return nil, nil, err
	}
	if in.found = onOne; shards.Any() {
		in.found = onAny
	}
	if p.Explain != nil && r.bind.Policed() != nil {
		rt.s.out.tell(ledBy(r.bind.Policed(), rt.snap.Shards[one].Name))
	}
	if p.Explain != nil && p.Routine != "" {
		rt.s.out.tell(runsWhole(p.Routine, rt.snap.Shards[one].Name))
	}
	in.missing, in.late, in.home = len(shards.Missing) > 0, p.Timed && rt.s.tx.late(lane), lane == rt.s.lane
	return lane, shards.Missing, nil
}

// makeReady makes the chosen backend ready for the text. It returns errMoved if the text has to
// be planned again.
func (rt *routing) makeReady(d choice, p *plan.Plan, text []byte, f *parser.Facts, how manner) error {
	err := rt.useFor(d.lane, p, f, d.do == runFree)
	if err == nil {
		err = rt.s.portals.settleCursors(text, f, how)
	}
	if err != nil {
		return err
	}
	rt.s.portals.noteCursor(text, f, nil)
	if err := rt.stillTrue(); err != nil {
		return err
	}
	rt.s.drawn.notePlanned(p, text, f)
	if rt.outset.crossing != nil {
		rt.outset.sail()
	}
	return nil
}

// notePlanned notes what a text of that plan does to sequences: they are on the home shard.
func (d *drawn) notePlanned(p *plan.Plan, text []byte, f *parser.Facts) {
	if p.Route == plan.Home || p.Route == plan.Any {
		d.noteSequences(f, text)
	}
}
