package proxy

import (
	"context"
	"fmt"
	"slices"
	"time"

	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
)

// A statement is planned by one snapshot of the cluster and sent a moment later, or much
// later: it waits for a connection, its client takes its time between Bind and Sync, the
// process stands still. If its table is declared meanwhile, the statement would go where
// the rows used to be. So a session looks again right before it sends, and plans again if
// it still can, or refuses.

// lookTimeout bounds the look at the directory: weft serves on while etcd is away.
const lookTimeout = 2 * time.Second

// beat notes that the process runs. After a standstill it first looks at the directory:
// other proxies may have changed it without waiting for this one.
func (k *keeper) beat(ctx context.Context) {
	tick := time.NewTicker(pulseInterval)
	defer tick.Stop()
	for {
		if k.stoodStill() {
			k.lookAgain(ctx)
		}
		k.pulse.beat(time.Now())
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// stoodStill reports whether beat has missed its time.
func (k *keeper) stoodStill() bool { return k.pulse.stoodStill(time.Now()) }

// lookAgain waits until this proxy serves the directory's present version.
func (k *keeper) lookAgain(ctx context.Context) {
	if k.s.cfg.Directory == nil || k.s.cfg.Current == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	snap, err := k.s.cfg.Directory.Load(ctx)
	if err == nil {
		_, err = k.s.cfg.Current.Reach(ctx, snap.Version)
	}
	k.s.log.Warn("stood still: looked at the directory before going on", "err", err)
}

// awake waits until beat has looked at the directory after a standstill.
func (k *keeper) awake(ctx context.Context) {
	for k.stoodStill() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
}

// isOvertaken reports whether something planned but not sent was planned by declarations
// that no longer hold.
func (rt *routing) isOvertaken() bool {
	if rt.s.srv.keeper.stoodStill() {
		rt.s.srv.keeper.awake(rt.s.srv.ctx)
	}
	return rt.outdated || rt.relies.concerned(rt.s.srv.cfg.Snapshot(), rt.base, rt.s.db.Name)
}

// reliance is the plans that a session relies on until they are sent. A plan says by
// declarations of which relations it was made, so that a client that does not use a newly
// declared table notices nothing.
type reliance struct {
	unsent bool         // a planned statement has not been sent
	plans  []*plan.Plan // the plans since the last send; nil stands for a statement without plan
}

// begin forgets the plans of the statement or message before, unless one of them is still to be
// sent. It is called where the next one begins.
func (r *reliance) begin() {
	if !r.unsent {
		clear(r.plans)
		r.plans = r.plans[:0]
	}
}

// on notes a plan that the session relies on.
func (r *reliance) on(p *plan.Plan) {
	if n := len(r.plans); n == 0 || r.plans[n-1] != p {
		r.plans = append(r.plans, p)
	}
}

// concerned reports whether declarations that differ between two snapshots concern any of
// the plans.
func (r *reliance) concerned(a, b *directory.Snapshot, database string) bool {
	if a == b || a == nil || b == nil {
		return false
	}
	x, y := inForce(a.Declared(database)), inForce(b.Declared(database))
	if sameTables(x, y) {
		return false
	}
	names := changedTables(x, y)
	return slices.ContainsFunc(r.plans, func(p *plan.Plan) bool {
		return p == nil || !p.Confined || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(p.Names, n) })
	})
}

// inForce are the declarations that plans are made by: none that is Pending.
func inForce(list []directory.Table) []directory.Table {
	pending := func(t directory.Table) bool { return t.Pending() }
	if !slices.ContainsFunc(list, pending) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), pending)
}

// changedTables are the names of the tables that two lists say different things about.
func changedTables(a, b []directory.Table) []string {
	var out []string
	without := func(list, other []directory.Table) {
		for i := range list {
			t := &list[i]
			if !slices.ContainsFunc(other, func(o directory.Table) bool { return t.Equal(&o) }) {
				out = append(out, t.Name)
			}
		}
	}
	without(a, b)
	without(b, a)
	return out
}

// reliesOnNone notes a statement that is sent without a plan, in a database without
// declared tables. A statement that names a relation, or may reach one, relies on there
// being no declared tables.
func (rt *routing) reliesOnNone(f *parser.Facts) {
	if f == nil || len(f.Relations) > 0 || len(f.Funcs) > 0 || f.Effects&(parser.Opaque|parser.DDL|parser.Executes) != 0 {
		rt.relies.on(nil)
	}
}

// boundUnsent reports whether a Bind waits to be sent: its portal can no longer go to
// another shard. A Parse or a BEGIN does no harm on any shard.
func (p *pipe) boundUnsent() bool {
	for i := p.ops.head; i < len(p.ops.ops); i++ {
		if o := &p.ops.ops[i]; !o.injected && o.kind == opBind {
			return true
		}
	}
	return false
}

// mayGo is asked right before planned statements are sent. Its error gives the backend up:
// what was sent to the backend before cannot be told from what was not.
func (rt *routing) mayGo() error {
	if !rt.relies.unsent {
		return nil
	}
	rt.relies.unsent = false
	if !rt.hasTables {
		if err := rt.touch.pass(); err != nil {
			return err
		}
	}
	if !rt.isOvertaken() {
		return nil
	}
	rt.outdated = false
	return pgerr.New(pgerr.SerializationFailure, "a table was declared, or its declaration taken back, while the statement was on its way").
		WithHint("Run the transaction again.").WithCause(errOvertaken)
}

// errOvertaken is the cause of giving a backend up instead of sending what it was to be sent.
var errOvertaken = fmt.Errorf("overtaken by a declaration: %w", pool.ErrLost)
