package twopc

import (
	"context"
	"time"
)

// KeptFor is how long resolvers of other proxies keep the decisions of a proxy that is alive, at least.
const KeptFor = time.Minute

// KeptFor is how long resolvers of other proxies keep the decision of a proxy that is alive. That proxy may need it to find out what a failover
// has lost, or, if there are no participants, how the transaction ended.
func (d *Decision) KeptFor() time.Duration {
	if len(d.Members) == 0 || d.listed() {
		return PartAge
	}
	return KeptFor
}

// certainFor is less than KeptFor: clocks differ, and an answer takes time.
const certainFor = KeptFor / 2

// Recheck finds out how a transaction ended that its deciding shard has answered COMMIT to, a time ago, after a participant's prepared transaction was ended
// by another process. It was committed, unless the deciding shard has failed over to a standby that lacks the commit, and a resolver has asked that
// one. The decision may be missing because all participants have confirmed, too: Open says that it cannot be told.
func (r *Resolver) Recheck(ctx context.Context, database string, n Name, ago time.Duration) (Outcome, error) {
	o, later := Open, false
	err := r.on(ctx, n.Decider, database, func(c Conn) (err error) {
		timeline, err := timelineOf(c)
		if err != nil {
			return err
		}
		if later = timeline > n.Timeline; timeline < n.Timeline {
			return ErrStale
		}
		o, err = ReadArbitration(c.Exec(ArbitrateSQL(n.Key(), askPatience.Milliseconds())))
		if err != nil {
			return err
		}
		if o == Open {
			_, _ = c.Exec("ROLLBACK")
		}
		return barrier(ctx, c, n.Decider)
	})
	switch {
	case err != nil:
		return Open, err
	case o == Aborted && (!later || n.Timeline == 0):
		return Committed, nil // COMMIT was answered on this very timeline: the decision was not needed any more
	case o == Aborted && ago > certainFor:
		return Open, nil
	}
	return o, nil
}
