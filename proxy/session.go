package proxy

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"time"

	"weft/heat"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/tally"
	"weft/wire"
)

// Session is one client's connection. The state of a session is here and in the
// parts below, not on the stack of the goroutine that runs it, so that another
// goroutine can take over between two messages. Each part owns its fields: the
// part's methods assign them, other code reads them or calls a method, and a test in
// arch_test.go fails for an assignment from outside.
type Session struct {
	srv    *Server
	id     int32 // the process ID that the client knows
	client *wire.Stream
	log    *slog.Logger
	db     *pool.Database
	lane   *pool.Lane // to the home shard
	login  login

	// What the client is told, and what is kept for it.
	out      answers
	prepared prepared
	portals  portals
	record   record
	drawn    drawn
	account  account
	reach    reach

	// The dialogue with shards.
	held     held
	pipe     pipe
	implicit implicit
	tx       transaction
	commit   commit
	lost     loss

	// How a statement is carried out.
	route   routing
	script  script
	gather  gatherer
	legs    legs
	write   writer
	lookups lookups
	copy    copier
	every   everywhere
	util    utility

	admin *admin // set if the session talks to weft's console
}

// login is who the client is, and how it logged in.
type login struct {
	user    string
	startup *wire.Packet
	started time.Time
	secret  []byte // the cancel key that the client knows
	there   bool   // the client has come in by a listener of ForStandbys
}

// newSession returns a session whose parts know it.
func newSession(srv *Server, client *wire.Stream, startup *wire.Packet, user, database string) *Session {
	s := &Session{srv: srv, client: client, login: login{user: user, startup: startup, started: time.Now()}}
	s.out.s, s.prepared.s, s.portals.s, s.record.s, s.drawn.s, s.account.s, s.reach.s = s, s, s, s, s, s, s
	s.held.s, s.held.away.s, s.pipe.s, s.implicit.s, s.tx.s, s.commit.s, s.lost.s, s.lost.retry.s = s, s, s, s, s, s, s, s
	s.portals.stays.tx = &s.tx
	s.route.s, s.route.touch.s, s.route.outset.s, s.script.s, s.gather.s, s.legs.s, s.write.s, s.lookups.s = s, s, s, s, s, s, s, s
	s.copy.s, s.gather.explain.s, s.every.s, s.util.s, s.util.programs.s = s, s, s, s, s
	s.reach.cancelled = make(chan struct{}, 1)
	s.account.owner = tally.Owner{User: user, Database: database}
	s.account.warm.meter = heat.NewMeter()
	return s
}

// statement is a prepared statement as the client knows it.
type statement struct {
	name   string
	server *pool.Statement
	facts  *parser.Facts
	// original is the client's text, if the backend's text differs.
	original string
	// commands are the PREPAREs and DEALLOCATEs of the statement's text.
	commands []sqlPrepared
	// meaning is what the names in the statement's text meant when the text was rewritten.
	meaning string
	planned planned
	// doubtful: messages sent with the Parse failed for a reason for which PostgreSQL would
	// have ended the session. The client may take the statement for prepared or not.
	doubtful bool
}

// unnamed is the client's unnamed statement, kept so that it can be prepared again on
// another backend.
type unnamed struct {
	body    []byte // of the Parse message
	facts   *parser.Facts
	version uint32
	valid   bool // the client has an unnamed statement
	// original is the client's text, if the text in body differs.
	original string
	commands []sqlPrepared
	meaning  string
	planned  planned
}

// gatherer reads from several shards and puts their answers together.
type gatherer struct {
	s       *Session
	explain explainer
}

// legs opens, tracks and ends the backends of a gathered statement.
type legs struct{ s *Session }

// writer changes rows on several shards.
type writer struct{ s *Session }

// lookups keeps the entries of lookup tables in step with the rows.
type lookups struct{ s *Session }

// copier carries out COPY.
type copier struct{ s *Session }

// explainer carries out EXPLAIN of statements over several shards.
type explainer struct{ s *Session }

// everywhere runs commands that every shard must run.
type everywhere struct{ s *Session }

// utility carries out commands and functions that weft itself answers.
type utility struct {
	s        *Session
	programs programs
}

