package twopc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"weft/pgerr"
	"weft/primary"
	"weft/quote"
)

// Conn is a connection to a shard with one user, such as *pool.Conn.
type Conn interface {
	// Exec runs a simple query and returns its rows as text, NULL as "".
	Exec(sql string) ([][]string, error)
	// Interrupt ends a running Exec, from another goroutine.
	Interrupt()
	// Terminate closes the connection.
	Terminate()
}

// Resolver ends transactions that their proxy has left, and removes decisions that no participant
// needs any more. Any number of resolvers may work at once. A resolver needs no Driver: it commits
// nothing, and makes prepared transactions end as their deciding one has ended already.
type Resolver struct {
	Cluster string
	// Dial opens a connection to a database of a shard, as weft's service user.
	Dial func(ctx context.Context, shard, database string) (Conn, error)
	Log  *slog.Logger
	// StopAt is called at the points of recovery. It may be nil.
	StopAt func(Point)
	// Kept reports whether no failover of a participant takes back what its server has answered, but not what began it. Nil: none does.
	Kept func(shard, server string, began, answered time.Time) bool
	// Left reports whether a shard is known to have left the cluster: it was looked at before, and nothing was prepared there. Nil: no shard leaves.
	Left func(ctx context.Context, shard string) bool
	// Harmed is told, once, of a committed transaction of a database of which a failover has lost a part. It may be nil.
	Harmed func(database string, f Fate)
	// Losses are those that were reported. Resolvers of one proxy share it. Nil: each loss is reported whenever it is met.
	Losses *Losses
}

func (r *Resolver) stopAt(p Point) {
	if r.StopAt != nil {
		r.StopAt(p)
	}
}

// InDoubt is a prepared transaction of the cluster.
type InDoubt struct {
	Name
	Shard    string // where the transaction was found: its participant, or another shard of the same server
	Database string
	Owner    string        // the role that prepared the transaction
	Age      time.Duration // by the clocks of servers, which may differ: negative ones, too
	Known    time.Duration // for how long whoever resolves knows of the transaction
	// Member is the participant as the decision lists it, for Finish. Zero: not known.
	Member Member
}

// GID returns the name of the transaction on its server.
func (d InDoubt) GID() string { return d.Name.String() }

// FindSQL lists the prepared transactions of a cluster.
func FindSQL(cluster string) string {
	return "SELECT gid, database, owner, (1000 * pg_catalog.date_part('epoch', pg_catalog.clock_timestamp() - prepared))::bigint FROM pg_catalog.pg_prepared_xacts " +
		"WHERE pg_catalog.starts_with(gid, " + quote.Literal(Prefix(cluster)) + ") ORDER BY prepared"
}

// ReadFound reads the answer to FindSQL.
func ReadFound(shard string, rows [][]string) []InDoubt {
	var out []InDoubt
	for _, row := range rows {
		n, ok := ParseName(row[0])
		if !ok || n.Participant == "" {
			continue
		}
		ms, err := strconv.ParseInt(row[3], 10, 64)
		if err != nil {
			continue
		}
		out = append(out, InDoubt{Name: n, Shard: shard, Database: row[1], Owner: row[2], Age: time.Duration(ms) * time.Millisecond})
	}
	return out
}

// Urgency is how hard a resolver tries to end a transaction in doubt.
type Urgency uint8

// Urgencies.
const (
	LetBe Urgency = iota // do nothing: the owner is still committing
	Ask                  // ask how the transaction ended, if it has
	Force                // force the transaction to an end: its owner is dead
)

var urgencies = []string{"let be", "ask", "force"}

func (u Urgency) String() string { return urgencies[u] }

// Asking does no harm, but is in vain while the owner is still committing: the deciding
// transaction is open. A proxy that has died has closed its connections, so the answer is there.
// A proxy that has lost its network has not, and its backends are ended when its lease has run
// out.
const (
	askAfter   = time.Second
	forceAfter = time.Minute // even if the owner is alive
)

