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

// commit is the part of a session that ends its transaction.
type commit struct {
	s *Session

	// underway: a COMMIT has been sent and not been answered yet.
	underway bool
	// idle: the transaction that is under way has written nothing, as its shard says.
	idle bool
	// pledging: what is under way is PREPARE TRANSACTION.
	pledging bool
	// agreement is what the participants have said so far; nil if one shard commits alone.
	agreement *agreement
	// plain ends blocks that no shard has to agree on; nil before the first.
	plain *agreement
}

// noteSent notes that the end of a transaction, COMMIT or ROLLBACK, has been sent: a COMMIT is under
// way from here on, and a lost backend leaves its outcome in doubt.
func (cm *commit) noteSent(tag string) { cm.underway = tag == "COMMIT" }

// noteEnded notes that the transaction is over and settled, or that its loss has been dealt with.
func (cm *commit) noteEnded() { cm.underway, cm.idle, cm.pledging = false, false, false }

// A block that has written on several shards ends the same way on all of them: the decision is
// entered on one shard, the others prepare, the COMMIT of the deciding shard decides, and the
// others follow. twopc.Commit has the reasons, twopc.Driver the order; commit.go and follow.go
// have the dialogues with the shards. What a session cannot finish, because the session or a
// shard dies, is left to the resolver (leftover.go).

// agreement is the end of a block on the shards beside the one that answers the client. Its
// Driver calls it back as the Decider and the Participants.
type agreement struct {
	twopc.Driver
	cm       *commit
	plain    bool // there is no decision: at most one shard has written, or the block is rolled back
	name     twopc.Name
	decision twopc.Decision
	conns    []*pool.Conn  // backends of the participants
	parts    []twopc.Part  // what the participants begin as
	voters   []*pool.Conn  // the backends of conns that prepare
	owns     []*schema.Own // what weft keeps on the shards of conns; nil for a Reader
	undo     []plan.Name   // names declared by intend that the tables may not get
	told     bool          // intend has entered the commit in the directory
	err      error         // why the block cannot be committed, for the client
	sleep    func()        // ends what keepAwake began; nil before
	talks    []ownTalk     // the dialogues in which the participants prepare
	undone   bool          // the deciding transaction has been rolled back, and its backend lives
	tag      []byte        // the deciding shard's answer to COMMIT, kept until all have followed
	began    int64         // when the commit began, by tally.Now
	shielded bool          // cancel requests reach no backend
	aimed    *pool.Conn    // the backend that they reached before
	following
}

// newAgreement returns an agreement without participants. stopAt may be nil.
func (cm *commit) newAgreement(stopAt func(twopc.Point)) *agreement {
	a := &agreement{cm: cm}
	a.Driver = twopc.NewDriver(a, a, stopAt)
	return a
}

// index returns the index in conns of a backend, -1 if it is not among them.
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

// agree makes the participants of the block promise, right before COMMIT, that they will follow.
// After an error the block must be rolled back.
func (cm *commit) agree() error {
	if err := cm.carryNotes(); err != nil {
		return err
	}
	if !cm.ends() || cm.s.held.conn == nil || cm.s.held.conn.Status() != wire.TxActive {
		return nil
	}
	if err := cm.s.tx.quiesce(); err != nil {
		return err
	}
	if err := cm.s.tx.spare(); err != nil || !cm.ends() {
		return err
	}
	if cm.certain() {
		if wrote, err := cm.wrote(); err != nil || !wrote {
			cm.idle = err == nil
			return err
		}
	}
	a, err := cm.muster()
	if err != nil {
		return err
	}
	if err := cm.mayLast(a); err != nil {
		return err
	}
	cm.s.srv.left.Take(a.name.Nonce)
	if len(a.decision.Members) > 0 {
		cm.s.account.runsAs(tally.TwoPhase)
	}
	cm.s.account.addShards(len(a.decision.Members) + 1)
	a.began = tally.Now()
	cm.agreement = a
	defer func() {
		if a.sleep != nil {
			a.sleep()
		}
	}()
	if !a.Agree(a.parts, a.decision.Announced) {
		return a.err
	}
	// A COMMIT whose wait for a standby is cancelled counts as committed, and a failover may undo it.
	a.shield()
	return nil
}

// mayLast refuses a transaction of shards that are not as durable as the cluster insists on.
func (cm *commit) mayLast(a *agreement) error {
	snap := cm.s.srv.cfg.Snapshot()
	if !snap.DurabilityEnforced || cm.certain() {
		return nil
	}
	err := cm.s.srv.keeper.durable.Refuse(snap, a.name.Decider)
	for i := 0; err == nil && i < len(a.decision.Members); i++ {
		err = cm.s.srv.keeper.durable.Refuse(snap, a.decision.Members[i].Shard)
	}
	return err
}