// errEnd ends a session without a message: the client is gone or has been told.
var errEnd = errors.New("session ends")

// errRest ends a call of serve: the session waits for its client in a loop, without a stack.
var errRest = errors.New("session rests")

// serve runs the session until it ends, or rests.
func (s *Session) serve() (rests bool) {
	err := s.loop()
	if err == errRest {
		return true
	}
	var e *pgerr.Error
	if errors.As(err, &e) && !errors.Is(err, errEnd) {
		// Tell the client why the session failed, whatever state the session is in.
		fatal := *e
		fatal.Severity = pgerr.SeverityFatal
		s.out.tell(&fatal)
		_ = s.client.Conn().SetWriteDeadline(time.Now().Add(5 * time.Second))
		_ = s.out.flushClient()
		wire.Linger(s.client.Conn())
	}
	return false
}

func (s *Session) loop() error {
	step := s.step
	if s.admin != nil {
		step = s.admin.step
	}
	for {
		if err := step(); err != nil {
			return err
		}
	}
}

// step handles one message of the client.
func (s *Session) step() error {
	typ, length, err := s.header()
	if err != nil {
		return err
	}
	limit := wire.FrontendLimit(typ)
	if limit == 0 {
		err := s.prepared.settleParse()
		if err == nil {
			err = s.flush() // earlier messages are answered first
		}
		if err != nil {
			return err
		}
		e := pgerr.Fatal(pgerr.ProtocolViolation, "invalid frontend message type %d", typ)
		e.File, e.Routine = "postgres.c", "SocketBackend"
		return e
	}
	if length < 4 || length > limit {
		// PostgreSQL cannot find the next message either, and closes the connection.
		s.log.Warn("invalid message length", "type", string(typ), "length", length)
		return errEnd
	}
	if s.pipe.course.skips(typ) {
		return s.pipe.skip(length + 1)
	}
	if !s.lost.retry.within {
		s.lost.retry.begin()
	}
	if s.tx.crowded {
		s.client.Task().Leave()
		s.reach.turn.Add(1)
	}
	if s.reach.patience.stirred.Load() {
		s.reach.calmDown()
	}
	switch typ {
	case wire.Query:
		return s.onQuery()
	case wire.Bind:
		return s.portals.onBind(length)
	case wire.Parse, wire.Describe, wire.Execute, wire.Close:
		return s.extended(typ)
	case wire.Sync:
		return s.onSync()
	case wire.Flush:
		return s.onFlush()
	case wire.FunctionCall:
		return s.onFunctionCall()
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
		if !s.pipe.ops.empty() {
			// The COPY may be among the messages that have not been sent. If so, sending
			// them makes copyIn take this message.
			return s.flush()
		}
		// Left over from a COPY that failed before the client was told.
		return s.pipe.skip(length + 1)
	default: // wire.Terminate
		return errEnd
	}
}

// header blocks until the header of the next message has arrived. Messages that weft has
// for the client go out meanwhile.
func (s *Session) header() (typ byte, length int, err error) {
	if s.account.allowance.bytes > 0 && s.pipe.ops.empty() && s.pipe.unsent.Len() == 0 {
		s.account.allowance.end(&s.srv.budget)
	}
	s.route.touch.rest()
	s.route.outset.rest()
	if s.lost.retry.due {
		s.lost.retry.rewind()
	}
	for {
		if typ, length, ok := s.client.Header(); ok {
			if s.srv.keeper.isHalted() {
				s.awaitHalt()
			}
			return typ, length, nil
		}
		if s.reach.woke.Load() {
			if err := s.woken(); err != nil {
				return 0, 0, err
			}
		}
		if s.pipe.unsent.Len() > 0 {
			// The client pauses without asking for answers: PostgreSQL would have begun to
			// work.
			if err := s.pushAll(); err != nil {
				return 0, 0, err
			}
		}
		if err := s.out.flushClient(); err != nil {
			return 0, 0, errEnd
		}
		timed := s.record.idleTimeout > 0 && s.lost.idleDeadline() || s.tx.crowded && s.reach.idleInBlock()
		if timed && s.reach.woke.Load() {
			continue // the deadline that wake set has just been overwritten
		}
		if s.tx.crowded && !s.tx.isOpen() {
			s.reach.disband()
		}
		if s.held.conn != nil || s.tx.crowded {
			s.reach.waiting.Store(true)
		}
		if !s.lost.retry.within {
			s.client.LetGo()
		}
		rests, err := s.fill(timed)
		if rests {
			return 0, 0, errRest
		}
		if s.held.conn != nil || s.tx.crowded {
			s.reach.waiting.Store(false)
		}
		if err == nil {
			if timed {
				_ = s.client.Conn().SetReadDeadline(time.Time{})
				s.record.endIdle()
			}
			if s.reach.woke.Load() { // before what has just come
				if err := s.woken(); err != nil {
					return 0, 0, err
				}
			}
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) {
				s.log.Debug("client read failed", "err", err)
			}
			return 0, 0, errEnd
		}
		if err := s.woken(); err != nil {
			return 0, 0, err
		}
	}
}

