package proxy

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/directory"
	"weft/heat/throttle"
	"weft/heat/verdict"
	"weft/parser"
)

const (
	// throttleShare is the share of a shard's work from which on a target is throttled while the shard is
	// saturated, and soleShare is that above which nobody else is there to be protected from a user or a statement.
	throttleShare = 0.1
	soleShare     = 0.95
	// adjustTimeout bounds how long automatic throttles may keep the judge from the next second.
	adjustTimeout = 800 * time.Millisecond
)

// adjustThrottles makes automatic throttles of what was found in a second.
func (s *Server) adjustThrottles(ctx context.Context, facts *verdict.Facts, found []verdict.Finding) {
	conf := s.conf().Heat
	if conf.Throttle.Mode == "" {
		return
	}
	ctx, stop := context.WithTimeout(ctx, adjustTimeout)
	defer stop()
	c := culprits{facts: facts, found: found, snap: s.cfg.Snapshot(), exempt: func(user string) bool { return conf.Exempt[user] || user == s.cfg.ServiceUser }}
	s.keeper.throttles.Adjust(ctx, conf.Throttle, c.all())
}

// culprits finds who has much of the work of saturated shards.
type culprits struct {
	facts  *verdict.Facts
	found  []verdict.Finding
	snap   *directory.Snapshot
	exempt func(user string) bool
}

// all returns the culprits of all saturated shards: keys, else users, else statements.
func (c *culprits) all() (out []throttle.Hot) {
	for i := range c.found {
		f := &c.found[i]
		if f.Kind != verdict.Shard || f.Verdict != verdict.Saturated {
			continue
		}
		for _, find := range []func(shard *verdict.Finding) []throttle.Hot{c.keys, c.users, c.statements} {
			if hot := find(f); len(hot) > 0 {
				out = append(out, hot...)
				break
			}
		}
	}
	return out
}

// culprit is a target with a share of a shard's work.
func culprit(t throttle.Target, class verdict.Class, share, calls float64, shard *verdict.Finding, what string) throttle.Hot {
	classes := map[verdict.Class]throttle.Class{verdict.Read: throttle.Read, verdict.Write: throttle.Write, verdict.Mixed: throttle.Any}
	return throttle.Hot{
		Target: t, Class: classes[class], Share: share, Calls: calls, Pressing: shard.Presses(),
		Reason: fmt.Sprintf("%s is saturated, the %s has %.0f %% of its work", shard.On, what, 100*share),
	}
}

// keys are hot keys of a shard whose whole value is known: hashes of keys are not unique.
func (c *culprits) keys(shard *verdict.Finding) (out []throttle.Hot) {
	for i := range c.found {
		f := &c.found[i]
		if f.Kind != verdict.Key || f.Verdict != verdict.Hot || f.On != shard.On || f.Share < throttleShare {
			continue
		}
		target, ok := foundKey(f, c.snap)
		if !ok {
			continue
		}
		out = append(out, culprit(target, f.Class, f.Share, f.Calls, shard, "key"))
	}
	return out
}

// users are those who have much of a shard's work, if others are there too.
func (c *culprits) users(shard *verdict.Finding) (out []throttle.Hot) {
	cost, calls := map[string]float64{}, map[string]float64{}
	for i := range c.facts.Recent.Statements.Entries {
		e := &c.facts.Recent.Statements.Entries[i]
		if e.Name.Shard == shard.On {
			cost[e.Name.User] += e.Count - e.Error
			calls[e.Name.User] += e.Load.Calls()
		}
	}
	all := c.facts.Recent.Shards[shard.On].Load.Cost()
	for user, n := range cost {
		if share := ratio(n, all); share >= throttleShare && share <= soleShare && len(cost) > 1 && !c.exempt(user) {
			out = append(out, culprit(throttle.Target{Kind: throttle.User, Name: user}, verdict.Mixed, share, calls[user], shard, "user"))
		}
	}
	// The heaviest alone: the others are those that are to be protected.
	slices.SortFunc(out, func(a, b throttle.Hot) int {
		if a.Share != b.Share {
			return map[bool]int{true: -1, false: 1}[a.Share > b.Share]
		}
		return strings.Compare(a.Target.Name, b.Target.Name)
	})
	return out[:min(len(out), 1)]
}

// statements are hot statements of a shard.
func (c *culprits) statements(shard *verdict.Finding) (out []throttle.Hot) {
	for i := range c.found {
		f := &c.found[i]
		if f.Kind != verdict.Statement || f.Verdict != verdict.Hot || f.On != shard.On || f.Share > soleShare || c.exempt(f.User) {
			continue
		}
		target := throttle.Target{Kind: throttle.Statement, Database: f.Database, Statement: statementID(parser.Statement(f.Text))}
		if !slices.ContainsFunc(out, func(h throttle.Hot) bool { return h.Target.Same(&target) }) {
			out = append(out, culprit(target, verdict.Mixed, f.Share, f.Calls, shard, "statement"))
		}
	}
	return out
}
