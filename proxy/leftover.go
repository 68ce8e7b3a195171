package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"time"

	"weft/directory"
	"weft/plan"
	"weft/twopc"
)

// Changes of schemas that nobody commits any more, because their proxy died or
// a shard did, are ended by whichever proxy finds them: the same way on every
// shard, and in the directory.

// newID returns a name that nobody else gives.
func newID() string {
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the process instead
	return hex.EncodeToString(id[:])
}

// change is what a pending change does to the declarations.
type change struct {
	Do   []*plan.Change `json:"do,omitempty"`
	Undo []plan.Name    `json:"undo,omitempty"`
}

func (c change) encode() string {
	b, err := json.Marshal(c)
	if err != nil {
		panic(err) // names and numbers only
	}
	return string(b)
}

// letGoOf leaves a change that this proxy has entered to whoever settles what
// is pending.
func (s *Session) letGoOf() {
	if s.agreement != nil {
		s.srv.inHand.Delete(s.agreement.ID)
		s.agreement = nil
	}
}

// settleTimeout bounds one attempt.
const settleTimeout = 15 * time.Second

// settleLeft settles the pending changes whose proxy is gone, or whose session.
func (s *Server) settleLeft(ctx context.Context, snap *directory.Snapshot) {
	for _, p := range snap.Pending {
		if _, ours := s.inHand.Load(p.ID); ours || p.Proxy != s.cfg.Proxy && s.alive(ctx, p.Proxy) {
			continue
		}
		err := s.settlePending(ctx, p)
		if err != nil && !errors.Is(err, twopc.ErrUndecided) && ctx.Err() == nil {
			s.log.Warn("unfinished change of a schema", "database", p.Database, "err", err)
		}
	}
}

// settlePending finds out how a change ended, ends it on all shards, and tells
// every proxy.
func (s *Server) settlePending(ctx context.Context, p directory.Pending) error {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	t := twopc.Transaction{Cluster: s.cfg.Snapshot().Cluster, ID: p.ID, Decider: p.Decider, XID: p.XID, Parts: p.Parts}
	r := twopc.Resolver{Log: s.log, Dial: func(ctx context.Context, shard string) (twopc.Conn, error) {
		return dialer{s}.Dial(ctx, shard, p.Database, p.User)
	}}
	outcome, err := twopc.ReadOutcome(p.Outcome, nil)
	if p.Outcome == "" {
		outcome, err = r.Decide(ctx, &t)
	}
	if err != nil {
		return err
	}
	late := r.Finish(ctx, &t, outcome)
	if late != nil && p.Outcome != "" {
		return late // and all proxies know the rest
	}
	var c change
	if err := json.Unmarshal([]byte(p.Change), &c); err != nil && p.Outcome == "" {
		return err
	}
	n := news{database: p.Database, schema: true, resequence: true, pending: p.ID, outcome: outcome, late: late != nil}
	if outcome == twopc.Committed {
		n.changes = c.Do
	} else {
		n.undo = c.Undo
	}
	return errors.Join(late, s.publish(ctx, n))
}

// harden makes durable what a shard has written so far, the id of a transaction
// that is still open included: after a crash the shard must not give it to
// another, whose outcome would then be taken for this one's.
func (s *Server) harden(ctx context.Context, shard, database, user string) error {
	c, err := dialer{s}.Dial(ctx, shard, database, user)
	if err != nil {
		return err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	// The commit of anything that writes does; a message writes and leaves nothing.
	_, err = c.Exec(`SELECT CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local')
		THEN pg_catalog.set_config('synchronous_commit', 'on', true) END, pg_catalog.pg_logical_emit_message(true, 'weft', '')`)
	return err
}

// warnUnable says once that a shard cannot prepare transactions.
func (s *Server) warnUnable(shard string) {
	if _, said := s.unable.LoadOrStore(shard, true); !said {
		s.log.Warn("max_prepared_transactions is 0: if this shard or the proxy dies while DDL is committed, the shards may disagree about the schema", "shard", shard)
	}
}
