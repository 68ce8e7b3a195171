package proxy

import (
	"fmt"
	"strings"
	"testing"

	"weft/datum"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

var deedNames = []string{
	refusePlan: "refuse", callFunction: "call", denyParameters: "deny", runEverywhere: "every", drawValues: "draw", findShards: "find",
	enterValues: "enter", runHome: "home", runAtHand: "hand", runFree: "free", runAtClock: "clock", runAtCursor: "cursor", runOnCopy: "copy",
	runOnShard: "shard", gatherShards: "gather", takeAnswer: "answer",
}

// planOf makes a plan, and the facts of a text, of the words that describe them.
func planOf(t *testing.T, words string) (*plan.Plan, *parser.Facts) {
	p, f := &plan.Plan{Refusal: pgerr.New(pgerr.FeatureNotSupported, "refused")}, &parser.Facts{}
	for _, w := range strings.Fields(words) {
		switch w {
		case "home":
			p.Route = plan.Home
		case "any":
			p.Route = plan.Any
		case "copies":
			p.Route = plan.AnyCopy
		case "keyed":
			p.Route = plan.Keyed
		case "every":
			p.Route = plan.Every
		case "gathered":
			p.Route = plan.Gathered
		case "call":
			p.Route = plan.Call
		case "refused":
			p.Route = plan.Refused
		case "unread":
			p.Route, p.Unread = plan.Refused, true
		case "timed":
			p.Timed = true
		case "$1":
			p.Params = make([]datum.Type, 1)
		case "generate":
			p.Generate = &plan.Generate{}
		case "gather":
			p.Across = &plan.Gather{}
		case "write":
			p.Across = &plan.Write{}
		case "copy":
			p.Across = &plan.Copy{}
		case "postponed":
			p.Across = &plan.Postponed{}
		case "lookups":
			p.Lookups = true
		case "strays":
			p.Strays = true
		case "hold":
			f.Effects |= parser.HoldCursor
		case "advisory":
			f.Effects |= parser.AdvisoryLock
		default:
			t.Fatalf("unknown word %q", w)
		}
	}
	return p, f
}

// deeds compares a table of plans against what is decided in each standing.
func deeds(t *testing.T, table string, standings []standing) {
	for _, line := range strings.Split(table, "\n") {
		words, want, ok := strings.Cut(line, "|")
		if !ok {
			continue
		}
		p, f := planOf(t, words)
		var got []string
		for _, in := range standings {
			got = append(got, deedNames[decidePlanned(p, f, in)])
		}
		if fmt.Sprint(got) != fmt.Sprint(strings.Fields(want)) {
			t.Errorf("%s: %v, want %v", strings.TrimSpace(words), got, strings.Fields(want))
		}
	}
}

// TestDecidePlanned: every shape of a plan, in every manner, without and in a block. late: the
// home shard is not the one that told the block the time.
func TestDecidePlanned(t *testing.T) {
	const table = `
		                 simple query                     bind                             parse
		                 none    block   late    cursor   none    block   late    cursor   none    block   late
		home           | home    home    home    cursor   home    home    home    cursor   home    home    home
		home $1        | home    home    home    cursor   home    home    home    cursor   home    home    home
		home timed     | home    home    gather  cursor   home    home    gather  cursor   home    home    gather
		any            | hand    hand    hand    cursor   hand    hand    hand    cursor   hand    hand    hand
		any $1         | hand    hand    hand    cursor   hand    hand    hand    cursor   hand    hand    hand
		any timed      | hand    hand    clock   cursor   hand    hand    clock   cursor   hand    hand    clock
		any advisory   | home    home    home    cursor   home    home    home    cursor   home    home    home
		any hold       | home    home    home    cursor   home    home    home    cursor   home    home    home
		copies         | copy    hand    hand    cursor   copy    hand    hand    cursor   hand    hand    hand
		copies $1      | deny    deny    deny    deny     copy    hand    hand    cursor   hand    hand    hand
		copies timed   | copy    hand    clock   cursor   copy    hand    clock   cursor   hand    hand    hand
		copies hold    | home    home    home    cursor   home    home    home    cursor   hand    hand    hand
		gathered       | gather  gather  gather  cursor   gather  gather  gather  cursor   home    home    home
		gathered $1    | deny    deny    deny    deny     gather  gather  gather  cursor   home    home    home
		gathered generate | draw draw    draw    draw     gather  gather  gather  cursor   home    home    home
		every          | every   every   every   every    every   every   every   every    every   every   every
		every $1       | every   every   every   every    every   every   every   every    every   every   every
		call           | call    call    call    call     call    call    call    call     call    call    call
		call $1        | call    call    call    call     call    call    call    call     call    call    call
		refused        | refuse  refuse  refuse  refuse   refuse  refuse  refuse  refuse   refuse  refuse  refuse
		refused $1     | deny    deny    deny    deny     refuse  refuse  refuse  refuse   refuse  refuse  refuse
		unread         | refuse  refuse  refuse  refuse   refuse  refuse  refuse  refuse   refuse  refuse  refuse
		unread $1      | refuse  refuse  refuse  refuse   refuse  refuse  refuse  refuse   refuse  refuse  refuse
		keyed          | find    find    find    cursor   find    find    find    cursor   hand    hand    hand
		keyed $1       | deny    deny    deny    deny     find    find    find    cursor   hand    hand    hand
		keyed timed    | find    find    find    cursor   find    find    find    cursor   hand    hand    hand
		keyed generate | draw    draw    draw    draw     draw    draw    draw    draw     hand    hand    hand
		keyed lookups write | gather gather gather cursor gather  gather  gather  cursor   hand    hand    hand
		keyed strays write  | gather gather gather cursor gather  gather  gather  cursor   hand    hand    hand
	`
	var standings []standing
	for _, how := range []manner{asQuery, asBind, asParse} {
		standings = append(standings, standing{how: how}, standing{how: how, open: true}, standing{how: how, open: true, clocked: true, late: true})
		if how != asParse {
			standings = append(standings, standing{how: how, open: true, cursor: true})
		}
	}
	deeds(t, table, standings)
}

// TestDecideKeyed: what becomes of keyed plans when their keys have been looked at.
func TestDecideKeyed(t *testing.T) {
	const table = `
		                          one shard                     any shard          several  no entry         misfit
		                          home    other   late          none    block               none    block
		keyed                   | shard   shard   shard         shard   free       refuse   enter   enter    hand
		keyed gather            | shard   shard   shard         shard   free       gather   enter   enter    hand
		keyed write             | shard   shard   shard         shard   free       gather   enter   enter    hand
		keyed copy              | shard   shard   shard         shard   free       gather   enter   enter    hand
		keyed postponed         | shard   shard   shard         shard   free       gather   enter   enter    hand
		keyed timed             | shard   shard   gather        shard   free       refuse   enter   enter    hand
		keyed timed gather      | shard   shard   gather        shard   free       gather   enter   enter    hand
		keyed hold              | shard   shard   shard         shard   free       refuse   enter   enter    hand
		keyed hold gather       | shard   gather  gather        gather  free       gather   enter   enter    hand
		keyed generate          | shard   shard   shard         shard   free       refuse   enter   enter    hand
		keyed lookups write     | gather  gather  gather        gather  gather     gather   gather  gather   hand
		keyed strays write      | gather  gather  gather        gather  gather     gather   gather  gather   hand
	`
	for _, how := range []manner{asQuery, asBind} {
		deeds(t, table, []standing{
			{how: how, drawn: true, found: onOne, home: true},
			{how: how, drawn: true, found: onOne},
			{how: how, drawn: true, found: onOne, open: true, clocked: true, late: true},
			{how: how, drawn: true, found: onAny},
			{how: how, drawn: true, found: onAny, open: true},
			{how: how, drawn: true, found: onSeveral},
			{how: how, drawn: true, found: onOne, missing: true},
			{how: how, drawn: true, found: onOne, missing: true, open: true},
			{how: asMisfit},
		})
	}
}

// TestDecidePlannedCost: a decision makes no garbage.
func TestDecidePlannedCost(t *testing.T) {
	p, f := planOf(t, "keyed gather")
	n := testing.AllocsPerRun(100, func() {
		if decidePlanned(p, f, standing{how: asBind}) != findShards || decidePlanned(p, f, standing{how: asBind, found: onOne}) != runOnShard {
			t.Fail()
		}
	})
	if n != 0 {
		t.Errorf("%v allocations", n)
	}
}