// fill waits for the client. It reports whether the session rests instead: a session in a loop that holds no backend needs no stack meanwhile.
func (s *Session) fill(timed bool) (rests bool, err error) {
	t := s.client.Task()
	if t == nil || timed || s.held.conn != nil || s.tx.crowded {
		t.Return()
		return false, s.client.Fill()
	}
	return s.client.FillOrRest()
}

// wake makes the session's goroutine stop waiting for the client.
func (s *Session) wake() {
	// Set the flag first: code that overwrites the deadline looks at the flag afterwards.
	s.reach.woke.Store(true)
	_ = s.client.Conn().SetReadDeadline(time.Unix(1, 0))
}

// woken does what the session was woken for.
func (s *Session) woken() error {
	s.reach.woke.Store(false)
	_ = s.client.Conn().SetReadDeadline(time.Time{})
	if e := s.reach.killed.Load(); e != nil {
		return e
	}
	if s.srv.drain.due(s.id, time.Now()) && s.idle() {
		return pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command")
	}
	if u := s.record.idleUntil; !u.IsZero() && !time.Now().Before(u) {
		e := pgerr.Fatal(pgerr.IdleSessionTimeout, "terminating connection due to idle-session timeout")
		if s.tx.isOpen() {
			e = pgerr.Fatal("25P03", "terminating connection due to idle-in-transaction timeout")
		}
		e.File, e.Routine = "postgres.c", "ProcessInterrupts"
		return e
	}
	if err := s.lost.hear(); err != nil {
		return err
	}
	if s.idle() {
		s.record.deliver()
	}
	return nil
}

// idle reports whether no transaction is open and no answer is due.
func (s *Session) idle() bool {
	return s.pipe.ops.empty() && !s.lost.is() && !s.tx.isOpen() && !s.pipe.isUnsynced() && !s.pipe.isSkipping() && (s.held.conn == nil || s.held.conn.Status() == wire.TxIdle) && s.pipe.unsent.Len() == 0
}

// kill ends the session with e at the next message boundary, at once if it is
// waiting for the client.
func (s *Session) kill(e *pgerr.Error) {
	s.reach.killed.CompareAndSwap(nil, e)
	s.wake()
}

// flushClient writes the messages that wait for the client.
func (o *answers) flushClient() error {
	if o.s.lost.retry.due {
		o.cut(o.s.lost.retry.since) // the client gets the answers of the next attempt
	}
	if o.Len() == 0 {
		return nil
	}
	err := o.give(o.B)
	o.Reset()
	return err
}

// give gives bytes to the client, or to the sink if there is one.
func (o *answers) give(b []byte) error {
	if o.sink != nil {
		o.sink.take(b)
		return nil
	}
	if k := o.s.script.kept; k != nil {
		b = k.take(b)
	}
	if o.s.lost.retry.due {
		return nil // the client gets the answers of the next attempt
	}
	o.passed += uint64(len(b))
	_, err := o.s.client.Write(b)
	return err
}

// sofar counts the bytes that the client has been given, or will be given next.
func (o *answers) sofar() uint64 { return o.passed + uint64(o.Len()) }

// cut drops what waits for the client beyond a count of sofar.
func (o *answers) cut(to uint64) {
	if o.sofar() > to {
		o.B = o.B[:to-o.passed]
	}
}

