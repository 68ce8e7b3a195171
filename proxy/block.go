package proxy

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/quote"
	"weft/twopc"
	"weft/wire"
)

// In a database with declared tables BEGIN is sent to no shard, because where the transaction
// will go is not known yet. A shard joins when it is first used: it is sent the BEGIN and the
// commands of the block that every participant must have run (savepoints, settings).

// block is the client's transaction block.
type block struct {
	state  blockState
	begin  string   // the command that opened the block
	plain  bool     // the command that opened the block has no options, so it cannot fail
	replay []string // what a joining shard must run after begin
	trial  bool     // the last command of replay has not succeeded yet
	sets   bool     // replay has settings
	// cursors says where the block's cursors are.
	cursors map[string]cursor
	// writer is the first participant that may have written, also are the others that may have.
	// If there are others, COMMIT is two-phase.
	writer *pool.Conn
	also   []*pool.Conn
	// everywhere: the block has changed schemas, on all shards alike.
	everywhere bool
	barred     bool // a shard has refused a write because the block was READ ONLY
	patient    bool // weft enforces idle_in_transaction_session_timeout instead of the participants
	snapshots  snapshotState
	only       *pool.Lane // the shard of a block that is held to one
	carries    bool       // a participant leaves notes of its notifications
	notice     notice
	notifier   *pool.Conn // the participant that has notified by itself, as sure as notice says
	clock      *pool.Conn // the participant that joined first: its now() is the block's
	now        string     // now() of clock, once it has been asked
	chain      bool       // the block is about to end with AND CHAIN
	tag        string     // the tag of the last command, while there are several participants
	began      time.Time
	// before are the old values of parameters that have changed in the block, as the client knew
	// them.
	before map[string]string
}

// changed notes the value that a parameter had before it was first changed in the block.
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

// plainBegin is the text that nearly all blocks are opened with. Texts that differ only in
// spelling are replaced by it, so that they are not parsed and kept for every transaction.
const plainBegin = "BEGIN"

// beginText returns the text of a command that opens a block.
func beginText(text []byte) string {
	if bytes.EqualFold(bytes.TrimRight(text, "; \t\r\n"), []byte(plainBegin)) {
		return plainBegin
	}
	return string(text)
}

// begun is the answer to BEGIN.
var begun = wire.AppendCommandComplete(nil, "BEGIN")

// start opens the block. It returns the command tag.
func (b *block) start(text string) string {
	state := b.state.after(blockStarts)
	if text == plainBegin {
		*b = block{state: state, begin: plainBegin, plain: true, began: time.Now()}
		return "BEGIN"
	}
	words := words(text)
	*b = block{state: state, begin: text, began: time.Now()}
	switch {
	case len(words) == 1, len(words) == 2 && (words[1] == "transaction" || words[1] == "work"):
		b.plain = words[0] == "begin" || words[0] == "start"
	}
	return beginTag(text)
}

// beginTag is the command tag of a text that opens a block.
func beginTag(text string) string {
	if words := words(text); len(words) > 0 && words[0] == "start" {
		return "START TRANSACTION"
	}
	return "BEGIN"
}