// Judge says what is to be done about a transaction in doubt. ours says that this proxy owns the
// transaction, inHand that one of its sessions is still at work on it, alive that the owner's
// lease has not run out.
func (d InDoubt) Judge(ours, inHand, alive bool) Urgency {
	switch {
	case max(d.Age, d.Known) < askAfter || ours && inHand:
		return LetBe
	case ours || !alive || d.Known >= forceAfter: // the owning session or proxy is gone
		return Force
	}
	return Ask
}

// How long a resolver waits for the deciding transaction.
const (
	askPatience   = 200 * time.Millisecond
	forcePatience = 3 * time.Second
	forceGrace    = 300 * time.Millisecond // time for a COMMIT that is on its way
)

// ErrUndecided says that the deciding transaction is still open.
var ErrUndecided = errors.New("the deciding transaction has not ended yet")

// Decide finds out how a transaction ended. If the deciding transaction is still open, Force ends
// its backend; any other urgency returns ErrUndecided.
func (r *Resolver) Decide(ctx context.Context, database string, n Name, u Urgency) (Outcome, error) {
	o := Open
	patience := askPatience
	if u == Force {
		patience = forcePatience
	}
	r.stopAt(BeforeArbitrate)
	err := r.on(ctx, n.Decider, database, func(c Conn) (err error) {
		if u == Force {
			var end func()
			if end, err = r.enforce(ctx, c, n.Decider, database); err != nil {
				return err
			}
			defer end()
		}
		if err := since(c, n); err != nil {
			return err
		}
		o, err = ReadArbitration(c.Exec(ArbitrateSQL(n.Key(), patience.Milliseconds())))
		switch {
		case err != nil:
			return err
		case o == Open:
			_, _ = c.Exec("ROLLBACK")
			return ErrUndecided
		}
		return barrier(ctx, c, n.Decider)
	})
	if err != nil {
		return Open, err
	}
	r.stopAt(AfterArbitrate)
	return o, nil
}

// ErrStale says that a server of the deciding shard is older than the transaction: another one has been promoted, and has decided.
var ErrStale = errors.New("the server is not the deciding shard's primary any more")

// since returns an error if a server of the deciding shard is on an earlier timeline than the one that decides: the server would deny all knowledge of
// the transaction.
func since(c Conn, n Name) error {
	if n.Timeline == 0 {
		return nil
	}
	timeline, err := timelineOf(c)
	if err == nil && timeline < n.Timeline {
		return fmt.Errorf("%w: shard %s was on timeline %d, and the server is on %d", ErrStale, n.Decider, n.Timeline, timeline)
	}
	return err
}

// timelineOf asks a primary for its timeline.
func timelineOf(c Conn) (uint32, error) {
	rows, err := c.Exec("SELECT " + primary.TimelineSQL)
	if err != nil || len(rows) == 0 {
		return 0, errors.Join(err, errNoAnswer(len(rows)))
	}
	timeline, err := strconv.ParseUint(rows[0][0], 10, 32)
	return uint32(timeline), err
}

// enforce terminates, from another connection, the backends that make c wait for longer than
// forceGrace. The function stop ends this watch.
func (r *Resolver) enforce(ctx context.Context, c Conn, shard, database string) (stop func(), err error) {
	rows, err := c.Exec("SELECT pg_catalog.pg_backend_pid()")
	if err != nil || len(rows) == 0 {
		return nil, errors.Join(err, errNoAnswer(len(rows)))
	}
	pid := rows[0][0]
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	var panicked error
	wg.Go(func() {
		defer pgerr.Recovered(&panicked)
		select {
		case <-ctx.Done():
			return
		case <-time.After(forceGrace):
		}
		err := r.on(ctx, shard, database, func(c Conn) error {
			_, err := c.Exec("SELECT pg_catalog.pg_terminate_backend(p) FROM pg_catalog.unnest(pg_catalog.pg_blocking_pids(" + pid + ")) p WHERE p <> 0")
			return err
		})
		if err != nil && ctx.Err() == nil {
			r.Log.Warn("a backend that keeps a transaction open could not be ended", "shard", shard, "err", err)
		}
	})
	return func() {
		cancel()
		wg.Wait()
		pgerr.Raise(panicked)
	}, nil
}

