package proxy

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"weft/directory"
	"weft/plan"
	"weft/proxy/leftover"
	"weft/tally"
	"weft/twopc"
)

// newLeftover returns what ends the transactions that were left over.
func newLeftover(s *Server) *leftover.Keeper {
	return leftover.New(leftover.Config{
		Proxy: s.cfg.Proxy, Log: s.log, Directory: s.cfg.Directory, Snapshot: s.cfg.Snapshot,
		Dial: s.dialService, StopAt: s.cfg.StopAt, Guarded: s.guarded,
		Away: s.keeper.seeker.Away, Kept: s.keeper.seeker.Kept, Held: s.keeper.ledger.Holds, Harmed: s.keeper.reportHarm, Hung: s.keeper.vigil.Hung, Publish: s.keeper.publishSettled,
		Follow: s.keeper.leaveVacated, Guard: s.keeper.guard.Look, Refresh: s.keeper.owns.Refresh,
		CloseIdle: func(now time.Time) { s.service.CloseIdle(now.Add(-serviceIdle)) },
	})
}

// resolveLeft ends the transactions that were left over until ctx ends.
func (s *Server) resolveLeft(ctx context.Context) {
	defer s.service.End()
	s.left.Run(ctx)
}

// change is what a pending change does to the declarations if it commits (Do), and what it
// undoes if it does not (Undo).
type change struct {
	Do   []*plan.Change `json:"do,omitempty"`
	Undo []plan.Name    `json:"undo,omitempty"`
}

func (c change) encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // cannot happen: the fields are names and numbers only
	}
	return string(b)
}

// publishSettled publishes how a pending change has ended. late says that a shard has yet to
// follow.
func (k *keeper) publishSettled(ctx context.Context, p directory.Pending, outcome twopc.Outcome, late bool) error {
	var c change
	if err := json.Unmarshal([]byte(p.Change), &c); err != nil && p.Outcome == "" {
		return err
	}
	told := news{database: p.Database, schema: true, resequence: true, pending: p.ID, outcome: outcome, late: late}
	if outcome == twopc.Committed {
		told.changes = c.Do
	} else {
		told.undo = c.Undo
	}
	return k.publish(ctx, told)
}

// leaveToResolver leaves a commit to the resolver. If nothing is left to do about the commit,
// its decision is put down for deletion.
func (cm *commit) leaveToResolver() {
	a := cm.agreement
	if a == nil {
		return
	}
	cm.agreement = nil
	if a.Held() {
		cm.s.srv.left.Drop(a.name.Nonce)
		return
	}
	cm.s.srv.metrics.commits[a.Outcome()].Add(cm.s.id, tally.Now()-a.began)
	cm.enterLedger(a)
	cm.s.srv.left.Drop(a.name.Nonce)
	if a.Outcome() == twopc.Committed && a.Settled() && !a.told && a.regret == nil {
		cm.s.srv.left.Forget(a.name.Decider, cm.s.db.Name, a.decision, tally.Time(a.began))
	}
}

// stopAt lets tests end the process at this point.
func (k *keeper) stopAt(p twopc.Point) {
	if k.s.cfg.StopAt != nil {
		k.s.cfg.StopAt(p)
	}
}

// stopAtStep lets tests end the process at a step of a job of package schema.
func (k *keeper) stopAtStep(name string) {
	k.stopAt(twopc.Point(strings.ReplaceAll(name, " ", "-")))
}
