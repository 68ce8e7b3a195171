package floor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/bits"
	"strconv"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/primary"
	"weft/quote"
	"weft/sequence"
)

// Conn is a connection of the service user to a database of a shard.
type Conn interface {
	Exec(sql string) ([][]string, error)
	// Generation is that of the server.
	Generation() primary.Generation
	// Interrupt ends a running Exec, from another goroutine.
	Interrupt()
	Terminate()
}

// Config is what Floors needs. All fields are required.
type Config struct {
	Log      *slog.Logger
	Snapshot func() *directory.Snapshot
	// Dial opens a connection to a shard, and waits while the shard has no primary.
	Dial func(ctx context.Context, shard, database string) (Conn, error)
	// Marks returns how far this proxy and others have drawn from a sequence, nil for one that has not, and how many have not answered.
	Marks func(ctx context.Context, database, sequence string, timeline uint32) (marks []sequence.Mark, silent int)
	Guard func(where string, f func()) func()
}

// Floors knows which sequences need no floor. Its methods may be called by several goroutines.
type Floors struct {
	cfg Config

	mu    sync.Mutex
	known map[name]*known
}

type name struct{ database, sequence string }

// known is what is known of one sequence.
type known struct {
	turn     chan struct{} // holds a value while a goroutine works on the sequence
	timeline uint32        // the floor is set for this timeline and those before it. Guarded by the mutex of Floors
}

// New returns Floors that know of no sequence.
func New(cfg Config) *Floors { return &Floors{cfg: cfg, known: map[name]*known{}} }

