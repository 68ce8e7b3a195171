package proxy

import (
	"errors"
	"strings"
	"time"

	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/twopc"
	"weft/wire"
)

// A block that has changed every shard ends the same way on all of them: the
// others prepare, the home shard's COMMIT decides, and the others follow. Package
// twopc has the reasons for the order; what a session cannot finish, because it
// or a shard dies, is left to Server.settlePending.

// agreement is the commit of such a block.
type agreement struct {
	twopc.Transaction
	votes []vote
	undo  []plan.Name // names declared for it that the tables may not get
	// late: shards that have not confirmed the outcome.
	late bool
}

// vote is a participant other than the home shard.
type vote struct {
	conn *pool.Conn
	// able: its server can prepare transactions.
	able     bool
	prepared bool
}

// vote returns a backend's vote, nil if it has none.
func (a *agreement) vote(c *pool.Conn) *vote {
	if a != nil {
		for i := range a.votes {
			if a.votes[i].conn == c {
				return &a.votes[i]
			}
		}
	}
	return nil
}

// agree makes the participants of such a block promise, right before COMMIT,
// that they will follow. After an error it must be rolled back.
func (s *Session) agree() error {
	if !s.block.everywhere || s.conn == nil || s.conn.Status != wire.TxActive {
		return nil
	}
	if err := s.sent(); err != nil {
		return err
	}
	a, err := s.muster()
	if err != nil {
		return err
	}
	if err := s.srv.harden(s.ctx, a.Decider, s.db.Name, s.lane.Key().User); err != nil {
		return err
	}
	if err := s.intend(a); err != nil {
		return err
	}
	for i := range a.votes {
		v := &a.votes[i]
		if !v.able {
			s.srv.warnUnable(v.conn.Shard())
			continue
		}
		// Whoever prepares owns it. The login role can end it again, a role set
		// in the block may not be there when it must.
		err := s.execBeside(v.conn, "SET LOCAL ROLE NONE; PREPARE TRANSACTION "+pool.QuoteLiteral(a.GID(v.conn.Shard())))
		if err != nil {
			return unprepared(v.conn.Shard(), err)
		}
		v.prepared = true
	}
	return nil
}

// votesSQL makes a participant check what was deferred, and asks who it is.
const votesSQL = `SET CONSTRAINTS ALL IMMEDIATE;
SELECT pg_catalog.pg_current_xact_id(), pg_catalog.current_setting('max_prepared_transactions')`

// decidesSQL does the same on the home shard, whose COMMIT must be durable
// before any other's.
const decidesSQL = votesSQL + `,
CASE WHEN pg_catalog.current_setting('synchronous_commit') IN ('off', 'local') THEN pg_catalog.set_config('synchronous_commit', 'on', true) END`

// muster asks the participants whether they can commit.
func (s *Session) muster() (*agreement, error) {
	a := &agreement{Transaction: twopc.Transaction{Cluster: s.snap.Cluster, ID: newID(), Decider: s.conn.Shard()}}
	for _, c := range s.parked {
		if c.Status != wire.TxActive {
			continue
		}
		rows, err := s.askBeside(c, votesSQL)
		if err != nil {
			return nil, err
		}
		a.Parts = append(a.Parts, directory.Part{Shard: c.Shard(), XID: rows[0][0]})
		a.votes = append(a.votes, vote{conn: c, able: rows[0][1] != "0"})
	}
	rows, err := s.askBeside(s.conn, decidesSQL)
	if err != nil {
		return nil, err
	}
	a.XID = rows[0][0]
	return a, nil
}

// askBeside is execBeside for a text that returns a row.
func (s *Session) askBeside(c *pool.Conn, text string) (rows [][]string, err error) {
	s.beside(c, func() { rows, err = c.Exec(text) })
	if err == nil && len(rows) == 0 {
		err = errors.New("the shard gave no answer")
	}
	return rows, err
}

// unprepared is the error of a shard that cannot promise to commit.
func unprepared(shard string, err error) error {
	if errors.Is(err, pool.ErrLost) {
		return err
	}
	told := *pgerr.From(err)
	if told.Detail == "" {
		told.Detail = "Shard " + shard + " could not prepare its part of the transaction, so all of it is rolled back."
	}
	return told.WithCause(err)
}

// followTimeout bounds how long a client waits for a shard to confirm what has
// been decided.
const followTimeout = 5 * time.Second

