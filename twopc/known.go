package twopc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/pgerr"
	"weft/quote"
)

// EndKnown ends the prepared transactions whose deciding shard knows how they ended, all at once, and returns those that are left: the deciding
// transaction is open, or a shard does not answer. No transaction is forced to an end.
func (r *Resolver) EndKnown(ctx context.Context, found []InDoubt) (left []InDoubt, err error) {
	type place struct{ decider, database string }
	groups := map[place][]InDoubt{}
	var places []place
	for _, d := range found {
		at := place{d.Decider, d.Database}
		if groups[at] == nil {
			places = append(places, at)
		}
		groups[at] = append(groups[at], d)
	}
	lefts, errs := make([][]InDoubt, len(places)), make([]error, len(places))
	atOnce(len(places), func(i int) {
		lefts[i], errs[i] = r.endGroup(ctx, places[i].decider, places[i].database, groups[places[i]])
	})
	return slices.Concat(lefts...), errors.Join(errs...)
}

// mostAtOnce bounds what atOnce does at the same time.
const mostAtOnce = 8

// atOnce calls f with the numbers up to n, several at once, and returns when all calls have.
func atOnce(n int, f func(i int)) {
	var wg sync.WaitGroup
	panicked := make([]error, n)
	free := make(chan struct{}, mostAtOnce)
	for i := range n {
		free <- struct{}{}
		wg.Go(func() {
			defer func() { <-free }()
			defer pgerr.Recovered(&panicked[i])
			f(i)
		})
	}
	wg.Wait()
	for _, p := range panicked {
		pgerr.Raise(p)
	}
}

// endGroup is EndKnown for transactions with one deciding shard and database.
func (r *Resolver) endGroup(ctx context.Context, decider, database string, group []InDoubt) (left []InDoubt, err error) {
	known, err := r.decideAll(ctx, decider, database, group)
	if err != nil {
		return group, err
	}
	errs := make([]error, len(group))
	atOnce(len(group), func(i int) {
		if o := known[group[i].Key()]; o != Open {
			errs[i] = r.end(ctx, group[i], o)
		} else {
			errs[i] = ErrUndecided
		}
	})
	var told []error
	for i, err := range errs {
		if err == nil {
			continue
		}
		if left = append(left, group[i]); !errors.Is(err, ErrUndecided) {
			told = append(told, fmt.Errorf("%s: %w", group[i].GID(), err))
		}
	}
	return left, errors.Join(told...)
}

// glance is how long EndKnown waits for a deciding transaction that is open.
const glance = 20 * time.Millisecond

// decideAll finds out how the transactions of one deciding shard ended, by key.
func (r *Resolver) decideAll(ctx context.Context, decider, database string, group []InDoubt) (known map[string]Outcome, err error) {
	known = map[string]Outcome{}
	err = r.on(ctx, decider, database, func(c Conn) error {
		keys, newest := make([]string, len(group)), Name{Decider: decider}
		for i, d := range group {
			keys[i] = quote.Literal(d.Key())
			newest.Timeline = max(newest.Timeline, d.Timeline)
		}
		if err := since(c, newest); err != nil {
			return err
		}
		rows, err := c.Exec("SELECT d.gid FROM weft.decision d, weft.own o WHERE " + genuine + " AND d.gid IN (" + strings.Join(keys, ",") + ")")
		if err != nil {
			return err
		}
		for _, row := range rows {
			known[row[0]] = Committed
		}
		open := openPledges(group, func(string, string) (pledges, error) { return readPledges(c.Exec(preparedSQL)) })
		for _, d := range group {
			if known[d.Key()] != Open || open[d.Key()] {
				continue
			}
			o, err := ReadArbitration(c.Exec(ArbitrateSQL(d.Key(), glance.Milliseconds())))
			if err != nil {
				return err
			}
			if o == Open {
				if _, err := c.Exec("ROLLBACK"); err != nil {
					return err
				}
			}
			known[d.Key()] = o
		}
		return barrier(ctx, c, decider)
	})
	return known, err
}

// end ends a prepared transaction whose outcome is known. The decision of a committed one says first that it is this server that has it prepared,
// if a standby without a promise has taken over: otherwise the decision could never be confirmed.
func (r *Resolver) end(ctx context.Context, d InDoubt, o Outcome) error {
	if o == Committed {
		if err := r.adopt(ctx, d); err != nil {
			return err
		}
	}
	return r.Finish(ctx, d, o)
}

// adopt enters the present server of a participant, which has the transaction prepared, into the decision.
func (r *Resolver) adopt(ctx context.Context, d InDoubt) error {
	server := ""
	err := r.on(ctx, d.Shard, d.Database, func(c Conn) error {
		rows, err := c.Exec("SELECT weft.server()")
		if err != nil || len(rows) == 0 {
			return errors.Join(err, errNoAnswer(len(rows)))
		}
		server = rows[0][0]
		return nil
	})
	if err != nil {
		return err
	}
	return r.on(ctx, d.Decider, d.Database, func(c Conn) error {
		key := quote.Literal(d.Key())
		rows, err := c.Exec("SELECT d.participants FROM weft.decision d, weft.own o WHERE " + genuine + " AND d.gid = " + key)
		if err != nil || len(rows) == 0 {
			return err // a decision that is gone has been confirmed
		}
		was := ParseDecision(d.Key(), rows[0][0])
		if !was.adopt(d.Participant, server) {
			return nil
		}
		_, err = c.Exec("UPDATE weft.decision SET participants = " + quote.Literal(was.Participants()) + " WHERE gid = " + key + " AND participants = " + quote.Literal(rows[0][0]))
		return err
	})
}
