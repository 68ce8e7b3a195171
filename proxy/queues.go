package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"weft/console"
	"weft/directory"
	"weft/heat/ferry"
	"weft/heat/queue"
	"weft/heat/throttle"
	"weft/heat/verdict"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/proxy/judge"
	"weft/proxy/peer"
	"weft/proxy/queues"
)

// newQueues returns the queues of hot keys.
func newQueues(s *Server) *queues.Queues {
	return queues.New(queues.Config{
		Rows:  func() queue.Mode { return s.conf().Heat.Rows },
		Reads: func() ferry.Mode { return s.conf().Heat.Coalesce },
		Wants: func() []queues.Want {
			state := s.keeper.verdicts.judge.State()
			if state.Age > judge.StaleAfter.Seconds() {
				return nil
			}
			return wantsOf(&state, s.cfg.Snapshot())
		},
		Others: func(ctx context.Context) (demand []queues.Demand, silent int) {
			answers, missing := s.circle.Ask(ctx, peer.Question{Queues: true})
			for _, b := range answers {
				var d queues.Demand
				if json.Unmarshal(b, &d) != nil { // the other proxy is of another version
					silent++
					continue
				}
				demand = append(demand, d)
			}
			return demand, silent + len(missing)
		},
	})
}

// wantsOf lists the keys that are warm or hot, the hottest first.
func wantsOf(state *judge.State, snap *directory.Snapshot) (out []queues.Want) {
	const waiting = 1 // so many backends of a shard wait for locks, on average
	for i := range state.Findings {
		f := &state.Findings[i]
		t, ok := foundKey(f, snap)
		if !ok || f.Verdict != verdict.Hot && f.Verdict != verdict.Warm {
			continue
		}
		w := queues.Want{
			Key:   queue.Key{Database: t.Database, Group: t.Group, ID: t.ID, Value: string(t.Value)},
			Shard: f.On, Words: t.Words(), Writes: f.Class == verdict.Write, Reads: f.Class != verdict.Write, Locks: state.Words[f.On].Lock >= waiting,
		}
		w.Hot = w.Writes && (f.Reason == verdict.HotRow || f.Verdict == verdict.Hot && f.Reason == verdict.SingleKey)
		t.Shown = "(hidden)"
		w.Hidden = t.Words()
		if at := slices.IndexFunc(out, func(o queues.Want) bool { return o.Key == w.Key }); at >= 0 { // warm and hot
			out[at].Hot = out[at].Hot || w.Hot
			out[at].Writes = out[at].Writes || w.Writes
			out[at].Reads = out[at].Reads || w.Reads
			continue
		}
		out = append(out, w)
	}
	return out
}

// foundKey names the key of a finding, if its whole value is known: hashes of keys are not unique.
func foundKey(f *verdict.Finding, snap *directory.Snapshot) (t throttle.Target, ok bool) {
	if f.Kind != verdict.Key || !f.Known || len(f.Value) >= maxValue || strings.HasSuffix(f.Value, "…") {
		return t, false
	}
	at := slices.IndexFunc(snap.Tables, func(t directory.Table) bool {
		return t.Database == f.Database && t.Kind == directory.Sharded && t.Colocation() == f.Group
	})
	if at < 0 {
		return t, false
	}
	t, err := keyTarget(&snap.Tables[at], f.Value, snap.BucketCount)
	return t, err == nil && t.ID == f.ID
}

// Queues implements console.Source.
func (a adminSource) Queues(values bool) (out []console.Queue) {
	values = values && !a.srv.conf().Heat.Hashed
	for _, h := range a.srv.keeper.queues.Table().All() {
		key := h.Words
		if !values {
			key = h.Hidden
		}
		at := console.Queue{Proxy: a.srv.cfg.Proxy, Shard: h.Shard, Database: h.Database, Key: console.Printable(key)}
		if h.Row != nil {
			if f := h.Row.Figures(); f.Closed {
				q := at
				q.Kind, q.Mode, q.Slots, q.Used, q.Waiting = "row", string(f.Mode), f.Slots, f.Used, f.Waiting
				q.WaitP99, q.Served, q.Waited, q.Refused = f.WaitP99, f.Served, f.Waited, f.Refused
				out = append(out, q)
			}
		}
		if h.Pier != nil {
			if f := h.Pier.Figures(); f.Led+f.Rode > 0 {
				at.Kind, at.Mode, at.Slots, at.Used, at.Waiting = "ferry", string(f.Mode), ferry.Ferries, f.Underway, f.Waiting
				at.WaitP99, at.Served, at.Waited, at.Refused = f.WaitP99, f.Led, f.Rode, f.Alone
				out = append(out, at)
			}
		}
	}
	return out
}

// What sessions wait for at the outset beside throttles, whose numbers are above 0.
const waitsForRow int64 = -1

// waitWords says that in weft.sessions.
var waitWords = map[int64]string{waitsForRow: "a hot row", waitsForAnswer: "the answer to the same read"}

// holdsNothing reports whether the session has no backend at all, of no transaction and by no pin, and no place at
// a throttle. Such a session may wait for others as long as it likes.
func (o *outset) holdsNothing() bool {
	h := &o.s.held
	return o.begins() && h.conn == nil && len(h.parked) == 0 && len(o.slots) == 0
}

// enterRow lets a transaction that begins with a write of a hot key wait for its place. A transaction whose first statement is
// another one, or that holds something, does not wait.
func (o *outset) enterRow(hot *queue.Hot, p *plan.Plan, f *parser.Facts, lane *pool.Lane) error {
	if hot == nil || hot.Row == nil || !p.Writes && !p.Locks || o.place != nil || !o.holdsNothing() || !o.concerned(f) {
		return nil
	}
	place := hot.Row.Enter(time.Now())
	if place == nil {
		return o.rowRefused(hot, f, lane, "%d transactions of this proxy wait for %s already", queue.MaxWaiting, hot.Words)
	}
	o.place = place
	if place.Has() {
		return nil
	}
	patience := cmp.Or(o.s.srv.conf().Pool.QueueTimeout, 30*time.Second)
	err := o.await(f, waitsForRow, patience, place.Granted())
	if err == nil && !place.Has() {
		hot.Row.GaveUp()
		err = o.rowRefused(hot, f, lane, "a transaction has waited for its turn to write %s for %v", hot.Words, patience)
	}
	if err != nil {
		o.leavePlace()
	}
	return err
}

// leavePlace gives the place at a hot row back.
func (o *outset) leavePlace() {
	if o.place != nil {
		o.place.Leave(time.Now())
		o.place = nil
	}
}

// rowRefused is what a client is told for which there is no room in the queue of a hot key. NOWAIT asks for the error that PostgreSQL has for
// a lock.
func (o *outset) rowRefused(hot *queue.Hot, f *parser.Facts, lane *pool.Lane, format string, args ...any) error {
	o.s.account.noteRefused(&departure{facts: f, writes: true, lane: lane}, 0)
	code := pgerr.InsufficientResources
	if strings.Contains(strings.ToUpper(f.Norm), "NOWAIT") {
		code = "55P03"
	}
	const again = 200 * time.Millisecond
	return pgerr.New(code, format, args...).
		WithDetail("%s is a hot key: at most %d transactions of the cluster write it at a time. retry_after_ms=%d", hot.Words, queue.Slots, again.Milliseconds()).
		WithHint("Try again after %.1f s, and less often. Keep transactions that write the key short. weft.queues has the queues.", again.Seconds())
}