// follow ends the transaction of a participant, as has been decided. It reports
// false if the backend can be of no more use.
func (s *Session) follow(c *pool.Conn, verb string) (ok bool, err error) {
	v := s.agreement.vote(c)
	if v == nil || !v.prepared {
		if c.Status == wire.TxIdle {
			return true, nil
		}
		_, err := c.Exec(verb)
		return err == nil, err
	}
	_ = c.Conn().SetDeadline(time.Now().Add(followTimeout))
	_, err = c.Exec(verb + " PREPARED " + pool.QuoteLiteral(s.agreement.GID(c.Shard())))
	_ = c.Conn().SetDeadline(time.Time{})
	if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.UndefinedObject {
		err = nil // somebody took this proxy for dead and was faster
	}
	if err != nil {
		s.agreement.late = true
		s.log.Warn("a shard has not confirmed the end of a transaction", "shard", c.Shard(), "verb", verb, "err", err)
		return false, nil // it will
	}
	// PREPARE has made settings last that ROLLBACK takes back elsewhere.
	return verb == "COMMIT", nil
}

// disagree ends a block that cannot be committed, as PostgreSQL does when
// COMMIT fails. It tells the client, but not that weft is ready.
func (s *Session) disagree(err error) error {
	s.done.fail(s)
	s.quietFailed = true
	if c := s.conn; c != nil && !errors.Is(err, pool.ErrLost) {
		if _, lost := c.Exec("ROLLBACK"); lost == nil {
			s.block.tag = "ROLLBACK"
			s.tell(pgerr.From(err))
			if err := s.afterBlock(c); err != nil {
				return s.failed(err)
			}
			return nil
		}
	}
	s.forsake()
	s.lostTx = false // COMMIT has ended it
	return s.refuse(err)
}

// uncommitted answers the simple query of a COMMIT that could not be agreed on.
func (s *Session) uncommitted(err error) error {
	if errors.Is(err, errTold) || errors.Is(err, errEnd) {
		return s.refuseRead(err)
	}
	if err := s.disagree(err); err != nil {
		return err
	}
	s.tellReady()
	return nil
}

// executeCommit executes the portal of a COMMIT that all shards must agree to.
func (s *Session) executeCommit(lp *localPortal) error {
	if s.conn != nil && (s.unsynced || !s.ops.empty()) {
		// A Sync of weft's own leaves the extended protocol.
		if err := s.endImplicit(); err != nil || s.conn == nil || s.skipping {
			return err
		}
	}
	s.emitLocal()
	if !s.block.open || !s.ends() {
		s.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, s.endLocally([]byte(lp.text), lp.ends))})
		return nil
	}
	if err := s.agree(); err != nil {
		s.skipping = true
		if errors.Is(err, errTold) {
			return nil
		}
		return s.disagree(err)
	}
	s.committing, s.quietFailed = s.conn.Status == wire.TxActive, false
	s.conn.UnnamedBy = 0
	s.toServer.Grow()
	s.toServer.B = wire.AppendQuery(s.toServer.B, lp.text)
	s.ops.push(op{kind: opQuery, settles: true})
	err := s.exchange()
	s.skipping = s.skipping || s.quietFailed
	return err
}

// halfCommitted tells of shards that have not followed and had not prepared.
func halfCommitted(shards []string, err error) *pgerr.Error {
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the transaction is committed, but not for certain on shard %s", strings.Join(shards, ", ")).
		WithDetail("%s", pgerr.From(err).Message).
		WithHint("The schema may differ there. When the shard is back, run the commands again with IF NOT EXISTS or IF EXISTS. " +
			"With max_prepared_transactions above 0 on every server this cannot happen.").WithCause(err)
}

// commits reports whether a text that ends a block means to commit it.
func commits(text string) bool {
	w := words(text)
	return len(w) > 0 && (w[0] == "commit" || w[0] == "end")
}

// noteEnding remembers whether the simple query that is about to be sent ends a
// transaction: should its answer get lost, nobody knows how.
func (s *Session) noteEnding(text []byte, f *parser.Facts) {
	s.committing = s.conn.Status == wire.TxActive && endsTx(f) && commits(string(text))
}

// unknownEnd is what the client hears when the answer to a COMMIT is lost.
func unknownEnd(err error) error {
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the connection to the shard was lost during COMMIT").
		WithDetail("The transaction may or may not have been committed.").
		WithHint("Look whether its changes are there before doing it again.").WithCause(err)
}
