package proxy

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weft/catalog"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/planner"
	"weft/pool"
	"weft/sequence"
	"weft/span"
	"weft/tally"
	"weft/wire"
)

// Session is one client's connection. Its state is here and not on the stack
// of the goroutine that runs it, so that another runner can take over between
// two messages.
type Session struct {
	srv    *Server
	id     int32  // the process ID the client knows
	secret []byte // its cancel key
	client *wire.Stream
	log    *slog.Logger
	ctx    context.Context

	user     string
	startup  *wire.Packet
	db       *pool.Database
	lane     *pool.Lane
	owner    tally.Owner
	reported map[string]string // parameters as last told to the client; shared until changed
	ownsRep  bool              // reported is this session's own copy

	// What the client has made of its session.
	parseFrom      *pool.Settings // what parse was made of
	parse          *pool.Settings // see parseSettings
	settings       *pool.Settings
	inEffect       options // see learnOptions; for these settings:
	optionsFor     *pool.Settings
	optionsKnown   bool
	placeholders   map[string]bool
	advanced       bool // a sequence, perhaps
	statements     map[string]*statement
	statementBytes int
	allowance      allowance // of the memory for all clients' messages
	unnamed        unnamed
	lastBound      *statement      // what the unnamed portal was made of; nil for the unnamed statement
	channels       map[string]bool // LISTENed to
	notified       string          // the shard that it last notified on
	pins           pin
	inbox          inbox

	// The dialogue with the backend.
	conn     *pool.Conn
	parked   []*pool.Conn // held too, but not talked to now
	lastConn *pool.Conn   // of the home shard
	lanes    []shardLane  // by index of the shard
	block    block
	crowded  bool // it has several participants, see party
	piped    bool // extended messages without a Sync may have written, or locked rows
	implicit bool // the block is weft's own, for such messages: see pipeline.go
	script   script

	// Routing, in a database with declared tables.
	snap        *directory.Snapshot // as last seen
	hasTables   bool                // it declares tables of this database
	relies      reliance            // what was planned by it that has not been sent
	committing  bool                // a COMMIT is on its way
	agreement   *agreement          // of all shards, about it
	outdated    bool                // and something by one before it, with other declarations
	env         *planner.Env
	envFor      *pool.Settings
	roleAsked   time.Time // when that of env was asked for
	pending     []byte    // a Parse message that has not been sent
	hasPending  bool
	local       map[string]*localPortal
	portalLane  *pool.Lane           // where the unnamed portal is
	translate   *catalog.Translation // of the backend at hand
	portalRows  *catalog.Rows        // of what was bound last
	portals     map[string]*pool.Lane
	ending      bool             // what was bound last ends the block
	quiet       bool             // what runs is a part: the client is not told that weft is ready
	quietFailed bool             // and it has failed
	overheard   *overheard       // listens to the answer of a statement that the client has not sent
	loading     bool             // shards read COPY data: nobody can be asked anything
	drawn       map[string]int64 // values weft drew for it, by sequence
	lastDrawn   string
	unentitled  map[sequence.Name]bool // those that its role may not draw from
	fresh       [][]byte               // values drawn for the Bind that follows
	parsedNow   []*statement           // since the last Sync
	placed      *pool.Lane             // where the Bind goes whose Parse has just gone there
	placedFree  bool
	parsing     bool               // a text is rewritten to be parsed, not to be run
	calls       bool               // a weft.* function has been parsed, or what concerns the roles of all shards
	everywhere  map[string]*spread // portals whose execution goes to every shard
	copyNext    *boundCopy         // the portal to be executed next
	executing   *gathering         // the portal that is being executed
	unexecuted  bool               // what was bound last on the backend at hand waits for its Execute
	begun       bool               // a statement has been executed since the Sync, or since a COMMIT
	forAll      map[string]forAll  // portals whose execution is for all participants
	columns     map[string][]byte  // the RowDescription of portals that were weft's own

	toServer   wire.Out
	toClient   wire.Out
	rem        int // bytes of a row still to pass to the client
	ops        opQueue
	skipping   bool         // an error has been answered: skip to Sync
	pushed     bool         // something was sent whose answers have not been awaited
	unsynced   bool         // extended messages have been sent, the Sync has not
	settled    bool         // since the last Sync the backend has said how a transaction ended
	lostCause  *pgerr.Error // how it was lost, if the client has not heard
	lostTx     bool         // the transaction's backend is gone: only ROLLBACK helps
	failedHere bool         // it was weft that made it fail, before any shard took part
	fatal      bool         // the backend said FATAL: pass it on and end
	endsLostTx bool         // what is bound ends the lost transaction
	// commitsLostTx: and means to commit it.
	commitsLostTx bool
	// missesInLostTx is the answer to what is bound, if that is for a savepoint.
	missesInLostTx *pgerr.Error
	copied         bool       // a COPY in the extended protocol awaits its Sync
	copying        bool       // the relay met a CopyInResponse
	midFrame       bool       // a message of the client is still in its buffer
	done           effects    // what the open transaction has done so far
	soiled         *pool.Conn // a backend that has something of the session's and must go

	// What is counted of its statements, see run.go.
	run         run
	runShard    *pool.Shard   // that works on it, alone
	runShards   []string      // those of its legs
	traced      *span.Session // nil: it is not
	parent      string        // the traceparent of the text that came last
	runParts    []span.Part   // those of what is under way, if that is traced
	bound1      bound1
	portalFacts map[string]*parser.Facts // of named portals
	lastAnswer  int64                    // when an Execute was answered last

	loans        []loan
	listenedInTx bool // LISTEN was repeated on the backend inside a transaction

	// mu guards what others may touch: which backend to cancel.
	mu        sync.Mutex
	current   *pool.Conn
	legs      []*pool.Conn  // and those of a gathered statement
	legsBegan time.Time     // since when
	party     party         // what takes part in a block of several shards
	interrupt interrupt     // of that statement
	settling  *pool.Conn    // the backend weft itself is asking
	patience  patience      // how long it waits for shards
	cancelled chan struct{} // ends the wait for a backend

	turn        atomic.Int64 // counts the client's messages in blocks
	victim      atomic.Pointer[victim]
	woke        atomic.Bool // wake was called
	waiting     atomic.Bool // for its client, with a backend in hand
	idleTimeout time.Duration
	idleUntil   time.Time
	killed      atomic.Pointer[pgerr.Error] // why somebody wants it to end
	named       atomic.Bool                 // a statement of another session names it
	doomed      atomic.Pointer[pool.Conn]   // its backend, which that may have told to terminate
	shownPins   atomic.Uint32               // pins, for others to read
	// shown is the statement that ran last, shownAt since when it runs, negative
	// if it does no more.
	shown      atomic.Pointer[parser.Facts]
	shownAt    atomic.Int64
	oldStrings bool // standard_conforming_strings is off
	// oddEncoding says that texts cannot be scanned in the client's encoding.
	oddEncoding bool
	admin       *admin // it talks to weft's console
	started     time.Time
}