// muster lists the participants: those that have written are members of the decision.
func (cm *commit) muster() (*agreement, error) {
	a := cm.newAgreement(cm.s.srv.cfg.StopAt)
	a.name = twopc.Name{
		Cluster: cm.s.route.snap.Cluster, Incarnation: cm.s.srv.cfg.Proxy, Nonce: twopc.NewNonce(),
		Decider: cm.s.held.conn.Shard(), Timeline: cm.s.held.conn.Generation().Timeline,
	}
	a.decision = twopc.Decision{Key: a.name.Key(), Announced: cm.s.tx.everywhere}
	for _, c := range cm.s.held.parked {
		if c.Status() == wire.TxIdle {
			continue
		}
		if !cm.s.tx.wroteOn(c) {
			a.add(c, twopc.Reader, nil)
			continue
		}
		if c.Status() == wire.TxFailed {
			return nil, transactionFailed()
		}
		if err := cm.enlistVoter(a, c); err != nil {
			return nil, err
		}
	}
	cm.weigh(a)
	return a, nil
}

// enlistVoter adds a participant that prepares.
func (cm *commit) enlistVoter(a *agreement, c *pool.Conn) error {
	if err := cm.learnOrigin(c); err != nil {
		return err
	}
	own, err := cm.s.srv.keeper.owns.Ensure(cm.s.srv.ctx, c.Shard(), cm.s.db.Name)
	if err != nil {
		return err
	}
	a.add(c, twopc.Active, own)
	a.decision.Members = append(a.decision.Members, twopc.Member{Shard: c.Shard(), Server: c.Origin().Server, Replicated: cm.replicates(c)})
	return nil
}

// learnOrigin asks a backend for its server, once per connection.
func (cm *commit) learnOrigin(c *pool.Conn) error {
	if c.Origin().Server != "" {
		return nil
	}
	rows, err := cm.askBeside(c, twopc.OriginSQL)
	if err == nil {
		c.NoteOrigin(pool.Origin(twopc.ReadOrigin(rows[0])))
	}
	return err
}

// replicates reports whether what is prepared on a backend waits for a synchronous standby. The last probe of the server tells: a backend that was opened right
// after a failover has asked before the new primary had standbys.
func (cm *commit) replicates(c *pool.Conn) bool {
	if waits, known := cm.s.srv.keeper.seeker.View(c.Shard()).Waits(c.Generation()); known {
		return waits
	}
	return c.Origin().Replicates
}

func (a *agreement) add(c *pool.Conn, p twopc.Part, own *schema.Own) {
	a.conns, a.parts, a.owns = append(a.conns, c), append(a.parts, p), append(a.owns, own)
	if p == twopc.Active {
		a.voters = append(a.voters, c)
	}
}

// Decide enters the decision, in the transaction that it decides.
func (a *agreement) Decide() twopc.Answer {
	cm := a.cm
	own, err := cm.s.srv.keeper.owns.Ensure(cm.s.srv.ctx, a.name.Decider, cm.s.db.Name)
	if err != nil {
		a.err = err
		return twopc.Refusal // even if a connection was lost: it was another one
	}
	if a.err = cm.enter(a, own); a.err == nil {
		a.sleep = cm.s.reach.keepAwake(cm.s.held.conn)
	}
	return answerOf(a.err)
}

func (cm *commit) enter(a *agreement, own *schema.Own) error {
	cm.s.pipe.unsent.Grow()
	talk := ownTalk{c: cm.s.held.conn, out: &cm.s.pipe.unsent}
	cm.s.tx.passThrough(&talk, own)
	// Deferred constraints and triggers run first: once the others have promised, these must
	// neither fail nor wait for a transaction that waits for the others.
	talk.add(ownImmediate)
	talk.add(ownBriefly)
	talk.add(ownDecide, a.decision.Parameters(own.Key)...)
	err := talk.run()
	switch e := (*pgerr.Error)(nil); {
	case !errors.As(err, &e):
	case e.Code == barredCode:
		return lateReadOnly().WithCause(err)
	case strings.HasPrefix(e.Code, "42"), e.Code == "3F000", e.Code == "23514":
		// weft's own schema was dropped, or the database is another of the same name, with
		// another key: the next commit looks for the schema again.
		cm.s.srv.keeper.owns.Forget(cm.s.db.Name)
	}
	return err
}

// Announce tells all proxies, through the directory, that schemas are about to change.
func (a *agreement) Announce() twopc.Answer {
	if a.err = a.cm.intend(a); a.err != nil {
		return twopc.Refusal
	}
	return twopc.OK
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
			c.QueryFailed()
		case wire.NoticeResponse:
			if failed == nil && pool.Unreplicated(body) {
				failed = pool.ErrUnreplicated
			}
		}
	})
	c.UnnamedGone()
	if lost != nil {
		return "", lost
	}
	return tag, failed
}