// tell adds an error or notice of weft to the messages that wait for the client.
func (o *answers) tell(e *pgerr.Error) {
	o.s.lost.retry.lookAfter(e)
	e = o.s.reach.asGivenUp(e)
	if v := o.s.reach.asVictim(e.Code); v != nil {
		e = v
	}
	e = o.s.asPanic(e)
	if o.unwanted(e.Severity) {
		return
	}
	if e.Severity != pgerr.SeverityNotice && e.Severity != pgerr.SeverityWarning {
		o.s.account.failedWith(e.Code)
		o.s.tx.noteError(e.Code)
		o.s.script.fail()
	}
	if o.s.script.offset > 0 && e.Position > 0 {
		moved := *e
		moved.Position += o.s.script.offset
		e = &moved
	}
	o.Grow()
	o.B = wire.AppendError(o.B, e)
}

// tellReady adds a ReadyForQuery of weft, unless a part of a statement runs.
func (o *answers) tellReady() {
	if o.isQuiet() {
		return
	}
	if o.s.tx.failAll() != nil {
		o.s.lost.closeAll()
	}
	// A backend that was lost while weft talked to it by itself leaves no op that says
	// whether the client is going to send a Sync: here the client is not.
	o.s.pipe.resume()
	if o.s.script.isRunning() {
		return // the script tells once, at its end
	}
	o.tellParameters(o.s.held.conn)
	o.Grow()
	o.B = wire.AppendReadyForQuery(o.B, o.s.localStatus())
	o.s.lost.retry.end()
}

// close ends the session: the backend goes back to the pool if it can be made clean.
func (s *Session) close() {
	s.reach.inbox.close()
	s.account.allowance.end(&s.srv.budget)
	s.route.outset.leave()
	if s.db == nil {
		return // a session of the console
	}
	defer s.route.touch.end()
	defer s.commit.leaveToResolver() // after the backends have been given back
	if len(s.record.channels) > 0 {
		s.hub().Forget(listener{s})
	}
	if s.drawn.loans != nil {
		s.drawn.returnLoans()
	}
	s.legs.dropLegs()
	s.held.leaveParked()
	c := s.held.detach()
	if c == nil {
		return
	}
	if s.pipe.isUnsynced() || !s.pipe.ops.empty() || s.pipe.unsent.Len() > 0 {
		s.held.forsake(c)
		return
	}
	s.held.leave(c)
}

// localStatus is the transaction status that weft reports by itself.
func (s *Session) localStatus() byte {
	switch {
	case s.lost.is():
		return wire.TxFailed
	case s.tx.isOpen() && (s.held.conn == nil || s.held.conn.Status() == wire.TxIdle):
		return wire.TxActive
	case s.held.conn != nil:
		return s.held.conn.Status()
	}
	return wire.TxIdle
}

// refuse answers the client with an error of weft. Inside a transaction the backend's
// transaction must fail, too, so refuse is only for places where no backend is involved or
// the backend has been dropped.
func (o *answers) refuse(err error) error {
	e := pgerr.From(err)
	if e.IsFatal() || pgerr.PanicIn(e) != nil {
		return e
	}
	o.fail()
	if leavesDoubt(err, e) {
		for _, st := range o.s.pipe.parsedNow {
			st.doubtful = true
		}
	}
	if o.s.lost.retry.takes(err, false) {
		return nil
	}
	o.tell(e)
	return nil
}

// leavesDoubt reports whether an error is one that PostgreSQL does not raise in a session
// that goes on.
func leavesDoubt(err error, e *pgerr.Error) bool {
	if errors.Is(err, pool.ErrLost) || e.Code == pgerr.FeatureNotSupported {
		return true
	}
	if e.Code == pgerr.ConfigurationLimitExceeded || e.Code == pgerr.InsufficientResources {
		return false // a throttle, or overload: nothing has been sent
	}
	class := e.Code[:min(2, len(e.Code))]
	return class == "53" || class == "57" && e.Code != pgerr.QueryCanceled || class == "08" && e.Code != pgerr.ProtocolViolation
}

// flushOrEnd is flushClient, but ends the session without a message if the client is gone.
func (o *answers) flushOrEnd() error {
	if err := o.flushClient(); err != nil {
		return errEnd
	}
	return nil
}