// statement is a prepared statement as the client knows it.
type statement struct {
	name   string
	server *pool.Statement
	facts  *parser.Facts
	// original is the client's text, where the backend's differs from it.
	original string
	// commands are the PREPAREs and DEALLOCATEs of its text.
	commands []sqlPrepared
	// meaning is what the names in its text meant when it was rewritten.
	meaning string
	planned planned
	// doubtful: what the client sent with its Parse failed for a reason that
	// PostgreSQL would have ended the session for. It may take it for prepared or
	// not.
	doubtful bool
}

// unnamed is the client's unnamed statement, kept so that it can be made again
// on another backend.
type unnamed struct {
	body    []byte // of the Parse message
	facts   *parser.Facts
	version uint32
	valid   bool
	// original is the client's text, where body's differs from it.
	original string
	commands []sqlPrepared
	meaning  string
	planned  planned
}

// errEnd ends a session without a word: the client is gone or has been told.
var errEnd = errors.New("session ends")

// serve runs the session until it ends.
func (s *Session) serve() {
	err := s.loop()
	var e *pgerr.Error
	if errors.As(err, &e) && !errors.Is(err, errEnd) {
		// A failed session is told why, whatever state it is in.
		fatal := *e
		fatal.Severity = pgerr.SeverityFatal
		s.tell(&fatal)
		_ = s.client.Conn().SetWriteDeadline(time.Now().Add(5 * time.Second))
		_ = s.flushClient()
		linger(s.client.Conn())
	}
}

// linger lets a client read the last word: closing a socket with unread bytes
// sends RST, which may overtake what was written.
func linger(c net.Conn) {
	w, ok := c.(interface{ CloseWrite() error })
	if !ok || w.CloseWrite() != nil {
		return
	}
	_ = c.SetReadDeadline(time.Now().Add(200 * time.Millisecond))
	_, _ = io.CopyN(io.Discard, c, 1<<20)
}

