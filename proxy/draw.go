package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
	"weft/primary"
	"weft/proxy/floor"
	"weft/proxy/peer"
	"weft/sequence"
)

// epochOf changes whenever values of a database's sequences that were drawn in advance must not be used any more. After a change of the schema, a
// sequence of the same name may be another one, with its own count. Both counters only grow, so their sum changes with each change.
func epochOf(snap *directory.Snapshot, database string) int64 {
	return snap.Sequences[database] + snap.Schemas[database]
}

// take takes n values of a sequence. The wait for the home shard ends with a cancel request and with statement_timeout, and while the home
// shard has no primary, a transaction that holds other shards does not wait long.
func (d *drawn) take(from sequence.Name, epoch int64, n int) ([]int64, error) {
	srv, re := d.s.srv, &d.s.reach
	if values, ok := srv.sequences.TryTake(from, epoch, n, nil); ok {
		return values, nil
	}
	re.heedTimeouts()
	re.patience.queues.Add(1)
	defer re.patience.queues.Add(1)
	ctx, done := d.s.util.cancellable()
	defer done()
	if _, underway := d.s.held.underway(); underway {
		bounded, stop := context.WithCancelCause(ctx)
		defer stop(nil)
		limit := srv.pool.Config().Failover.InTransaction
		timer := time.AfterFunc(limit, func() {
			if home := d.s.lane.Shard(); home.Sought() {
				stop(pgerr.New(pgerr.CannotConnectNow, "shard %q has no primary", home.Name).WithDetail("Waited for %s for a value of a sequence, in a transaction.", limit).
					WithHint("failover.wait_in_transaction is how long transactions wait that hold other shards."))
			}
		})
		defer timer.Stop()
		ctx = bounded
	}
	return srv.sequences.Take(ctx, from, epoch, n, nil)
}

// source draws blocks of values from the home shard.
type source struct{ srv *Server }

// drawTries is how often a draw is tried that lost its server. A draw can be repeated: values that nobody was given are holes.
const drawTries = 10

// errRedraw says that values were drawn and must not be used.
var errRedraw = errors.New("the home shard has another primary")

// Draw implements sequence.Source.
func (d source) Draw(ctx context.Context, name sequence.Name, n int) ([]int64, error) {
	for try := 1; ; try++ {
		values, err := d.draw(ctx, name, n)
		if err == nil || try == drawTries || ctx.Err() != nil || !redraws(err) {
			return values, err
		}
	}
}

// redraws reports whether a draw may succeed on another connection.
func redraws(err error) bool {
	var e *pgerr.Error
	return errors.Is(err, errRedraw) || errors.Is(err, pool.ErrLost) || errors.Is(err, pool.ErrUnreplicated) ||
		errors.As(err, &e) && (e.Code == pgerr.AdminShutdown || e.Code == "57P02")
}

// drawRun draws values that follow each other, with weft's own rights.
func (d source) drawRun(ctx context.Context, database, seq string, n int, increment int64) (low, high int64, err error) {
	name := sequence.Name{Database: database, Sequence: quoted(seq)}
	for try := 1; ; try++ {
		err = d.exec(ctx, name, sequence.RunMessage(name.Sequence, n, increment), func(rows [][]string) (values []int64, at primary.LSN, err error) {
			var last int64
			low, high, last, at, err = sequence.DrawnRun(rows)
			return []int64{low, last}, at, err
		})
		if err == nil || try == drawTries || ctx.Err() != nil || !redraws(err) {
			return low, high, err
		}
	}
}

// draw tries to draw once.
func (d source) draw(ctx context.Context, name sequence.Name, n int) (values []int64, err error) {
	_, role, _ := strings.Cut(name.Role, "\x00")
	err = d.exec(ctx, name, sequence.Message(name.Sequence, n, role), func(rows [][]string) (_ []int64, at primary.LSN, err error) {
		values, at, err = sequence.Drawn(rows)
		return values, at, err
	})
	if err != nil {
		return nil, err
	}
	return values, nil
}

