package proxy

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// In a database with declared tables BEGIN touches nobody, because nobody
// knows yet where the transaction will go. A shard joins when it is first
// used: it is sent the BEGIN and what the block has done since that every
// participant must have (savepoints, settings).

// block is the client's transaction block.
type block struct {
	open   bool
	begin  string   // the command that opened it
	plain  bool     // and it has no options, so it cannot fail
	replay []string // what a shard that joins must run after it
	trial  bool     // the last of it is still to succeed
	sets   bool     // settings are among it
	// cursors are where the block's cursors are.
	cursors map[string]cursor
	// sealed: nobody knows how it was opened, so nobody can join.
	sealed bool
	// writer is the first participant that may have written, also are the
	// others: with one of them COMMIT is two-phase.
	writer *pool.Conn
	also   []*pool.Conn
	// everywhere: schemas have been changed, on all shards alike.
	everywhere bool
	barred     bool // a shard has refused to write in it, for it was READ ONLY
	patient    bool // its participants have no idle_in_transaction_session_timeout: weft has
	serial     bool // it is SERIALIZABLE and may use one shard, which is
	only       *pool.Lane
	carries    bool       // a participant leaves notes of what it notifies
	notifier   *pool.Conn // the participant that has notified itself
	perhaps    bool       // or may have
	gated      bool       // all its snapshots were taken between transactions
	snapped    bool       // its first statement has been sent
	clock      *pool.Conn // the participant that joined first: now() is its own
	now        string     // what that is, once it has mattered to others
	chain      bool       // it is about to end, and the next one begins with that
	tag        string     // of the last command, while there are several participants
	began      time.Time
	// before are the parameters that have changed in it, as the client knew them.
	before map[string]string
}

// changed notes that a parameter is another one than before.
func (b *block) changed(name, before string) {
	if _, known := b.before[name]; known {
		return
	}
	if b.before == nil {
		b.before = map[string]string{}
	}
	b.before[name] = before
}

// opensBlock reports whether the text does nothing but open a block.
func opensBlock(f *parser.Facts) bool {
	return f != nil && f.Statements == 1 && f.Effects&(parser.TxBegin|parser.TxEnd) == parser.TxBegin
}

// plainBegin is the text that nearly all blocks are opened with. Texts that
// differ from it in spelling only become it, so that it is not taken apart and
// kept anew for every transaction.
const plainBegin = "BEGIN"

// beginText returns the text of a command that opens a block.
func beginText(text []byte) string {
	if bytes.EqualFold(bytes.TrimRight(text, "; \t\r\n"), []byte(plainBegin)) {
		return plainBegin
	}
	return string(text)
}

// begun is the answer to it.
var begun = wire.AppendCommandComplete(nil, "BEGIN")

// start opens the block. It returns the command tag.
func (b *block) start(text string) string {
	if text == plainBegin {
		*b = block{open: true, begin: plainBegin, plain: true, began: time.Now()}
		return "BEGIN"
	}
	words := words(text)
	*b = block{open: true, begin: text, began: time.Now()}
	switch {
	case len(words) == 1, len(words) == 2 && (words[1] == "transaction" || words[1] == "work"):
		b.plain = words[0] == "begin" || words[0] == "start"
	}
	return beginTag(text)
}

// beginTag is the command tag of what opens a block.
func beginTag(text string) string {
	if words := words(text); len(words) > 0 && words[0] == "start" {
		return "START TRANSACTION"
	}
	return "BEGIN"
}

// join makes the backend at hand take part in the block.
func (t *transaction) join() error {
	b := &t.block
	if b.sealed {
		return crossShardBlock()
	}
	t.s.reach.noteParty(t.s.held.conn)
	if b.plain && len(b.replay) == 0 {
		t.joinUnasked()
		return nil
	}
	t.s.held.conn.UnnamedBy = 0
	for i := -1; i < len(b.replay); i++ {
		sql := t.s.reach.beginning(t.s.held.conn)
		if i >= 0 {
			sql = b.replay[i]
		}
		if _, err := t.s.held.conn.Exec(sql); err != nil {
			t.s.held.detach().Discard()
			return err
		}
	}
	return nil
}