func (s *Session) loop() error {
	step := s.step
	if s.admin != nil {
		step = s.stepAdmin
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
		err := s.settleParse()
		if err == nil {
			err = s.flush() // what came before is answered first
		}
		if err != nil {
			return err
		}
		e := pgerr.Fatal(pgerr.ProtocolViolation, "invalid frontend message type %d", typ)
		e.File, e.Routine = "postgres.c", "SocketBackend"
		return e
	}
	if length < 4 || length > limit {
		// PostgreSQL cannot find the next message either: it closes.
		s.log.Warn("invalid message length", "type", string(typ), "length", length)
		return errEnd
	}
	if s.skipping && typ != wire.Sync && typ != wire.Terminate {
		return s.skip(length + 1)
	}
	if s.crowded {
		s.turn.Add(1)
	}
	if s.patience.stirred.Load() {
		s.calmDown()
	}
	switch typ {
	case wire.Query:
		return s.onQuery()
	case wire.Bind:
		return s.onBind(length)
	case wire.Parse, wire.Describe, wire.Execute, wire.Close:
		return s.extended(typ)
	case wire.Sync:
		return s.onSync()
	case wire.Flush:
		return s.onFlush()
	case wire.FunctionCall:
		return s.onFunctionCall()
	case wire.CopyData, wire.CopyDone, wire.CopyFail:
		if !s.ops.empty() {
			// The COPY may stand among what has been collected. If so, sending
			// that makes copyIn take this message.
			return s.flush()
		}
		// Left over from a COPY that failed: the client had not heard yet.
		return s.skip(length + 1)
	default: // wire.Terminate
		return errEnd
	}
}

