package twopc

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"weft/quote"
)

// Listed is a line, for operators, about a transaction of several shards that has not ended on
// all of them.
type Listed struct {
	GID      string // name of the prepared transaction, or key of the decision
	Database string
	Shard    string
	State    string // StatePrepared, StatePledged, StateCommitted or StateUnreachable
	Age      time.Duration
	Role     string // role that prepared the transaction
	Proxy    string // proxy that commits the transaction
	Decider  string // the shard that decides
	// Participants are the shards besides the deciding one, if the decision has been found.
	Participants []string

	doubt InDoubt
}

// States.
const (
	StatePrepared    = "prepared"    // the shard waits for the decision
	StatePledged     = "pledged"     // a client has prepared the transaction, and it waits for that client
	StateCommitted   = "committed"   // the deciding shard has committed; other shards may still have to follow
	StateUnreachable = "unreachable" // the shard could not be asked
)

// List looks for transactions that have not ended on all shards. A shard that cannot be reached
// is listed as a line, and reported as an error.
func (r *Resolver) List(ctx context.Context, shards, databases []string) (list []Listed, err error) {
	members := map[string][]string{}
	var errs []error
	var doubts []InDoubt
	for _, shard := range shards {
		lines, err := r.listOn(ctx, shard, databases, members)
		list = append(list, lines...)
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %s: %w", shard, err))
			list = append(list, Listed{Shard: shard, State: StateUnreachable})
		}
	}
	for i := range list {
		if list[i].State == StatePrepared {
			doubts = append(doubts, list[i].doubt)
		}
	}
	open := r.openPledges(ctx, doubts)
	for i := range list {
		n, ok := ParseName(list[i].GID)
		if !ok {
			continue
		}
		if list[i].Participants = members[n.Key()]; open[n.Key()] {
			list[i].State = StatePledged
		}
	}
	return list, errors.Join(errs...)
}

// listOn lists the prepared transactions and the decisions of one shard. members collects the
// participants of the decisions by key.
func (r *Resolver) listOn(ctx context.Context, shard string, databases []string, members map[string][]string) (list []Listed, err error) {
	for i, database := range databases {
		err := r.on(ctx, shard, database, func(c Conn) error {
			if i == 0 { // the query lists the transactions of all databases
				rows, err := c.Exec(FindSQL(r.Cluster))
				if err != nil {
					return err
				}
				for _, d := range ReadFound(shard, rows) {
					if d.Participant != shard {
						continue // belongs to another shard on the same server
					}
					list = append(list, Listed{
						GID: d.GID(), Database: d.Database, Shard: shard, State: StatePrepared, Age: d.Age, Role: d.Owner,
						Proxy: d.Incarnation, Decider: d.Decider, doubt: d,
					})
				}
			}
			pledged, err := c.Exec(pledgesSQL)
			if err != nil {
				return err
			}
			for _, row := range pledged {
				ms, _ := strconv.ParseInt(row[2], 10, 64)
				list = append(list, Listed{GID: row[0], Database: database, Shard: shard, State: StatePledged, Age: time.Duration(ms) * time.Millisecond, Role: row[1]})
			}
			rows, err := c.Exec("SELECT pg_catalog.to_regclass('weft.decision') IS NOT NULL")
			if err != nil || len(rows) == 0 || rows[0][0] != "t" {
				return err
			}
			rows, err = c.Exec("SELECT d.gid, d.participants, (1000 * pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - d.decided))::bigint " +
				"FROM weft.decision d, weft.own o WHERE pg_catalog.starts_with(d.gid, " + quote.Literal(Prefix(r.Cluster)) + ") AND " + genuine + " ORDER BY d.decided LIMIT 1000")
			if err != nil {
				return err
			}
			for _, row := range rows {
				n, ok := ParseName(row[0])
				if !ok || n.Decider != shard {
					continue
				}
				d := ParseDecision(row[0], row[1])
				for _, m := range d.Members {
					members[d.Key] = append(members[d.Key], m.Shard)
				}
				ms, _ := strconv.ParseInt(row[2], 10, 64)
				list = append(list, Listed{
					GID: d.Key, Database: database, Shard: shard, State: StateCommitted, Age: time.Duration(ms) * time.Millisecond,
					Proxy: n.Incarnation, Decider: n.Decider,
				})
			}
			return nil
		})
		if err != nil {
			return list, err
		}
	}
	return list, nil
}

// Settle ends the prepared transactions of a list by force, and then removes the decisions that
// no participant needs any more. It returns how many transactions are left, beside those that are
// left to the clients that have prepared them.
func (r *Resolver) Settle(ctx context.Context, list []Listed, announced func(key string) bool) (left int, err error) {
	var doubts []InDoubt
	type place struct{ shard, database string }
	var swept []place
	for _, l := range list {
		switch l.State {
		case StatePrepared:
			doubts = append(doubts, l.doubt)
		case StatePledged:
		case StateCommitted:
			if p := (place{l.Shard, l.Database}); !slices.Contains(swept, p) {
				swept = append(swept, p)
			}
		default:
			left++
		}
	}
	n, err := r.Resolve(ctx, doubts, func(InDoubt) Urgency { return Force })
	for _, p := range swept {
		err = errors.Join(err, r.Sweep(ctx, p.shard, p.database, func(d Decision) bool { return d.Announced && announced(d.Key) }))
	}
	return left + n, err
}
