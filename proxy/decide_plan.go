package proxy

import (
	"weft/parser"
	"weft/plan"
)

// manner is how the text of a planned statement has come.
type manner uint8

const (
	// asQuery: in a simple query, with all values in the text.
	asQuery manner = iota
	// asBind: with the values of a Bind.
	asBind
	// asMisfit: with a Bind that has not as many values as the statement has parameters.
	asMisfit
	// asParse: in a Parse that no Bind follows, so that no value is known.
	asParse
)

// finding is what the keys of a plan have led to.
type finding uint8

const (
	// unsought: the keys have not been looked at.
	unsought finding = iota
	// onOne: one shard has all rows.
	onOne
	// onAny: there can be no rows, so that any shard gives the same answer.
	onAny
	// onSeveral: rows may be on several shards.
	onSeveral
)

// standing is the state that, beside plan and facts, decides what is done with a planned
// statement.
type standing struct {
	how manner
	// open: a block is open, the client's or weft's. clocked: a shard has told that block
	// what the time is.
	open, clocked bool
	// late: the shard that would run the text, home if no shard has been found yet, has
	// joined the block later than the shard that told the time.
	late bool
	// cursor: the text is about cursors, which are on a shard that is known.
	cursor bool
	// drawn: the values that weft supplies have been drawn.
	drawn bool
	// found is what the keys have led to. missing: keys have no lookup entry yet. home: the
	// shard found is home.
	found         finding
	missing, home bool
}

// deed is what is to be done with a planned statement.
type deed uint8

const (
	// refusePlan: the client is told the plan's refusal.
	refusePlan deed = iota
	// callFunction: weft runs its own function.
	callFunction
	// runProgram: weft runs the statements of a program.
	runProgram
	// denyParameters: the home shard says that a simple query has no parameters.
	denyParameters
	// runEverywhere: every shard runs the text.
	runEverywhere
	// drawValues, findShards and enterValues are steps on the way, after which the deed is
	// decided again: weft draws the values that it supplies; the keys are looked at; keys
	// without a lookup entry get one.
	drawValues
	findShards
	enterValues
	// One shard runs the text: home; the shard at hand; the shard at hand, where the text
	// touches no row; the shard that told the block the time; the shard of the text's cursor;
	// any shard, as all have the rows; the shard that the keys lead to.
	runHome
	runAtHand
	runFree
	runAtClock
	runAtCursor
	runOnCopy
	runOnShard
	// gatherShards: several shards answer, or one shard under weft's guidance: the plan's
	// Gather, Write or Copy says how.
	gatherShards
	// takeAnswer: another session has executed the text meanwhile, for this one too.
	takeAnswer
)

// onOne reports whether one shard runs the text as it is.
func (d deed) onOne() bool { return d >= runHome && d <= runOnShard }

// decidePlanned says what is to be done with a planned statement. Simple queries, Parse and
// Bind all decide by it. They differ in this only:
//
//   - A simple query cannot have parameters. The home shard words the error.
//   - A simple query draws values for all its plans: it is carried out at once. A Bind draws
//     for keyed plans alone, as the values may be keys; a gathered portal draws when it is
//     executed.
//   - A Parse without a Bind has no values: a shard at hand parses the text, and the Bind
//     decides later. So it is with a Bind whose number of values is wrong: a shard says so.
//
// What stays apart around it: pg_export_snapshot and SET TRANSACTION SNAPSHOT concern all
// shards only in a simple query (see docs/differences.md); CLOSE ALL over several shards is
// refused in a Bind (see settleCursors); DECLARE and LOCK are refused between extended
// messages without a block (see needsBlock), while PostgreSQL takes a text of several
// statements for a block.
func decidePlanned(p *plan.Plan, f *parser.Facts, in standing) deed {
	holds := f.Effects&parser.HoldCursor != 0
	switch {
	case p.Unread:
		return refusePlan
	case p.Route == plan.Call:
		return callFunction
	case in.how == asQuery && len(p.Params) > 0 && p.Route != plan.Home && p.Route != plan.Any && p.Route != plan.Every:
		return denyParameters
	case p.Route == plan.Refused:
		return refusePlan
	case p.Route == plan.Program:
		return runProgram
	case p.Route == plan.Every:
		return runEverywhere
	case p.Generate != nil && !in.drawn && (in.how == asQuery || in.how == asBind && p.Route == plan.Keyed):
		return drawValues
	case in.cursor:
		return runAtCursor
	}
	switch p.Route {
	case plan.Any:
		switch {
		case needsHome(f):
			return runHome
		case p.Timed && in.clocked:
			return runAtClock
		}
		return runAtHand
	case plan.AnyCopy:
		switch {
		case in.how == asParse:
			return runAtHand
		case holds:
			return runHome
		case p.Timed && in.clocked:
			return runAtClock
		case in.open:
			return runAtHand
		}
		return runOnCopy
	case plan.Keyed:
		return decideKeyed(p, holds, in)
	case plan.Gathered:
		if in.how == asParse {
			return runHome
		}
		return gatherShards
	}
	if p.Timed && in.late {
		return gatherShards // a gathered statement is told the time of the block
	}
	return runHome
}

// decideKeyed is decidePlanned for a keyed plan. holds: the text declares a cursor WITH HOLD.
func decideKeyed(p *plan.Plan, holds bool, in standing) deed {
	switch {
	case in.how == asParse, in.how == asMisfit:
		return runAtHand
	case p.Lookups, p.Strays:
		return gatherShards // even on one shard
	case in.found == unsought:
		return findShards
	case in.found == onSeveral && p.Across != nil:
		return gatherShards
	case in.found == onSeveral:
		return refusePlan
	case in.found == onAny && in.open:
		return runFree
	case in.missing:
		return enterValues
	case p.Timed && in.late && p.Routine != "" && p.Explain == nil:
		return runProgram // each statement of it is told the time of the block
	case p.Timed && in.late:
		return gatherShards
	case holds && p.Gather() != nil && !in.home:
		return gatherShards // a cursor WITH HOLD is on the home shard
	}
	return runOnShard
}
