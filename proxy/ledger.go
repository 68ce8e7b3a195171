package proxy

import (
	"context"
	"time"

	"weft/console"
	"weft/proxy/ledger"
	"weft/twopc"
)

// newLedger returns the list of transactions that a failover can still harm.
func newLedger(s *Server) *ledger.Ledger {
	return ledger.New(ledger.Config{
		Log: s.log, Proxy: s.cfg.Proxy, Views: s.keeper.seeker.Views, Store: s.cfg.Keeps.Losses,
		Fates: func(ctx context.Context, database string, list []twopc.Decision) ([]twopc.Fate, error) {
			return s.left.Resolver().Fates(ctx, database, list)
		},
	})
}

// reportHarm notes a transaction of which a resolver has found a part missing.
func (k *keeper) reportHarm(database string, f twopc.Fate) {
	_ = k.ledger.Report(k.s.ctx, database, f) // logs its errors
}

// weigh finds out whether a failover of a shard could lose its part of the transaction. Then all participants enter their parts in weft.part.
func (cm *commit) weigh(a *agreement) {
	seeker := cm.s.srv.keeper.seeker
	v := seeker.View(a.name.Decider)
	g := cm.s.held.conn.Generation()
	waits, _ := v.Waits(g)
	a.decision.Decider = twopc.Member{Shard: a.name.Decider, Server: ledger.Server(g), Replicated: waits}
	risky := ledger.Risky(v, a.decision.Decider.Replicated)
	for _, m := range a.decision.Members {
		risky = risky || ledger.Risky(seeker.View(m.Shard), m.Replicated)
	}
	if !risky || a.name.Timeline == 0 {
		return
	}
	for i := range a.decision.Members {
		a.decision.Members[i].Listed = true
	}
}

// enterLedger enters a transaction that a failover can still harm: it is committed, or may be.
func (cm *commit) enterLedger(a *agreement) {
	if len(a.decision.Members) == 0 || !a.decision.Members[0].Listed || a.Outcome() == twopc.Aborted {
		return
	}
	cm.s.srv.keeper.ledger.Add(&ledger.Entry{
		Database: cm.s.db.Name, Decision: a.decision, Committed: a.ended, Ended: time.Now(), Told: a.Outcome() == twopc.Committed && a.lateness() == nil,
	})
}

// Losses implements console.Source.
func (a adminSource) Losses(ctx context.Context) []console.Loss {
	list, err := a.srv.keeper.ledger.All(ctx)
	if err != nil {
		a.srv.log.Warn("the transactions that failovers have harmed cannot be read", "err", err)
	}
	out := make([]console.Loss, len(list))
	for i, l := range list {
		out[i] = console.Loss(l)
	}
	return out
}