// answerOf classifies the result of a message. What is not replicated may be lost with its server, as if contact was
// lost.
func answerOf(err error) twopc.Answer {
	switch {
	case err == nil:
		return twopc.OK
	case errors.Is(err, pool.ErrLost), errors.Is(err, pool.ErrUnreplicated):
		return twopc.Lost
	}
	return twopc.Refusal
}

// sendPrepare asks a participant to prepare.
func (a *agreement) sendPrepare(i int, last bool) {
	cm, c := a.cm, a.conns[i]
	if a.talks == nil {
		a.talks = make([]ownTalk, len(a.conns))
		cm.s.reach.trackConns(a.voters)
	}
	cm.s.pipe.unsent.Grow()
	talk := &a.talks[i]
	*talk = ownTalk{c: c, out: &cm.s.pipe.unsent}
	for _, sql := range cm.promise() {
		talk.once(sql)
	}
	cm.s.tx.passThrough(talk, a.owns[i])
	if len(a.decision.Members) > 0 && a.decision.Members[0].Listed {
		talk.add(ownPart, twopc.PartParameters(a.owns[i].Key, string(a.name.Append(nil, c.Shard())))...)
	}
	talk.add(ownDurably) // whatever the defaults of the role, the database and the server are
	talk.once(string(append(a.name.Append([]byte("PREPARE TRANSACTION '"), c.Shard()), '\'')))
	cm.s.pipe.unsent.B = wire.AppendEmpty(cm.s.pipe.unsent.B, wire.Sync)
	cm.s.pipe.sendTo(c, last)
}

// hearPrepare reads a participant's answer to PREPARE TRANSACTION.
func (a *agreement) hearPrepare(i int, last bool) twopc.Answer {
	c := a.conns[i]
	tag, err := a.talks[i].answer()
	if err == nil && tag != "PREPARE TRANSACTION" {
		err = transactionFailed() // PREPARE TRANSACTION rolls back a failed transaction
	}
	if errors.Is(err, pool.ErrUnreplicated) {
		err = unpromised(c.Shard(), err)
	}
	answer := answerOf(err)
	if answer == twopc.Refusal && c.Status() != wire.TxIdle {
		answer = twopc.Failed // what runs before PREPARE TRANSACTION has failed
	}
	if err != nil && (a.err == nil || answer == twopc.Lost) {
		a.err = unprepared(c.Shard(), err)
	}
	if last {
		a.cm.s.reach.trackConns(nil)
		for _, c := range a.voters {
			c.AwaitCancels()
		}
	}
	return answer
}

// sendTo sends what waits in pipe.unsent to a backend. With last it also waits for the first
// bytes of the answer. A failure is found when the answer is read.
func (p *pipe) sendTo(c *pool.Conn, last bool) {
	if last {
		_ = c.WriteAndFill(p.unsent.B)
	} else {
		_, _ = c.Write(p.unsent.B)
	}
	p.unsent.Reset()
}

// trackConns sets the backends that cancel requests reach while they work at the same time.
func (re *reach) trackConns(conns []*pool.Conn) {
	re.mu.Lock()
	re.legs = append(re.legs[:0], conns...)
	re.mu.Unlock()
}

// promise returns what runs before PREPARE. The role that prepares owns the transaction: the
// login role can end it later, a role set in the block may not exist by then. Deferred
// constraints run before, as the role that the client has set.
func (cm *commit) promise() []string {
	if !cm.inOtherHands() {
		return nil
	}
	return []string{"SET CONSTRAINTS ALL IMMEDIATE", "SET LOCAL ROLE NONE"}
}

// inOtherHands reports whether the session may have another role than its login's, or wants
// commits that are not durable.
func (cm *commit) inOtherHands() bool {
	if cm.s.tx.sets || cm.s.record.done.bits&(parser.Opaque|parser.ChangesSettings|parser.ChangesAllSettings) != 0 {
		return true
	}
	for _, name := range [...]string{"role", "session_authorization", "synchronous_commit"} {
		if _, set := cm.s.record.settings.Get(name); set {
			return true
		}
	}
	return false
}