// joinUnasked sends what opens the block with the statement that comes next, and
// nobody waits for its answer. As extended messages it costs neither side a
// ReadyForQuery, and should it fail, what is behind it is skipped. Then the backend
// is given up, so one that holds what the session needs is asked by a query, and
// cancel requests for the statement wait until that has been answered.
func (t *transaction) joinUnasked() {
	c := t.s.held.conn
	t.s.pipe.unsent.Grow()
	c.Status = wire.TxActive
	if t.patient || t.s.record.pins != 0 || t.s.commit.carries(c) {
		t.s.pipe.unsent.B = wire.AppendQuery(t.s.pipe.unsent.B, t.s.reach.beginning(c))
		t.s.pipe.ops.push(op{kind: opQuery, injected: true, sure: true})
		c.Opening.Store(true)
		c.UnnamedBy = 0
		return
	}
	if !c.Prepared(ownBegin) {
		t.s.prepared.prepare(ownBegin, op{kind: opParse, injected: true, sure: true})
	}
	t.s.pipe.unsent.B = wire.AppendClose(appendOwn(t.s.pipe.unsent.B, ownBegin), 'P', "")
	t.s.pipe.ops.push(op{kind: opBegin, injected: true, sure: true})
}

// late reports whether a shard has joined the block after another, or would: now()
// is not there what it is in the block.
func (b *block) late(l *pool.Lane) bool { return b.open && b.clock != nil && b.clock.Lane() != l }

// quiesce makes sure that nothing waits to be sent or answered, so that weft can
// talk to the backend itself. If extended messages have written there, without a
// BEGIN, they get one: whatever weft says would end their transaction.
func (t *transaction) quiesce() error {
	if t.s.held.conn != nil && t.s.implicit.pipedHere() {
		if err := t.s.implicit.widen(); err != nil {
			return err
		}
	}
	return t.quiesceAtEnd()
}

// quiesceAtEnd is sent where that transaction shall end.
func (t *transaction) quiesceAtEnd() error {
	if t.s.pipe.ops.empty() && t.s.pipe.unsent.Len() == 0 {
		return nil
	}
	wait := t.s.pipe.exchange
	if t.s.pipe.unsynced {
		wait = t.s.flush // extended messages are not answered by themselves
	}
	if err := wait(); err != nil {
		return err
	}
	if t.s.held.conn == nil || t.s.pipe.skipping {
		return errTold
	}
	return nil
}

// participant returns the index of a parked backend that is in the block.
func (h *held) participant() int {
	return slices.IndexFunc(h.parked, func(c *pool.Conn) bool { return c.Status != wire.TxIdle })
}

// noteWriting notes that the backend at hand is about to write.
func (t *transaction) noteWriting() error {
	if !t.open {
		t.s.implicit.piped = true
		return nil
	}
	return t.noteWriter(t.s.held.conn)
}

// noteWriter notes that a participant of the block is about to write. With the second
// one the commit needs more than the shards can do by themselves, which is
// found out before anything is written there.
func (t *transaction) noteWriter(c *pool.Conn) error {
	b := &t.block
	if b.writer == c || b.writer == nil {
		b.writer = c
		return nil
	}
	if slices.Contains(b.also, c) {
		return nil
	}
	if err := t.mayWriteToo(c); err != nil {
		return err
	}
	b.also = append(b.also, c)
	return nil
}

// mayWriteToo refuses a second writing participant where the client wants one at
// most, or where the shards cannot commit together.
func (t *transaction) mayWriteToo(c *pool.Conn) error {
	if len(t.also) == 0 {
		if err := t.mayWriteSeveral(); err != nil {
			return err
		}
		if err := t.s.util.mayPrepare(t.writer); err != nil {
			return err
		}
	}
	return t.s.util.mayPrepare(c)
}

