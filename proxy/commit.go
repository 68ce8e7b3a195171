package proxy

import (
	"errors"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/schema"
	"weft/tally"
	"weft/twopc"
	"weft/wire"
)

// A block that has written on several shards ends the same way on all of them: the
// decision is entered on one, the others prepare, that one's COMMIT decides, and
// the others follow. twopc.Commit has the order and the reasons; here is the
// talking. What a session cannot finish, because it or a shard dies, is left to
// the resolver (leftover.go).

// agreement is the commit of such a block.
type agreement struct {
	twopc.Commit
	name     twopc.Name
	decision twopc.Decision
	conns    []*pool.Conn  // of the participants beside the deciding one
	owns     []*schema.Own // what weft keeps on theirs
	undo     []plan.Name   // names declared for it that the tables may not get
	told     bool          // it is in the directory
	severed  bool          // contact with the deciding shard is lost
	tag      []byte        // the COMMIT of the deciding shard, until all have followed
	late     []string      // shards that have not, in time
	began    int64         // when, as tally.Now tells it
}

// index returns which participant a backend is, -1 if none.
func (a *agreement) index(c *pool.Conn) int {
	if a != nil {
		for i, p := range a.conns {
			if p == c {
				return i
			}
		}
	}
	return -1
}

func (a *agreement) has(c *pool.Conn) bool { return a.index(c) >= 0 }

// agree makes the participants of the block promise, right before COMMIT, that
// they will follow. After an error it must be rolled back.
func (s *Session) agree() error {
	if err := s.carryNotes(); err != nil {
		return err
	}
	if !s.block.decides() || s.conn == nil || s.conn.Status != wire.TxActive {
		return nil
	}
	if err := s.sent(); err != nil {
		return err
	}
	if err := s.spare(); err != nil || !s.block.decides() {
		return err
	}
	a, err := s.muster()
	if err != nil {
		return err
	}
	s.srv.hands.take(a.name.Nonce)
	s.runsAs(tally.TwoPhase)
	s.visits(len(a.conns) + 1)
	a.began = tally.Now()
	s.agreement = a
	a.Begin(len(a.conns))
	if err := s.decide(a); err != nil {
		return err
	}
	defer s.keepAwake(s.conn)()
	if s.block.everywhere {
		if err := s.intend(a); err != nil {
			a.Stopped()
			return err
		}
	}
	return s.prepareAll(a)
}

// muster makes a list of those who have written.
func (s *Session) muster() (*agreement, error) {
	a := &agreement{name: twopc.Name{Cluster: s.snap.Cluster, Incarnation: s.srv.cfg.Proxy, Nonce: twopc.NewNonce(), Decider: s.conn.Shard()}}
	a.decision = twopc.Decision{Key: a.name.Key(), Announced: s.block.everywhere}
	for _, c := range s.parked {
		if c.Status == wire.TxIdle || !s.block.wroteOn(c) {
			continue
		}
		if c.Status == wire.TxFailed {
			return nil, transactionFailed()
		}
		if c.Server == "" {
			// Once per connection: a server does not change under one.
			rows, err := s.askBeside(c, "SELECT weft.server()")
			if err != nil {
				return nil, err
			}
			c.Server = rows[0][0]
		}
		own, err := s.srv.own(s.ctx, c.Shard(), s.db.Name)
		if err != nil {
			return nil, err
		}
		a.conns, a.owns = append(a.conns, c), append(a.owns, own)
		a.decision.Members = append(a.decision.Members, twopc.Member{Shard: c.Shard(), Server: c.Server})
	}
	return a, nil
}

// decide enters the decision, in the transaction that it is about.
func (s *Session) decide(a *agreement) error {
	own, err := s.srv.own(s.ctx, a.name.Decider, s.db.Name)
	if err != nil {
		a.Stopped()
		return err
	}
	s.srv.stopAt(twopc.BeforeDecide)
	s.toServer.Grow()
	talk := ownTalk{c: s.conn, out: &s.toServer}
	s.passThrough(&talk, own)
	// What was deferred runs first: it must not fail, or wait for somebody who
	// waits for the others, when those have promised.
	talk.add(ownImmediate)
	talk.add(ownBriefly)
	talk.add(ownDecide, a.decision.Parameters(own.Key)...)
	if err := talk.run(); err != nil {
		a.severed = errors.Is(err, pool.ErrLost)
		a.Decided(answerOf(err))
		switch e := (*pgerr.Error)(nil); {
		case !errors.As(err, &e):
		case e.Code == barredCode:
			return lateReadOnly().WithCause(err)
		case strings.HasPrefix(e.Code, "42"), e.Code == "3F000", e.Code == "23514":
			// Somebody has dropped it, or the database is another one of the same
			// name, with another key: next time it is looked for anew.
			s.srv.disown(s.db.Name)
		}
		return err
	}
	a.Decided(twopc.OK)
	s.srv.stopAt(twopc.AfterDecide)
	return nil
}

// result reads the answers to a simple query up to ReadyForQuery. It returns the
// last command tag.
func result(c *pool.Conn) (tag string, err error) {
	var failed error
	lost := c.UntilReady(func(typ byte, body []byte) {
		switch typ {
		case wire.CommandComplete:
			t, _, _ := wire.CString(body)
			tag = string(t)
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
			c.StalePortal = true
		}
	})
	c.UnnamedBy = 0
	if lost != nil {
		return "", lost
	}
	return tag, failed
}

