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

// Sweep removes the decisions in a database of a shard that all participants have confirmed,
// except those for which keep reports that they are still needed.
func (r *Resolver) Sweep(ctx context.Context, shard, database string, keep func(Decision) bool) error {
	var old []Decision
	err := r.on(ctx, shard, database, func(c Conn) error {
		// A query on a table that does not exist would put an error in the server's log.
		rows, err := c.Exec("SELECT pg_catalog.to_regclass('weft.decision') IS NOT NULL")
		if err != nil || len(rows) == 0 || rows[0][0] != "t" {
			return err
		}
		rows, err = c.Exec(forgedSQL)
		if err != nil {
			return err
		}
		if len(rows) == 1 && rows[0][0] != "0" {
			r.Log.Error("removed decisions that weft has not made", "shard", shard, "database", database, "rows", rows[0][0], "one", rows[0][1])
		}
		rows, err = c.Exec(SweepSQL(r.Cluster))
		for _, row := range rows {
			d := ParseDecision(row[0], row[1])
			ms, _ := strconv.ParseInt(row[2], 10, 64)
			if d.Age = time.Duration(ms) * time.Millisecond; d.Age < 0 {
				d.Age = unknownAge
			}
			if !keep(d) {
				old = append(old, d)
			}
		}
		return err
	})
	if err != nil || len(old) == 0 {
		return err
	}
	confirmed, err := r.confirmed(ctx, database, old)
	if len(confirmed) > 0 {
		r.stopAt(BeforeSweep)
		err = errors.Join(err, r.on(ctx, shard, database, func(c Conn) error {
			_, err := c.Exec(ForgetSQL(confirmed))
			return err
		}))
		r.stopAt(AfterSweep)
	}
	return err
}

// sweepAge is how old a decision must be before a resolver looks at it.
const sweepAge = 2 * time.Second

// unknownAge is the age of a decision that was made by a server whose clock is ahead.
const unknownAge = 24 * time.Hour

// forgedSQL removes all rows that weft has not entered, whatever their name: any role may enter
// rows, and rows without a proof mean nothing.
const forgedSQL = "WITH gone AS (DELETE FROM weft.decision d USING weft.own o WHERE NOT " + genuine + " RETURNING d.gid) SELECT count(*), min(gid) FROM gone"

// SweepSQL lists the decisions of a cluster that are older than sweepAge, or were made by a server whose clock is ahead of this one's.
func SweepSQL(cluster string) string {
	return fmt.Sprintf("SELECT d.gid, d.participants, (1000 * pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - d.decided))::bigint FROM weft.decision d, weft.own o "+
		"WHERE "+genuine+" AND pg_catalog.starts_with(d.gid, %s) AND d.decided NOT BETWEEN pg_catalog.clock_timestamp() - '%d ms'::interval AND pg_catalog.clock_timestamp() LIMIT 1000",
		quote.Literal(Prefix(cluster)), sweepAge.Milliseconds())
}

// ForgetSQL deletes decisions, without waiting for the disk: if a crash undoes the deletion, the
// next sweep finds the decisions again.
func ForgetSQL(keys []string) string {
	return "BEGIN; SET LOCAL synchronous_commit = off; DELETE FROM weft.decision WHERE gid IN (" + literals(keys) + "); COMMIT"
}