// mayWriteSeveral asks what the client wants. Of a block that all shards write in
// it has been asked, at a time when the backend could be.
func (t *transaction) mayWriteSeveral() error {
	if t.everywhere {
		return nil
	}
	// In the middle of a dialogue nobody can be asked, and whoever is in one has
	// learnt them before.
	if !t.s.pipe.ops.mayFail() && !t.s.pipe.loading {
		if err := t.s.record.learnOptions(); err != nil {
			return err
		}
	}
	if t.s.record.inEffect.single {
		return crossShardWrite()
	}
	return nil
}

// twoPhase reports whether several participants may have written.
func (b *block) twoPhase() bool { return len(b.also) > 0 }

// decides reports whether COMMIT needs a decision: several shards must end alike,
// or other proxies must be able to find out.
func (b *block) decides() bool { return b.twoPhase() || b.everywhere }

// wroteOn reports whether a participant may have written.
func (b *block) wroteOn(c *pool.Conn) bool { return b.writer == c || slices.Contains(b.also, c) }

// toAll reports whether a text is one that every participant must run.
func toAll(f *parser.Facts) bool {
	return f.Statements == 1 && len(f.Relations) == 0 && f.Effects&parser.Opaque == 0 &&
		f.Effects&(parser.Savepoint|parser.ChangesSettings|parser.ChangesAllSettings|parser.Constraints) != 0
}

// elsewhere is what the others run in the place of a text that all participants must
// run. A constraint of a home table is on the home shard alone, so SET CONSTRAINTS
// with names is that shard's to answer, and the others may not know the name.
func elsewhere(text string, f *parser.Facts) (sql string, home bool) {
	if f.Effects&parser.Constraints == 0 {
		return text, false
	}
	if w := words(text); len(w) < 3 || w[2] == "all" {
		return text, false
	}
	return "DO " + quote.Literal("BEGIN "+strings.TrimRight(text, "; \t\r\n")+"; EXCEPTION WHEN undefined_object THEN NULL; END"), true
}

// rollsBackTo reports whether a text is a ROLLBACK TO, the one command about
// savepoints that a failed transaction takes.
func rollsBackTo(text []byte, f *parser.Facts) bool {
	if f.Statements != 1 || f.Effects&parser.Savepoint == 0 {
		return false
	}
	w := words(string(text))
	return len(w) > 0 && w[0] == "rollback"
}

// onAll repeats on the other participants what the backend at hand is about to
// run, and remembers it for those that join later.
func (t *transaction) onAll(text string, f *parser.Facts) error {
	for _, c := range t.s.held.parked {
		if c.Status == wire.TxIdle {
			continue
		}
		if _, err := c.Exec(text); err != nil {
			return err
		}
	}
	b := &t.block
	b.sets = b.sets || f.Effects&(parser.ChangesSettings|parser.ChangesAllSettings) != 0
	if len(b.replay) >= maxReplay {
		b.sealed = true // whoever joins now would not know where it is
		return nil
	}
	b.replay, b.trial = append(b.replay, text), true
	return nil
}

// tried notes how the command went that was to be remembered.
func (b *block) tried(ok bool) {
	if b.trial && !ok {
		b.replay = b.replay[:len(b.replay)-1]
	}
	b.trial = false
}

// maxReplay bounds what is remembered for shards that join later.
const maxReplay = 1000

// ender returns the participant whose COMMIT decides, nil if none has written. With
// several it is the one that has notified, else the home shard's if that is among them: what cannot be
// prepared, such as temporary tables and cursors WITH HOLD, is there. Else it is the first of the snapshot's: it
// goes through its gate before the others, in the order in which readers shut them (see inTurn).
func (t *transaction) ender() *pool.Conn {
	b := &t.block
	if b.twoPhase() && b.notifier != nil && b.wroteOn(b.notifier) {
		return b.notifier
	}
	if !b.twoPhase() {
		return b.writer
	}
	first, at := b.writer, t.gateOrder(b.writer)
	for _, c := range b.also {
		if i := t.gateOrder(c); i < at {
			first, at = c, i
		}
	}
	return first
}

// gateOrder is where the shard of a backend stands in the order of gates: the home shard comes first.
func (t *transaction) gateOrder(c *pool.Conn) int {
	if c.Lane() == t.s.lane {
		return -1
	}
	return slices.IndexFunc(t.s.held.lanes, func(l shardLane) bool { return l.lane == c.Lane() })
}