// askBeside is execBeside for a text that returns a row.
func (cm *commit) askBeside(c *pool.Conn, text string) (rows [][]string, err error) {
	cm.s.every.beside(c, func() { rows, err = c.Exec(text) })
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

// unpromised is the error of a shard whose PREPARE TRANSACTION was cancelled while it waited for a standby.
func unpromised(shard string, err error) error {
	return pgerr.New(pgerr.QueryCanceled, "the commit was cancelled while shard %q waited for its synchronous standby", shard).
		WithDetail("The transaction has been rolled back on all shards.").WithCause(err)
}

// disagree ends a block that cannot be committed, as PostgreSQL does when COMMIT fails. It sends
// the client the error, but no ReadyForQuery.
func (cm *commit) disagree(err error) error {
	cm.s.record.done.fail(cm.s)
	cm.s.out.fail()
	c := cm.s.held.conn
	alive := false
	if a := cm.agreement; a != nil {
		cm.undo(a)
		alive = a.undone
	} else if c != nil && !errors.Is(err, pool.ErrLost) {
		_, lost := c.Exec("ROLLBACK")
		alive = lost == nil
	}
	if alive {
		cm.s.tx.noteTag("ROLLBACK")
		cm.s.out.tell(pgerr.From(err))
		if err := cm.s.pipe.afterBlock(c); err != nil {
			return cm.s.pipe.failed(err)
		}
		return nil
	}
	cm.s.lost.closeAll()
	cm.s.lost.end() // the COMMIT has ended the lost transaction
	return cm.s.out.refuse(err)
}

// Rollback rolls back the deciding transaction.
func (a *agreement) Rollback() {
	if c := a.cm.s.held.conn; c != nil {
		_, lost := c.Exec("ROLLBACK")
		a.undone = lost == nil
	}
}

// uncommitted answers the simple query of a COMMIT that could not be agreed on.
func (cm *commit) uncommitted(err error) error {
	if errors.Is(err, errTold) || errors.Is(err, errEnd) {
		return cm.s.lost.refuseRead(err)
	}
	if err := cm.disagree(err); err != nil {
		return err
	}
	cm.s.out.tellReady()
	return nil
}

// executeCommit executes the portal of a COMMIT that all shards must agree to, or of a COMMIT or ROLLBACK that was bound in
// another state of the transaction.
func (cm *commit) executeCommit(lp *localPortal) error {
	if cm.s.held.conn != nil && !cm.s.pipe.unasked() && (cm.s.pipe.isUnsynced() || !cm.s.pipe.ops.empty()) {
		// A Sync sent by weft leaves the extended protocol.
		if err := cm.s.held.endImplicit(); err != nil || cm.s.held.conn == nil || cm.s.pipe.isSkipping() {
			return err
		}
	}
	cm.s.emitLocal()
	if pledges(lp.ends) {
		return cm.executePledge(lp)
	}
	if !cm.s.tx.isOpen() || !cm.s.tx.chooseEnder() {
		cm.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, cm.s.tx.endLocally([]byte(lp.text), lp.ends))})
		return nil
	}
	cm.s.tx.noteChain(lp.ends.Effects&parser.TxBegin != 0)
	if !commits(lp.text) {
		return cm.sendEnd(lp)
	}
	if err := cm.agree(); err != nil {
		cm.s.pipe.skipToSync()
		if errors.Is(err, errTold) {
			return nil
		}
		return cm.disagree(err)
	}
	return cm.sendEnd(lp)
}

// sendEnd sends a COMMIT that the participants have agreed to, and waits for the answer.
func (cm *commit) sendEnd(lp *localPortal) error {
	cm.underway = cm.s.held.conn.Status() == wire.TxActive
	cm.s.held.conn.UnnamedGone()
	cm.s.pipe.unsent.Grow()
	cm.s.pipe.unsent.B = wire.AppendQuery(cm.s.pipe.unsent.B, lp.text)
	cm.s.pipe.ops.push(op{kind: opQuery, settles: true})
	m := cm.s.out.mark()
	err := cm.s.pipe.exchange()
	if cm.s.out.failedSince(m) {
		cm.s.pipe.skipToSync()
	}
	return err
}

// commits reports whether a text that ends a block asks to commit it, or to prepare it.
func commits(text string) bool {
	if t := strings.TrimRight(text, "; \t\r\n"); strings.EqualFold(t, "commit") || strings.EqualFold(t, "end") {
		return true
	}
	w := words(text)
	return len(w) > 0 && (w[0] == "commit" || w[0] == "end" || w[0] == "prepare")
}

// noteEnding remembers whether the simple query about to be sent commits a transaction: if its
// answer is lost, the outcome is unknown.
func (cm *commit) noteEnding(text []byte, f *parser.Facts) {
	cm.underway = cm.s.held.conn.Status() == wire.TxActive && endsTx(f) && commits(string(text))
}

// unknownEnd is what the client hears when the answer to a COMMIT is lost.
func unknownEnd(err error) error {
	return pgerr.New(pgerr.TransactionResolutionUnknown, "the connection to the shard was lost during COMMIT").
		WithDetail("The transaction may or may not have been committed.").
		WithHint("Look whether its changes are there before doing it again.").WithCause(err)
}