// confirmed returns the keys of the decisions that no participant waits for. A decision that is
// visible was committed, so all participants had prepared: a participant that is not prepared any
// more has followed, if its server is still the one that prepared, if a standby of that server was
// waited for and has taken over, or if its part is there. A shard that has left the cluster had followed before.
func (r *Resolver) confirmed(ctx context.Context, database string, decisions []Decision) (keys []string, err error) {
	look := r.looker(ctx, database, decisions)
	var errs []error
	for _, d := range decisions {
		n, ok := ParseName(d.Key)
		if !ok {
			continue
		}
		done, known := true, true
		f := Fate{Key: d.Key, Kept: []string{n.Decider}}
		for _, m := range d.Members {
			st := look(m.Shard)
			n.Participant = m.Shard
			gid := n.String()
			there := true
			switch {
			case st.left:
			case st.err != nil:
				errs = append(errs, fmt.Errorf("shard %s: %w", m.Shard, st.err))
				done, known = false, false
			case st.prepared[gid]:
				done, known = false, false
			case st.server != m.Server && !m.keptBy(st.server) && !st.parts[gid]:
				// A standby took over, or a backup was restored: the new server lacks the transaction. Without
				// weft.part it may have it all the same.
				r.reportLoss(gid, m, st.server)
				done, there = false, false
				known = known && m.Listed
			case (st.server == m.Server && !m.Replicated || st.parts[gid]) && !r.awaitKept(ctx, Member{Shard: m.Shard, Server: st.server}, st.at.Add(-d.Age), st.at):
				done = false
			}
			if there {
				f.Kept = append(f.Kept, m.Shard)
			} else {
				f.Lost = append(f.Lost, m.Shard)
			}
		}
		if known && len(f.Lost) > 0 {
			r.reportHarm(database, f)
		}
		if done {
			keys = append(keys, d.Key)
		}
	}
	slices.Sort(keys)
	return keys, errors.Join(errs...)
}

// partState is what a shard has of transactions that others have decided.
type partState struct {
	server   string
	prepared map[string]bool
	parts    map[string]bool // rows of weft.part, of members that were on another server
	at       time.Time       // when that was so
	left     bool            // the shard is not one of the cluster any more
	err      error
}

// looker returns a function that looks at a shard once.
func (r *Resolver) looker(ctx context.Context, database string, decisions []Decision) func(shard string) *partState {
	states := map[string]*partState{}
	return func(shard string) *partState {
		if st := states[shard]; st != nil {
			return st
		}
		st := &partState{prepared: map[string]bool{}, parts: map[string]bool{}}
		states[shard] = st
		st.err = r.on(ctx, shard, database, func(c Conn) error {
			rows, err := c.Exec("SELECT weft.server()")
			if err != nil || len(rows) == 0 {
				return errors.Join(err, errNoAnswer(len(rows)))
			}
			st.server = rows[0][0]
			rows, err = c.Exec(FindSQL(r.Cluster))
			for _, row := range rows {
				st.prepared[row[0]] = true
			}
			if err != nil {
				return err
			}
			if moved := movedParts(shard, st.server, decisions); len(moved) > 0 {
				if rows, err = c.Exec(partsSQL(moved)); err != nil {
					return err
				}
				for _, row := range rows {
					st.parts[row[0]] = true
				}
			}
			st.at = time.Now()
			return barrier(ctx, c, shard)
		})
		st.left = st.err != nil && r.Left != nil && r.Left(ctx, shard)
		return st
	}
}

// movedParts returns the names of the parts of a shard, which is on a server now, that it has entered in weft.part on another server.
func movedParts(shard, server string, decisions []Decision) (names []string) {
	for _, d := range decisions {
		n, ok := ParseName(d.Key)
		for _, m := range d.Members {
			if ok && m.Shard == shard && m.Listed && m.Server != server {
				n.Participant = shard
				names = append(names, n.String())
			}
		}
	}
	return names
}

// keptPatience is how long a sweep waits until the standbys of a participant have what it has confirmed: two probes, and more.
const keptPatience = 2 * time.Second

// awaitKept waits for a while until no failover of a participant takes back what was confirmed at a time, of a transaction that began at another.
func (r *Resolver) awaitKept(ctx context.Context, m Member, began, confirmed time.Time) bool {
	for ctx.Err() == nil && r.Kept != nil && !r.Kept(m.Shard, m.Server, began, confirmed) {
		if time.Since(confirmed) > keptPatience {
			return false
		}
		select {
		case <-ctx.Done():
		case <-time.After(50 * time.Millisecond):
		}
	}
	return ctx.Err() == nil
}