// chooseEnder chooses the backend whose answer to COMMIT or ROLLBACK is the client's:
// the one that failed, else the one that decides. It returns false when nobody
// has joined.
func (t *transaction) chooseEnder() bool {
	if t.s.held.conn != nil && t.s.held.conn.Status == wire.TxFailed || t.twoPhase() && t.s.legs.atFailed() {
		return true
	}
	if w := t.ender(); w != nil && w != t.s.held.conn {
		if i := slices.Index(t.s.held.parked, w); i >= 0 {
			if t.s.held.conn != nil {
				t.s.held.parked = append(t.s.held.parked, t.s.held.detach())
			}
			t.s.held.unpark(i)
		}
	}
	if t.s.held.conn == nil || t.s.held.conn.Status == wire.TxIdle {
		i := t.s.held.participant()
		if i < 0 {
			return false
		}
		if t.s.held.conn != nil {
			t.s.held.parked = append(t.s.held.parked, t.s.held.detach())
		}
		t.s.held.unpark(i)
	}
	return true
}

// beforeEnds waits for what the backend at hand has been sent, if ends is going
// to leave it.
func (t *transaction) beforeEnds() error {
	c, w := t.s.held.conn, t.ender()
	if c == nil || c.Status != wire.TxIdle && (w == nil || w == c) || t.s.pipe.ops.empty() && t.s.pipe.unsent.Len() == 0 {
		return nil
	}
	if err := t.s.flush(); err != nil {
		return err
	}
	if t.s.held.conn == nil || t.s.pipe.skipping {
		return errTold
	}
	return nil
}

// conclude ends the block on the participants whose answers the client does
// not see, after the one that answered has ended it.
func (t *transaction) conclude(c *pool.Conn) {
	if len(t.s.held.parked) == 0 || !(t.open && c.Status == wire.TxIdle || t.chain && c.Status == wire.TxActive) {
		return
	}
	verb := "ROLLBACK"
	if t.tag == "COMMIT" {
		verb = "COMMIT"
	}
	a := t.s.commit.agreement
	t.s.commit.followAll(verb)
	if err := a.lateness(); err != nil {
		t.s.out.fail()
		t.s.out.tell(pgerr.From(err))
		return
	}
	if a != nil && a.tag != nil {
		t.s.out.Grow()
		t.s.out.B = wire.AppendFrame(t.s.out.B, wire.CommandComplete, a.tag)
	}
}

// settleBlock follows what a ReadyForQuery says about the block.
func (t *transaction) settleBlock(c *pool.Conn) {
	b := &t.block
	switch {
	case c.Status == wire.TxIdle && b.open:
		t.s.reach.disband()
		t.releaseOthers(c)
		t.block = block{}
		t.forgetPortals()
	case c.Status != wire.TxIdle && !b.open:
		t.block = block{open: true, sealed: true, writer: c, clock: c}
	case c.Status == wire.TxIdle && len(b.replay) > 0:
		*b = block{} // of messages that a Sync has ended
	case b.chain && c.Status == wire.TxActive:
		t.s.reach.disband()
		t.releaseOthers(c)
		begin, plain := t.chained(c)
		*b = block{open: true, begin: begin, plain: plain, sealed: b.sealed || t.unsettled(), clock: c, began: time.Now()}
	default:
		b.chain = false
	}
}

// unsettled reports whether a block that was committed with AND CHAIN may have set
// something for the session, which nobody but the backend at hand knows: the
// transaction must be over before that can be asked.
func (t *transaction) unsettled() bool {
	d := &t.s.record.done
	return t.tag != "ROLLBACK" && (d.bits&(parser.Opaque|parser.ChangesAllSettings|parser.DiscardAll) != 0 || d.bits&parser.ChangesSettings != 0 && !allLocal(d.sets))
}