// answerOf sorts what came of a message.
func answerOf(err error) twopc.Answer {
	switch {
	case err == nil:
		return twopc.OK
	case errors.Is(err, pool.ErrLost):
		return twopc.Lost
	}
	return twopc.Refusal
}

// prepareAll makes all participants prepare, at once.
func (s *Session) prepareAll(a *agreement) error {
	if len(a.conns) == 0 {
		return nil
	}
	s.srv.stopAt(twopc.BeforePrepare)
	s.trackConns(a.conns)
	talks := make([]ownTalk, len(a.conns))
	for i, c := range a.conns {
		s.toServer.Grow()
		talks[i] = ownTalk{c: c, out: &s.toServer}
		for _, sql := range s.promise() {
			talks[i].once(sql)
		}
		s.passThrough(&talks[i], a.owns[i])
		talks[i].once(string(append(a.name.Append([]byte("PREPARE TRANSACTION '"), c.Shard()), '\'')))
		s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Sync)
		if s.sendTo(c, i == len(a.conns)-1); i == 0 && len(a.conns) > 1 {
			s.srv.stopAt(twopc.DuringPrepare)
		}
	}
	var refused error
	for i, c := range a.conns {
		tag, err := talks[i].answer()
		if err == nil && tag != "PREPARE TRANSACTION" {
			err = transactionFailed() // PREPARE of a failed one rolls back
		}
		a.Voted(i, answerOf(err))
		if err != nil && (refused == nil || errors.Is(err, pool.ErrLost)) {
			refused = unprepared(c.Shard(), err)
		}
	}
	s.trackConns(nil)
	for _, c := range a.conns {
		c.AwaitCancels()
	}
	if refused == nil {
		s.srv.stopAt(twopc.AfterPrepare)
	}
	return refused
}

// sendTo sends what waits in toServer to a backend. The last of several is waited
// for in the same breath. A failure is found by whoever reads.
func (s *Session) sendTo(c *pool.Conn, last bool) {
	if last {
		_ = c.WriteAndFill(s.toServer.B)
	} else {
		_, _ = c.Write(s.toServer.B)
	}
	s.toServer.Reset()
}

// trackConns lets cancel requests reach backends that work at the same time.
func (s *Session) trackConns(conns []*pool.Conn) {
	s.mu.Lock()
	s.legs = append(s.legs[:0], conns...)
	s.mu.Unlock()
}

// promise is what comes before PREPARE. Whoever prepares owns the transaction: the
// login role can end it again, a role set in the block may not be there when it must;
// and what was deferred runs as the role that the client has set. The promise
// must be as durable as the decision.
func (s *Session) promise() []string {
	if !s.inOtherHands() {
		return nil
	}
	return []string{"SET CONSTRAINTS ALL IMMEDIATE", "SET LOCAL ROLE NONE", "SET LOCAL synchronous_commit = on"}
}

// inOtherHands reports whether the session may have another role than its login's,
// or wants commits that are not durable.
func (s *Session) inOtherHands() bool {
	if s.block.sets || s.done.bits&(parser.Opaque|parser.ChangesSettings|parser.ChangesAllSettings) != 0 {
		return true
	}
	for _, name := range [...]string{"role", "session_authorization", "synchronous_commit"} {
		if _, set := s.settings.Get(name); set {
			return true
		}
	}
	return false
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
	if told.Code == pgerr.ObjectNotInPrerequisiteState && strings.Contains(told.Message, "prepared transactions are disabled") {
		return unable(shard).WithCause(err)
	}
	if strings.Contains(told.Message, "NOTIFY") && told.Hint == "" {
		told.Hint = "What notifies on several shards of a transaction must do so by pg_notify or NOTIFY in the body of a function in SQL or PL/pgSQL, which weft reads, or on the home shard: SELECT pg_notify(…). " +
			"A function that is older than weft's reading of it must be made again (CREATE OR REPLACE)."
	}
	if told.Detail == "" {
		told.Detail = "Shard " + shard + " could not prepare its part of the transaction, so all of it is rolled back."
	}
	return told.WithCause(err)
}

// disagree ends a block that cannot be committed, as PostgreSQL does when
// COMMIT fails. It tells the client, but not that weft is ready.
func (s *Session) disagree(err error) error {
	s.done.fail(s)
	s.quietFailed = true
	severed := errors.Is(err, pool.ErrLost) && (s.agreement == nil || s.agreement.severed)
	if c := s.conn; c != nil && !severed {
		if _, lost := c.Exec("ROLLBACK"); lost == nil {
			s.block.tag = "ROLLBACK"
			s.tell(pgerr.From(err))
			if err := s.afterBlock(c); err != nil {
				return s.failed(err)
			}
			return nil
		}
	}
	s.undoParked()
	s.forsake()
	s.lostTx = false // COMMIT has ended it
	return s.refuse(err)
}

// undoParked tells the participants that the transaction is not committed, after
// one of them was lost before it could be.
func (s *Session) undoParked() {
	if a := s.agreement; a != nil && a.Outcome() == twopc.Aborted {
		s.followAll("ROLLBACK")
	}
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
	if s.conn != nil && !s.unasked() && (s.unsynced || !s.ops.empty()) {
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
	s.block.chain = lp.ends.Effects&parser.TxBegin != 0
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

// commits reports whether a text that ends a block means to commit it.
func commits(text string) bool {
	if t := strings.TrimRight(text, "; \t\r\n"); strings.EqualFold(t, "commit") || strings.EqualFold(t, "end") {
		return true
	}
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