// exec sends a message to the home shard that draws values, which read finds in the answer. It waits while the home shard has no primary.
func (d source) exec(ctx context.Context, name sequence.Name, message string, read func(rows [][]string) ([]int64, primary.LSN, error)) error {
	snap := d.srv.cfg.Snapshot()
	epoch := epochOf(snap, name.Database)
	user, _, _ := strings.Cut(name.Role, "\x00")
	c, err := d.backend(ctx, snap, name.Database, user)
	if err != nil {
		return err
	}
	defer func() {
		if c != nil {
			c.Terminate()
		}
	}()
	timeline := c.Generation().Timeline
	if err := d.srv.keeper.floors.Ensure(ctx, name.Database, name.Sequence, timeline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, c.Interrupt)
	rows, err := c.Exec(message)
	if !stop() && err == nil {
		err = context.Cause(ctx) // a cancel request may still be on its way to the backend
	}
	if err != nil {
		return err
	}
	c.Release()
	c = nil
	values, at, err := read(rows)
	if err == nil && !d.srv.keeper.floors.marks.Note(name.Database, name.Sequence, epoch, timeline, values, at) {
		err = errRedraw
	}
	return err
}

// drawer is a connection for one draw.
type drawer interface {
	floor.Conn
	// Release gives the connection back.
	Release()
}

// serviceDrawer is a connection of the service user.
type serviceDrawer struct{ *pool.Spare }

// Release implements drawer.
func (c serviceDrawer) Release() { c.Spare.Terminate() }

// backend returns a connection to the home shard for a draw, as a user, or as the service user if user is empty.
func (d source) backend(ctx context.Context, snap *directory.Snapshot, database, user string) (drawer, error) {
	if user == "" {
		c, err := d.srv.awaitService(ctx, snap.Home, database)
		if err != nil {
			return nil, err
		}
		return serviceDrawer{c}, nil
	}
	lane := d.srv.pool.Shard(snap.HomeShard()).OpenLane(pool.Key{Database: database, User: user})
	defer lane.CloseLane()
	c, err := lane.Acquire(ctx, pool.Want{Underway: true, Patient: true})
	if err != nil {
		return nil, err
	}
	if !c.Settings().Equal(nil) {
		if err := c.Apply(nil); err != nil {
			c.Discard()
			return nil, err
		}
	}
	return c, nil
}

// floors keep the sequences of the home shard above what was drawn from them.
type floors struct {
	*floor.Floors
	marks sequence.Marks // how far this proxy has drawn
}

func newFloors(s *Server) *floors {
	f := &floors{}
	f.Floors = floor.New(floor.Config{
		Log: s.log, Snapshot: s.cfg.Snapshot, Guard: s.guarded,
		Dial: func(ctx context.Context, shard, database string) (floor.Conn, error) {
			c, err := s.awaitService(ctx, shard, database)
			if err != nil {
				return nil, err
			}
			return c, nil
		},
		Marks: func(ctx context.Context, database, seq string, timeline uint32) ([]sequence.Mark, int) {
			return f.all(ctx, s.circle, database, seq, timeline)
		},
	})
	return f
}

// told answers another proxy that asks how far this one has drawn.
func (f *floors) told(q peer.Question) []sequence.Mark {
	if m := f.marks.Tell(q.Database, q.Drawn, q.Timeline); m != nil {
		return []sequence.Mark{*m}
	}
	return []sequence.Mark{}
}

// markTries is how often proxies are asked that do not answer: dead ones are listed for a while.
const markTries = 3

// all returns how far all proxies have drawn from a sequence, and how many have not said so.
func (f *floors) all(ctx context.Context, others *peer.Circle, database, seq string, timeline uint32) (marks []sequence.Mark, silent int) {
	q := peer.Question{Drawn: seq, Database: database, Timeline: timeline}
	for try := 1; ; try++ {
		marks = f.told(q)
		answers, unheard := others.Ask(ctx, q)
		silent = len(unheard)
		for _, a := range answers {
			var more []sequence.Mark
			if json.Unmarshal(a, &more) != nil {
				silent++
				continue
			}
			marks = append(marks, more...)
		}
		if silent == 0 || try == markTries || ctx.Err() != nil {
			return marks, silent
		}
	}
}