func errNoAnswer(rows int) error {
	if rows == 0 {
		return errors.New("the server gave no answer")
	}
	return nil
}

// ErrPartLost says that a participant's server is not the one that prepared, and does not have the transaction prepared: its standby had not got that far.
var ErrPartLost = errors.New("the shard may have lost its part of the transaction in a failover")

// Finish ends a prepared transaction.
func (r *Resolver) Finish(ctx context.Context, d InDoubt, o Outcome) error {
	_, err := r.Follow(ctx, d, o)
	return err
}

// Follow is Finish, and reports whether the transaction was gone: its proxy or another resolver has ended it.
func (r *Resolver) Follow(ctx context.Context, d InDoubt, o Outcome) (gone bool, err error) {
	err = r.on(ctx, d.Shard, d.Database, func(c Conn) error {
		_, err := c.Exec(o.Verb() + " PREPARED " + quote.Literal(d.GID()))
		e := (*pgerr.Error)(nil)
		if errors.As(err, &e) && e.Code == pgerr.InsufficientPrivilege {
			// The service user is no superuser, but a member of the role that prepared.
			if _, err := c.Exec("SET ROLE " + quote.Ident(d.Owner)); err != nil {
				return err
			}
			_, err = c.Exec(o.Verb() + " PREPARED " + quote.Literal(d.GID()))
		}
		if errors.As(err, &e) && e.Code == pgerr.UndefinedObject {
			gone = true
			if err := d.Member.lostOn(c, d.GID()); err != nil {
				return err
			}
			return barrier(ctx, c, d.Shard)
		}
		return err
	})
	if err == nil && !gone {
		r.Log.Info("ended a transaction whose owner has left it", "shard", d.Shard, "gid", d.GID(), "outcome", o.String())
		r.stopAt(AfterResolve)
	}
	return gone, err
}

// lostOn returns ErrPartLost if a server on which a transaction is not prepared may lack what the member had prepared.
func (m Member) lostOn(c Conn, gid string) error {
	if m.Server == "" {
		return nil
	}
	rows, err := c.Exec("SELECT weft.server()")
	if err != nil || len(rows) == 0 {
		return errors.Join(err, errNoAnswer(len(rows)))
	}
	if rows[0][0] == m.Server || m.keptBy(rows[0][0]) {
		return nil
	}
	if m.Listed {
		rows, err = c.Exec(partsSQL([]string{gid}))
		if err != nil || len(rows) > 0 {
			return err
		}
	}
	return ErrPartLost
}

// Resolve ends the transactions for which urgency says so, and returns how many are left. A
// transaction with several parts in doubt is asked about once. Pledges are left to their clients.
func (r *Resolver) Resolve(ctx context.Context, found []InDoubt, urgency func(InDoubt) Urgency) (left int, err error) {
	type verdict struct {
		o   Outcome
		err error
	}
	decided := map[string]verdict{}
	var errs []error
	open := r.openPledges(ctx, found)
	for _, d := range found {
		u := LetBe
		if !open[d.Key()] {
			u = urgency(d)
		}
		if u == LetBe {
			left++
			continue
		}
		key := d.Key() + " " + d.Database
		v, asked := decided[key]
		if !asked {
			v.o, v.err = r.Decide(ctx, d.Database, d.Name, u)
			decided[key] = v
		}
		if v.err == nil {
			v.err = r.end(ctx, d, v.o)
		}
		if v.err != nil {
			left++
			if !errors.Is(v.err, ErrUndecided) {
				errs = append(errs, fmt.Errorf("%s: %w", d.GID(), v.err))
			}
		}
	}
	return left, errors.Join(errs...)
}

// on runs f with a connection that is interrupted when ctx ends.
func (r *Resolver) on(ctx context.Context, shard, database string, f func(Conn) error) error {
	c, err := r.Dial(ctx, shard, database)
	if err != nil {
		return err
	}
	defer c.Terminate()
	stop := context.AfterFunc(ctx, c.Interrupt)
	defer stop()
	return f(c)
}