// header blocks for the next message's header. What weft has to say by itself
// goes out while it waits.
func (s *Session) header() (typ byte, length int, err error) {
	if s.allowance.bytes > 0 && s.ops.empty() && s.toServer.Len() == 0 {
		s.allowance.end(&s.srv.budget)
	}
	for {
		if typ, length, ok := s.client.Header(); ok {
			return typ, length, nil
		}
		if s.woke.Load() {
			if err := s.woken(); err != nil {
				return 0, 0, err
			}
		}
		if s.toServer.Len() > 0 {
			// The client pauses without asking for answers: PostgreSQL would
			// have begun to work.
			if err := s.pushAll(); err != nil {
				return 0, 0, err
			}
		}
		if err := s.flushClient(); err != nil {
			return 0, 0, errEnd
		}
		timed := s.idleTimeout > 0 && s.idleDeadline() || s.crowded && s.idleInBlock()
		if timed && s.woke.Load() {
			continue // its deadline has just been overwritten
		}
		if s.crowded && !s.block.open {
			s.dispersed()
		}
		if s.conn != nil || s.crowded {
			s.waiting.Store(true)
		}
		err := s.client.Fill()
		if s.conn != nil || s.crowded {
			s.waiting.Store(false)
		}
		if err == nil {
			if timed {
				_ = s.client.Conn().SetReadDeadline(time.Time{})
				s.idleUntil = time.Time{}
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

// wake makes the session's goroutine leave its wait for the client.
func (s *Session) wake() {
	// The flag first: whoever clears the deadline looks at it afterwards.
	s.woke.Store(true)
	_ = s.client.Conn().SetReadDeadline(time.Unix(1, 0))
}

// woken handles why wake was called.
func (s *Session) woken() error {
	s.woke.Store(false)
	_ = s.client.Conn().SetReadDeadline(time.Time{})
	if e := s.killed.Load(); e != nil {
		return e
	}
	if s.srv.draining() && s.idle() {
		return pgerr.Fatal(pgerr.AdminShutdown, "terminating connection due to administrator command")
	}
	if u := s.idleUntil; !u.IsZero() && !time.Now().Before(u) {
		e := pgerr.Fatal(pgerr.IdleSessionTimeout, "terminating connection due to idle-session timeout")
		if s.block.open {
			e = pgerr.Fatal("25P03", "terminating connection due to idle-in-transaction timeout")
		}
		e.File, e.Routine = "postgres.c", "ProcessInterrupts"
		return e
	}
	if err := s.hear(); err != nil {
		return err
	}
	if s.idle() {
		s.deliver()
	}
	return nil
}

// idle reports whether no transaction is open and no answer outstanding.
func (s *Session) idle() bool {
	return s.ops.empty() && !s.lostTx && !s.block.open && !s.unsynced && !s.skipping && (s.conn == nil || s.conn.Status == wire.TxIdle) && s.toServer.Len() == 0
}

// kill ends the session with e at the next message boundary, at once if it is
// waiting for the client.
func (s *Session) kill(e *pgerr.Error) {
	s.killed.CompareAndSwap(nil, e)
	s.wake()
}

// flushClient writes what is waiting for the client.
func (s *Session) flushClient() error {
	if s.toClient.Len() == 0 {
		return nil
	}
	err := s.write(s.toClient.B)
	s.toClient.Reset()
	return err
}

// write gives bytes to the client, or to whoever listens in its place.
func (s *Session) write(b []byte) error {
	if s.overheard != nil {
		s.overheard.take(b)
		return nil
	}
	if k := s.script.kept; k != nil {
		b = k.take(b)
	}
	_, err := s.client.Write(b)
	return err
}

// tell adds an error or notice of weft's own to what waits for the client.
func (s *Session) tell(e *pgerr.Error) {
	e = s.asGivenUp(e)
	if v := s.asVictim(e.Code); v != nil {
		e = v
	}
	e = s.asPanic(e)
	if s.unwanted(e.Severity) {
		return
	}
	if e.Severity != pgerr.SeverityNotice && e.Severity != pgerr.SeverityWarning {
		s.failedWith(e.Code)
		s.block.barred = s.block.barred || e.Code == barredCode
		s.script.failed = s.script.running
	}
	if s.script.offset > 0 && e.Position > 0 {
		moved := *e
		moved.Position += s.script.offset
		e = &moved
	}
	s.toClient.Grow()
	s.toClient.B = wire.AppendError(s.toClient.B, e)
}

// ready adds a ReadyForQuery of weft's own.
func (s *Session) tellReady() {
	if s.quiet {
		return
	}
	if s.failAll() != nil {
		s.forsake()
	}
	// A backend that was lost while weft talked to it itself leaves no message that
	// could say whether the client is going to send a Sync: now it is not.
	s.skipping = false
	if s.script.running {
		return // its statements are told to be ready all at once
	}
	s.toClient.Grow()
	s.toClient.B = wire.AppendReadyForQuery(s.toClient.B, s.localStatus())
}

// close ends the session: the backend goes back if it can be made clean.
func (s *Session) close() {
	s.inbox.close()
	s.allowance.end(&s.srv.budget)
	if s.db == nil {
		return // the console
	}
	defer s.letGoOf() // after the backends
	s.srv.hub(s.db).forget(s)
	if s.loans != nil {
		s.returnLoans()
	}
	s.dropLegs()
	for _, c := range s.parked {
		s.leave(c)
	}
	s.parked = nil
	c := s.letGo()
	if c == nil {
		return
	}
	if s.unsynced || !s.ops.empty() || s.toServer.Len() > 0 {
		c.Discard()
		return
	}
	s.leave(c)
}

// localStatus is the transaction state weft reports by itself.
func (s *Session) localStatus() byte {
	switch {
	case s.lostTx:
		return wire.TxFailed
	case s.block.open && (s.conn == nil || s.conn.Status == wire.TxIdle):
		return wire.TxActive
	case s.conn != nil:
		return s.conn.Status
	}
	return wire.TxIdle
}

// refuse answers the client with an error of weft's own. Inside a transaction
// the backend's transaction must fail too, so the caller chooses it only where
// no backend is involved or it has been dropped.
func (s *Session) refuse(err error) error {
	e := pgerr.From(err)
	if e.IsFatal() || pgerr.PanicIn(e) != nil {
		return e
	}
	s.quietFailed = true
	if leavesDoubt(err, e) {
		for _, st := range s.parsedNow {
			st.doubtful = true
		}
	}
	s.tell(e)
	return nil
}

// leavesDoubt reports whether an error is one that no server raises in the middle of a
// session that goes on.
func leavesDoubt(err error, e *pgerr.Error) bool {
	if errors.Is(err, pool.ErrLost) || e.Code == pgerr.FeatureNotSupported {
		return true
	}
	class := e.Code[:min(2, len(e.Code))]
	return class == "53" || class == "57" && e.Code != pgerr.QueryCanceled || class == "08" && e.Code != pgerr.ProtocolViolation
}

func (s *Session) flushOrEnd() error {
	if err := s.flushClient(); err != nil {
		return errEnd
	}
	return nil
}