// chained returns the command that opens, on shards which join later, the block that
// AND CHAIN has opened here: with the modes of the one before, be it that they
// were set after its BEGIN.
func (t *transaction) chained(c *pool.Conn) (begin string, plain bool) {
	b := &t.block
	if !slices.ContainsFunc(b.replay, func(text string) bool { return strings.Contains(strings.ToLower(text), "transaction") }) {
		return b.begin, b.plain
	}
	rows, err := c.Exec("SHOW transaction_isolation;SHOW transaction_read_only;SHOW transaction_deferrable")
	if err != nil || len(rows) != 3 {
		return b.begin, b.plain // the backend is lost, and the block with it
	}
	begin = "BEGIN ISOLATION LEVEL " + rows[0][0]
	if rows[1][0] == "on" {
		begin += ", READ ONLY"
	} else {
		begin += ", READ WRITE"
	}
	if rows[2][0] == "on" {
		begin += ", DEFERRABLE"
	}
	return begin, false
}

// forgetPortals follows the end of a transaction, which no portal outlives.
func (t *transaction) forgetPortals() {
	t.s.portals.unexecuted = false
	t.s.portals.lane = nil
	clear(t.s.portals.lanes)
	clear(t.s.portals.local)
	clear(t.s.account.portals)
	clear(t.s.portals.forAll)
	clear(t.s.portals.columns)
	clear(t.s.portals.fetches)
	maps.DeleteFunc(t.s.portals.gathered, func(_ string, c gatheredCursor) bool { return !c.hold })
}

// endPortals forgets the portals of a transaction that a Sync or a simple query has ended.
func (t *transaction) endPortals() {
	if !t.open && !t.s.lost.is() && (t.s.held.conn == nil || t.s.held.conn.Status == wire.TxIdle) {
		t.forgetPortals()
	}
}

// releaseOthers releases the participants, whose transactions are over.
func (t *transaction) releaseOthers(main *pool.Conn) {
	kept := t.s.held.parked[:0]
	for _, c := range t.s.held.parked {
		if t.sets {
			c.Settings = main.Settings // all have run the same commands
		}
		if t.chain && t.unsettled() {
			c.Discard()
			continue
		}
		if t.s.held.isPinned(c) {
			kept = append(kept, c)
			continue
		}
		if t.s.held.soiled == c {
			t.s.held.soiled = nil
			c.Discard()
			continue
		}
		t.s.held.untouch(c)
		*t.s.held.lastOf(c.Lane()) = c
		c.UsedBy(t.s.id)
		c.Release()
	}
	clear(t.s.held.parked[len(kept):])
	t.s.held.parked = kept
}

// abandon gives up the block after a participant was lost: the others roll
// back with their connections, unless they have done so already.
func (t *transaction) abandon() {
	t.s.record.unreport()
	t.s.reach.disband()
	kept := t.s.held.parked[:0]
	for _, c := range t.s.held.parked {
		switch {
		case c.Status != wire.TxIdle || t.s.commit.agreement.has(c):
			if t.s.held.isPinned(c) {
				t.s.record.pins &= pinSessionMode
			}
			c.Discard()
		case t.s.held.isPinned(c):
			kept = append(kept, c)
		case t.sets:
			c.Discard() // it may have other settings than it was known to have
		default:
			t.s.held.untouch(c)
			c.UsedBy(t.s.id)
			c.Release()
		}
	}
	clear(t.s.held.parked[len(kept):])
	t.s.held.parked = kept
	t.block = block{}
	t.s.commit.leaveToResolver()
}

func crossShardBlock() *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "another shard cannot join this transaction").
		WithDetail("The transaction was begun by a text that weft cannot read, has set too many savepoints, or a setting from a row, or follows with AND CHAIN one that has set something for the session.").
		WithHint("Send BEGIN as a statement of its own, COMMIT without AND CHAIN, and set_config without FROM.")
}

// words returns the words of a short command in lower case, without comments.
func words(text string) []string {
	var sc parser.Scanner
	if sc.Scan([]byte(text), parser.Options{}) {
		text = string(sc.Norm)
	}
	return strings.Fields(strings.ToLower(strings.TrimRight(text, "; \t\r\n")))
}