// join makes the backend at hand take part in the block.
func (t *transaction) join() error {
	b := &t.block
	if b.isSealed() {
		return crossShardBlock()
	}
	t.s.reach.noteParty(t.s.held.conn)
	if b.plain && len(b.replay) == 0 {
		t.joinUnasked()
		return nil
	}
	t.s.held.conn.UnnamedGone()
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

// joinUnasked sends the BEGIN together with the next statement, and does not wait for its
// answer. As extended messages it costs neither side a ReadyForQuery, and if it fails, the
// messages behind it are skipped and the backend is given up. A backend that holds state of the
// session is sent a simple query instead, and cancel requests for the statement wait until the
// query has been answered.
func (t *transaction) joinUnasked() {
	c := t.s.held.conn
	t.s.pipe.unsent.Grow()
	c.Began()
	if t.patient || t.s.record.pins != 0 || t.s.commit.carries(c) {
		t.s.pipe.unsent.B = wire.AppendQuery(t.s.pipe.unsent.B, t.s.reach.beginning(c))
		t.s.pipe.ops.push(op{kind: opQuery, injected: true, sure: true})
		c.BeginSent()
		c.UnnamedGone()
		return
	}
	if !c.Prepared(ownBegin) {
		t.s.prepared.prepare(ownBegin, op{kind: opParse, injected: true, sure: true})
	}
	t.s.pipe.unsent.B = wire.AppendClose(appendOwn(t.s.pipe.unsent.B, ownBegin), 'P', "")
	t.s.pipe.ops.push(op{kind: opBegin, injected: true, sure: true})
}

// late reports whether a shard has joined the block after another, or would: its now() is not
// the block's.
func (b *block) late(l *pool.Lane) bool { return b.isOpen() && b.clock != nil && b.clock.Lane() != l }

// quiesce makes sure that nothing waits to be sent or answered, so that weft can talk to the
// backend itself. If extended messages have written there without a BEGIN, they get a BEGIN:
// otherwise weft's own messages would end their transaction.
func (t *transaction) quiesce() error {
	if t.s.held.conn != nil && t.s.implicit.pipedHere() {
		if err := t.s.implicit.widen(); err != nil {
			return err
		}
	}
	return t.quiesceAtEnd()
}

// quiesceAtEnd is quiesce where the transaction of the pending messages may end: they get no
// BEGIN.
func (t *transaction) quiesceAtEnd() error {
	if t.s.pipe.ops.empty() && t.s.pipe.unsent.Len() == 0 {
		return nil
	}
	wait := t.s.pipe.exchange
	if t.s.pipe.isUnsynced() {
		wait = t.s.flush // extended messages are only answered after a Sync or Flush
	}
	if err := wait(); err != nil {
		return err
	}
	if t.s.held.conn == nil || t.s.pipe.isSkipping() {
		return errTold
	}
	return nil
}

// participant returns the index of a parked backend that is in the block.
func (h *held) participant() int {
	return slices.IndexFunc(h.parked, func(c *pool.Conn) bool { return c.Status() != wire.TxIdle })
}

// noteWriting notes that the backend at hand is about to write.
func (t *transaction) noteWriting() error {
	if !t.isOpen() {
		t.s.implicit.noteWrite()
		return nil
	}
	return t.noteWriter(t.s.held.conn)
}

// noteWriter notes that a participant of the block is about to write. With a second writer the
// COMMIT has to be two-phase. Whether that is possible is checked before anything is written
// there.
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

// mayWriteToo refuses a second writing participant if the client wants one at most, or if the
// shards cannot commit together.
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

// mayWriteSeveral refuses a second writer if the client has set that it wants one at most. In a
// block in which all shards write this has been checked before, when the backend could be asked.
func (t *transaction) mayWriteSeveral() error {
	if t.everywhere {
		return nil
	}
	// In the middle of a dialogue the backend cannot be asked; the options have been learnt
	// before it began.
	if !t.s.pipe.ops.mayFail() && t.s.pipe.copy != copyLoads {
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

// decides reports whether COMMIT needs a decision: several shards must end alike, or other
// proxies must be able to find out how the block ended.
func (b *block) decides() bool { return b.twoPhase() || b.everywhere }

// wroteOn reports whether a participant may have written.
func (b *block) wroteOn(c *pool.Conn) bool { return b.writer == c || slices.Contains(b.also, c) }

// toAll reports whether every participant must run a text.
func toAll(f *parser.Facts) bool {
	return f.Statements == 1 && len(f.Relations) == 0 && f.Effects&parser.Opaque == 0 &&
		f.Effects&(parser.Savepoint|parser.ChangesSettings|parser.ChangesAllSettings|parser.Constraints) != 0
}

// elsewhere returns what the other shards run in place of a text that all participants must run,
// and whether the home shard has to answer the text itself. A constraint of a home table is on
// the home shard only, so for SET CONSTRAINTS with names the home shard answers, and the others
// may not know the names.
func elsewhere(text string, f *parser.Facts) (sql string, home bool) {
	if f.Effects&parser.Constraints == 0 {
		return text, false
	}
	if w := words(text); len(w) < 3 || w[2] == "all" {
		return text, false
	}
	return "DO " + quote.Literal("BEGIN "+strings.TrimRight(text, "; \t\r\n")+"; EXCEPTION WHEN undefined_object THEN NULL; END"), true
}

// rollsBackTo reports whether a text is a ROLLBACK TO, the only savepoint command that a failed
// transaction accepts.
func rollsBackTo(text []byte, f *parser.Facts) bool {
	if f.Statements != 1 || f.Effects&parser.Savepoint == 0 {
		return false
	}
	w := words(string(text))
	return len(w) > 0 && w[0] == "rollback"
}

// onAll repeats on the other participants the text that the backend at hand is about to run, and
// remembers the text for shards that join later.
func (t *transaction) onAll(text string, f *parser.Facts) error {
	for _, c := range t.s.held.parked {
		if c.Status() == wire.TxIdle {
			continue
		}
		if _, err := c.Exec(text); err != nil {
			return err
		}
	}
	b := &t.block
	b.sets = b.sets || f.Effects&(parser.ChangesSettings|parser.ChangesAllSettings) != 0
	if b.remember(text) {
		b.trial = true
	}
	return nil
}

// remember keeps a text for shards that join later. It returns false if there are too many: a
// shard that joins now would lack the text, so none can.
func (b *block) remember(text string) bool {
	if len(b.replay) >= maxReplay {
		b.seal()
		return false
	}
	b.replay = append(b.replay, text)
	return true
}

// forgetReplay forgets the remembered texts but the first n.
func (b *block) forgetReplay(n int) { b.replay = b.replay[:min(n, len(b.replay))] }

// tried notes whether the last remembered command has succeeded. If not, it is forgotten.
func (b *block) tried(ok bool) {
	if b.trial && !ok {
		b.replay = b.replay[:len(b.replay)-1]
	}
	b.trial = false
}

// maxReplay bounds how many commands are remembered for shards that join later.
const maxReplay = 1000

// ender returns the participant whose COMMIT decides, nil if none has written. If several have,
// it is the participant that has notified; else the home shard's if it has written, because what
// cannot be prepared, such as temporary tables and cursors WITH HOLD, is there; else the first
// in the snapshot's order: the deciding participant goes through its gate before the others, in
// the order in which readers shut gates (see gate.Keeper.InTurn).
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

// gateOrder is the place of a backend's shard in the order of gates: the home shard comes first.
func (t *transaction) gateOrder(c *pool.Conn) int {
	if c.Lane() == t.s.lane {
		return -1
	}
	return slices.IndexFunc(t.s.held.lanes, func(l shardLane) bool { return l.lane == c.Lane() })
}

// chooseEnder makes the backend whose answer to COMMIT or ROLLBACK is the client's the one at
// hand: the backend that has failed, else the one that decides. It returns false if no shard has
// joined.
func (t *transaction) chooseEnder() bool {
	if t.s.held.conn != nil && t.s.held.conn.Status() == wire.TxFailed || t.twoPhase() && t.s.legs.atFailed() {
		return true
	}
	if w := t.ender(); w != nil && w != t.s.held.conn {
		if i := slices.Index(t.s.held.parked, w); i >= 0 {
			t.s.held.switchTo(i)
		}
	}
	if t.s.held.conn == nil || t.s.held.conn.Status() == wire.TxIdle {
		i := t.s.held.participant()
		if i < 0 {
			return false
		}
		t.s.held.switchTo(i)
	}
	return true
}

// beforeEnds waits for the answers of the backend at hand, if chooseEnder is going to leave it.
func (t *transaction) beforeEnds() error {
	c, w := t.s.held.conn, t.ender()
	if c == nil || c.Status() != wire.TxIdle && (w == nil || w == c) || t.s.pipe.ops.empty() && t.s.pipe.unsent.Len() == 0 {
		return nil
	}
	if err := t.s.flush(); err != nil {
		return err
	}
	if t.s.held.conn == nil || t.s.pipe.isSkipping() {
		return errTold
	}
	return nil
}

// conclude ends the block on the other participants, whose answers the client does not see,
// after the backend that answered the client has ended it.
func (t *transaction) conclude(c *pool.Conn) {
	a := t.s.commit.agreement
	if a == nil && len(t.s.held.parked) == 0 || !(t.isOpen() && c.Status() == wire.TxIdle || t.chain && c.Status() == wire.TxActive) {
		return
	}
	if a == nil {
		a = t.s.commit.others()
	}
	if a == nil || !a.Committing() { // no participant is left in the block, or the block was undone
		return
	}
	answer := twopc.Refusal
	if endsWell(t.tag) {
		answer = twopc.OK
	}
	t.s.commit.end(a, answer)
	if err := a.lateness(); err != nil {
		t.s.out.fail()
		t.s.out.tell(pgerr.From(err))
		return
	}
	if a.tag != nil {
		t.s.out.Grow()
		t.s.out.B = wire.AppendFrame(t.s.out.B, wire.CommandComplete, a.tag)
	}
}

// settleBlock follows what a ReadyForQuery says about the block.
func (t *transaction) settleBlock(c *pool.Conn) {
	b := &t.block
	switch {
	case c.Status() == wire.TxIdle && b.isOpen():
		t.s.reach.disband()
		t.releaseOthers(c)
		t.end()
		t.s.portals.forgetAll()
	case c.Status() != wire.TxIdle && !b.isOpen():
		t.block = block{state: b.state.after(blockFound), writer: c, clock: c}
	case c.Status() == wire.TxIdle && (len(b.replay) > 0 || b.isSealed()):
		b.end() // the messages that made replay have ended with their Sync
	case b.chain && c.Status() == wire.TxActive:
		t.s.reach.disband()
		t.releaseOthers(c)
		begin, plain := t.chained(c)
		e := blockChains
		if t.unsettled() {
			e = blockChainsUnsettled
		}
		*b = block{state: b.state.after(e), begin: begin, plain: plain, clock: c, began: time.Now()}
	default:
		b.chain = false
	}
}

// unsettled reports whether a block committed with AND CHAIN may have set something for the
// session that only the backend at hand knows: it cannot be asked before the transaction is
// over.
func (t *transaction) unsettled() bool {
	d := &t.s.record.done
	return t.tag != "ROLLBACK" && (d.bits&(parser.Opaque|parser.ChangesAllSettings|parser.DiscardAll) != 0 || d.bits&parser.ChangesSettings != 0 && !allLocal(d.sets))
}

// chained returns the command by which shards that join later open the block that AND CHAIN has
// opened here. It has the modes of the block before, even those that were set after its BEGIN.
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

// endPortals forgets the portals of a transaction that a Sync or a simple query has ended.
func (t *transaction) endPortals() {
	if !t.isOpen() && !t.s.lost.is() && (t.s.held.conn == nil || t.s.held.conn.Status() == wire.TxIdle) {
		t.s.portals.forgetAll()
	}
}

// releaseOthers releases the other participants, whose transactions are over.
func (t *transaction) releaseOthers(main *pool.Conn) {
	t.s.held.siftParked(func(c *pool.Conn) bool {
		if t.sets {
			c.NoteSettings(main.Settings()) // all participants have run the same commands
		}
		switch {
		case t.chain && t.unsettled():
			c.Discard()
		case t.s.held.isPinned(c):
			return true
		case t.s.held.takeSoiled(c):
			c.Discard()
		default:
			t.s.held.untouch(c)
			*t.s.held.lastOf(c.Lane()) = c
			c.UsedBy(t.s.id)
			c.Release()
		}
		return false
	})
}

// abandon gives up the block after a participant was lost: the others roll back when their
// connections are closed, unless they have rolled back already.
func (t *transaction) abandon() {
	t.s.record.unreport()
	t.s.reach.disband()
	t.s.held.siftParked(func(c *pool.Conn) bool {
		switch {
		case c.Status() != wire.TxIdle || t.s.commit.agreement.has(c):
			if t.s.held.isPinned(c) {
				t.s.record.pins.untie()
			}
			c.Discard()
		case t.s.held.isPinned(c):
			return true
		case t.sets:
			c.Discard() // the backend's settings may differ from what weft knows
		default:
			t.s.held.untouch(c)
			c.UsedBy(t.s.id)
			c.Release()
		}
		return false
	})
	t.end()
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
