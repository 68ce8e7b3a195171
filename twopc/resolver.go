package twopc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
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

	losses losses
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
	Owner    string // the role that prepared the transaction
	Age      time.Duration
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
	case d.Age < askAfter || ours && inHand:
		return LetBe
	case ours || !alive || d.Age >= forceAfter: // the owning session or proxy is gone
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
	rows, err := c.Exec("SELECT " + primary.TimelineSQL)
	if err != nil || len(rows) == 0 {
		return errors.Join(err, errNoAnswer(len(rows)))
	}
	timeline, err := strconv.ParseUint(rows[0][0], 10, 32)
	if err == nil && timeline < uint64(n.Timeline) {
		return fmt.Errorf("%w: shard %s was on timeline %d, and the server is on %d", ErrStale, n.Decider, n.Timeline, timeline)
	}
	return err
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

// Finish ends a prepared transaction. If the transaction is not there any more, its proxy or
// another resolver has ended it.
func (r *Resolver) Finish(ctx context.Context, d InDoubt, o Outcome) error {
	gone := false
	err := r.on(ctx, d.Shard, d.Database, func(c Conn) error {
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
			return barrier(ctx, c, d.Shard)
		}
		return err
	})
	if err == nil && !gone {
		r.Log.Info("ended a transaction whose owner has left it", "shard", d.Shard, "gid", d.GID(), "outcome", o.String())
		r.stopAt(AfterResolve)
	}
	return err
}

// Resolve ends the transactions for which urgency says so, and returns how many are left. A
// transaction with several parts in doubt is asked about once.
func (r *Resolver) Resolve(ctx context.Context, found []InDoubt, urgency func(InDoubt) Urgency) (left int, err error) {
	type verdict struct {
		o   Outcome
		err error
	}
	decided := map[string]verdict{}
	var errs []error
	for _, d := range found {
		u := urgency(d)
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
			if d := ParseDecision(row[0], row[1]); !keep(d) {
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

// forgedSQL removes all rows that weft has not entered, whatever their name: any role may enter
// rows, and rows without a proof mean nothing.
const forgedSQL = "WITH gone AS (DELETE FROM weft.decision d USING weft.own o WHERE NOT " + genuine + " RETURNING d.gid) SELECT count(*), min(gid) FROM gone"

// SweepSQL lists the decisions of a cluster that are older than sweepAge.
func SweepSQL(cluster string) string {
	return fmt.Sprintf("SELECT d.gid, d.participants FROM weft.decision d, weft.own o "+
		"WHERE "+genuine+" AND pg_catalog.starts_with(d.gid, %s) AND d.decided < pg_catalog.clock_timestamp() - '%d ms'::interval LIMIT 1000",
		quote.Literal(Prefix(cluster)), sweepAge.Milliseconds())
}

// ForgetSQL deletes decisions, without waiting for the disk: if a crash undoes the deletion, the
// next sweep finds the decisions again.
func ForgetSQL(keys []string) string {
	var b strings.Builder
	b.WriteString("BEGIN; SET LOCAL synchronous_commit = off; DELETE FROM weft.decision WHERE gid IN (")
	for i, k := range keys {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(quote.Literal(k))
	}
	b.WriteString("); COMMIT")
	return b.String()
}

// confirmed returns the keys of the decisions that no participant waits for. A decision that is
// visible was committed, so all participants had prepared: a participant that is not prepared any
// more has followed, if its server is still the one that prepared, or if a standby of that server was
// waited for and has taken over.
func (r *Resolver) confirmed(ctx context.Context, database string, decisions []Decision) (keys []string, err error) {
	type shardState struct {
		server   string
		prepared map[string]bool
		err      error
	}
	states := map[string]*shardState{}
	look := func(shard string) *shardState {
		if st := states[shard]; st != nil {
			return st
		}
		st := &shardState{prepared: map[string]bool{}}
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
			return barrier(ctx, c, shard)
		})
		return st
	}
	var errs []error
	for _, d := range decisions {
		n, ok := ParseName(d.Key)
		if !ok {
			continue
		}
		done := true
		for _, m := range d.Members {
			st := look(m.Shard)
			n.Participant = m.Shard
			switch {
			case st.err != nil:
				errs = append(errs, fmt.Errorf("shard %s: %w", m.Shard, st.err))
				done = false
			case st.prepared[n.String()]:
				done = false
			case st.server != m.Server && !m.keptBy(st.server):
				// A standby took over, or a backup was restored: the new server may lack the
				// prepared transaction.
				r.reportLoss(n.String(), m, st.server)
				done = false
			}
		}
		if done {
			keys = append(keys, d.Key)
		}
	}
	slices.Sort(keys)
	return keys, errors.Join(errs...)
}