// Ensure returns when values may be drawn from a sequence of a home shard that is on a timeline.
func (f *Floors) Ensure(ctx context.Context, database, sequence string, timeline uint32) error {
	if timeline <= 1 {
		return nil // no standby was promoted yet
	}
	k := f.find(name{database, sequence})
	if f.is(k, timeline) {
		return nil
	}
	select {
	case k.turn <- struct{}{}:
		defer func() { <-k.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if f.is(k, timeline) {
		return nil
	}
	at, err := f.raise(ctx, database, sequence, timeline)
	if err != nil {
		return err
	}
	f.mu.Lock()
	k.timeline = max(k.timeline, at)
	f.mu.Unlock()
	return nil
}

func (f *Floors) find(n name) *known {
	f.mu.Lock()
	defer f.mu.Unlock()
	k := f.known[n]
	if k == nil {
		k = &known{turn: make(chan struct{}, 1)}
		f.known[n] = k
	}
	return k
}

func (f *Floors) is(k *known, timeline uint32) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return k.timeline >= timeline
}

// raise sets the floor of a sequence, and returns for which timeline.
func (f *Floors) raise(ctx context.Context, database, seq string, timeline uint32) (uint32, error) {
	snap := f.cfg.Snapshot()
	home, err := f.cfg.Dial(ctx, snap.Home, database)
	if err != nil {
		return 0, err
	}
	defer home.Terminate()
	defer context.AfterFunc(ctx, home.Interrupt)()
	at := home.Generation().Timeline
	if at < timeline {
		return 0, pgerr.New(pgerr.ConnectionFailure, "the home shard is on timeline %d, and was on timeline %d before", at, timeline)
	}
	r := raising{f: f, snap: snap, home: home, database: database, sequence: seq, timeline: at}
	return at, r.run(ctx)
}

// raising sets the floor of one sequence.
type raising struct {
	f                  *Floors
	snap               *directory.Snapshot
	home               Conn
	database, sequence string
	timeline           uint32
}

// run sets the floor, in a transaction that holds the sequence's lock.
func (r *raising) run(ctx context.Context) error {
	if _, err := r.home.Exec("BEGIN; SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtextextended(" + quote.Literal("weft sequence "+r.sequence) + ", 0))"); err != nil {
		return err
	}
	rows, err := r.home.Exec("SELECT pg_catalog.to_regclass('weft.floor') IS NOT NULL")
	if err != nil {
		return err
	}
	kept := rows[0][0] == "t"
	done := false
	if kept {
		if rows, err = r.home.Exec("SELECT FROM weft.floor WHERE sequence = " + r.oid() + " AND timeline >= " + strconv.FormatUint(uint64(r.timeline), 10)); err != nil {
			return err
		}
		done = len(rows) > 0
	}
	if err := r.set(ctx, done); err != nil {
		return err
	}
	end := "COMMIT"
	if kept && !done {
		end = fmt.Sprintf("INSERT INTO weft.floor (sequence, timeline) VALUES (%s, %d) ON CONFLICT (sequence) DO UPDATE SET timeline = excluded.timeline; COMMIT", r.oid(), r.timeline)
	}
	_, err = r.home.Exec(end)
	return err
}

func (r *raising) oid() string {
	return quote.Literal(r.sequence) + "::pg_catalog.regclass::pg_catalog.oid"
}

// set sets the sequence. If another proxy has done so, this one only looks whether the sequence is below what it has drawn itself: it may not
// have been asked.
func (r *raising) set(ctx context.Context, done bool) error {
	rows, err := r.home.Exec(sequence.StateSQL(r.sequence))
	if err != nil {
		return err
	}
	state, err := sequence.ReadState(rows)
	if err != nil {
		return err
	}
	marks, silent := r.f.cfg.Marks(ctx, r.database, r.sequence, r.timeline)
	var used []int64
	if !done && !state.Cycle {
		if used, err = r.used(ctx, state, marks); err != nil {
			return err
		}
	}
	to, raised := state.Floor(marks, used)
	if silent > 0 {
		r.f.cfg.Log.Warn("proxies have not said how far they have drawn from a sequence, after a failover of the home shard", "database", r.database, "sequence", r.sequence, "silent", silent)
	}
	if !raised {
		return nil
	}
	if _, err := r.home.Exec(sequence.SetSQL(r.sequence, to)); err != nil {
		return err
	}
	r.f.cfg.Log.Warn("a failover has taken back a sequence, which goes on above what was drawn", "database", r.database, "sequence", r.sequence,
		"from", state.Last, "to", to, "timeline", r.timeline)
	return nil
}

// used returns the last numbers of the sequence that rows of the shards have.
func (r *raising) used(ctx context.Context, state sequence.State, marks []sequence.Mark) ([]int64, error) {
	rows, err := r.home.Exec(sequence.ColumnsSQL(r.sequence))
	if err != nil {
		return nil, err
	}
	columns, err := sequence.ReadColumns(rows)
	if err != nil {
		return nil, err
	}
	var everywhere, atHome []sequence.Column
	for _, c := range columns {
		t := r.snap.Table(r.database, c.Schema, c.Table)
		if t == nil {
			atHome = append(atHome, c)
			continue
		}
		if t.IDs.Column == c.Name {
			c.Bits, c.Base = bits.Len(uint(t.IDs.Of(r.snap.BucketCount)))-1, t.IDs.Base
		}
		everywhere = append(everywhere, c)
	}
	horizon := state.Horizon(marks)
	out, err := r.usedOn(ctx, r.home, state, append(atHome, everywhere...), horizon, nil)
	if err != nil || len(everywhere) == 0 {
		return out, err
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	var failed error
	for i := range r.snap.Shards {
		shard := r.snap.Shards[i].Name
		if shard == r.snap.Home {
			continue
		}
		wg.Go(r.f.cfg.Guard("last numbers of rows", func() {
			more, err := r.usedAt(ctx, shard, state, everywhere, horizon)
			mu.Lock()
			defer mu.Unlock()
			out = append(out, more...)
			if err != nil {
				failed = fmt.Errorf("shard %s: %w", shard, err)
			}
		}))
	}
	wg.Wait()
	return out, failed
}

// usedAt returns the last numbers that rows of one shard have.
func (r *raising) usedAt(ctx context.Context, shard string, state sequence.State, columns []sequence.Column, horizon int64) ([]int64, error) {
	c, err := r.f.cfg.Dial(ctx, shard, r.database)
	if err != nil {
		return nil, err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	if _, err := c.Exec("BEGIN"); err != nil {
		return nil, err
	}
	out, err := r.lotEnd(c)
	if err == nil {
		out, err = r.usedOn(ctx, c, state, columns, horizon, out)
	}
	if err == nil {
		_, err = c.Exec("COMMIT")
	}
	return out, err
}

// lotEnd returns the last value that was given to a shard for its triggers, see package lot.
func (r *raising) lotEnd(c Conn) ([]int64, error) {
	rows, err := c.Exec("SELECT pg_catalog.to_regclass('weft.lot') IS NOT NULL AND pg_catalog.to_regclass(" + quote.Literal(r.sequence) + ") IS NOT NULL")
	if err != nil || rows[0][0] != "t" {
		return nil, err
	}
	if rows, err = c.Exec(sequence.LotEndSQL(r.sequence)); err != nil {
		return nil, err
	}
	return sequence.Numbers(rows)
}

// scanTime is how long a shard looks for the last numbers of columns without an index.
const scanTime = 5 * time.Second

// usedOn returns the last numbers that rows of a server have. c is in a transaction.
func (r *raising) usedOn(ctx context.Context, c Conn, state sequence.State, columns []sequence.Column, horizon int64, out []int64) ([]int64, error) {
	var quick, slow []sequence.Column
	for _, col := range columns {
		if col.Indexed {
			quick = append(quick, col)
		} else {
			slow = append(slow, col)
		}
	}
	if len(quick) > 0 {
		rows, err := c.Exec(state.RowsSQL(quick, horizon))
		if err != nil {
			return nil, err
		}
		if out, err = sequence.ReadRows(out, quick, rows); err != nil {
			return nil, err
		}
	}
	for i := range slow {
		rows, err := c.Exec(fmt.Sprintf("SAVEPOINT slow; SET LOCAL statement_timeout = %d; %s", scanTime.Milliseconds(), state.RowsSQL(slow[i:i+1], horizon)))
		if err == nil {
			out, err = sequence.ReadRows(out, slow[i:i+1], rows)
		}
		if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.QueryCanceled && ctx.Err() == nil {
			r.f.cfg.Log.Warn("no index begins with a column of a sequence, and its rows are too many to look for the last number after a failover",
				"database", r.database, "table", slow[i].Schema+"."+slow[i].Table, "column", slow[i].Name)
			_, err = c.Exec("ROLLBACK TO SAVEPOINT slow")
		}
		if err == nil {
			_, err = c.Exec("SET LOCAL statement_timeout = 0; RELEASE SAVEPOINT slow")
		}
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
