package proxy

import (
	"fmt"
	"slices"
	"strings"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/quote"
	"weft/twopc"
	"weft/wire"
)

// pin is why a session keeps its backend between transactions.
type pin uint16

const (
	pinSessionMode pin = 1 << iota
	pinTemp
	pinAdvisory
	pinHoldCursor
	pinSequence
	pinLoad
	pinSeed
	pinPrepared
	pinCustom
	pinEncoding

	// pinForever are the pins that DISCARD ALL does not undo: a backend with one of them is
	// closed with its session.
	pinForever = pinLoad | pinSeed | pinCustom | pinEncoding
	// pinFound are the pins that inspect finds out from the backend.
	pinFound = pinTemp | pinAdvisory | pinHoldCursor | pinPrepared
)

// tie ties the session to its backend of the home shard, for one more reason.
func (p *pin) tie(why pin) { *p |= why }

// untie notes that the backend that the session was tied to is gone, and the reasons with it. The
// mode of the session's user is no property of a backend and stays.
func (p *pin) untie() { *p &= pinSessionMode }

// tieAsFound replaces the reasons that a backend can be asked for by those that it has shown.
func (p *pin) tieAsFound(found pin) { *p = *p&^pinFound | found }

var pinNames = []string{
	"session pooling", "temporary objects", "advisory lock", "cursor with hold", "sequence values", "loaded library", "random seed",
	"prepared by a function", "parameter of unknown name", "client encoding",
}

func (p pin) String() string {
	var names []string
	for i, n := range pinNames {
		if p&(1<<i) != 0 {
			names = append(names, n)
		}
	}
	return strings.Join(names, ", ")
}

// harmless are the effects that do not concern the session once their transaction is over.
const harmless = parser.TxBegin | parser.TxEnd | parser.Savepoint | parser.Writes | parser.CopyIn | parser.CopyOut |
	parser.Cursors | parser.NonTransactional | parser.TwoPhase | parser.AdvancesSequence | parser.ReadsSetting |
	parser.ListsObjects | parser.ImportsSnapshot | parser.ExportsSnapshot | parser.Constraints

// uncertain are the effects after which only the backend knows the state of the session.
const uncertain = parser.ChangesSettings | parser.ChangesAllSettings | parser.Temp | parser.AdvisoryLock |
	parser.HoldCursor | parser.Opaque | parser.DiscardAll | parser.DiscardTemp

// effects collects what the open transaction has done to the session, until the transaction ends
// and the backend can be asked for the real state.
type effects struct {
	bits parser.Effect
	// The flags stand side by side, where they take 8 bytes of each session.
	failed     bool // a text of the transaction has failed
	schema     bool // the schema that other sessions see has changed
	relearn    bool // what functions do to sessions may have changed
	alone      bool // the only text with effects was a transaction by itself
	resequence bool // sequences may have been set to other values
	shown      bool // the backend has the client's statements under the client's names
	terminates bool // pg_terminate_backend was called

	lastTag  string // the tag of the last command
	texts    int    // how many texts had effects
	changes  []changed
	sets     []parser.Setting
	prepared []sqlPrepared
	describe []*pool.Statement // statements made with PREPARE, to be described
	stray    []string          // statements to be removed from the backend
	text     string            // a command that goes to every shard
	own      map[string]bool   // the statements that the backend has under the client's names
}

func (d *effects) any() bool { return d.bits != 0 || d.stray != nil || d.shown }

// fail notes that a text has failed: the statements that it was about to prepare are forgotten.
func (d *effects) fail(s *Session) {
	d.failed, d.lastTag = true, ""
	for _, p := range d.prepared {
		if p.stmt != nil {
			s.db.Forget(p.stmt.server)
		}
	}
	d.prepared = nil
}

func (d *effects) add(e parser.Effect) { d.bits |= e }

// take returns what the transaction has done. What the next one does is collected from here on.
func (d *effects) take() effects {
	done := *d
	*d = effects{}
	return done
}

// forget is take for a transaction whose effects do not concern the session any more.
func (d *effects) forget() { *d = effects{} }

// watchesTags reports whether command tags must be looked at.
func (d *effects) watchesTags() bool { return d.bits != 0 }

// resets reports whether a parameter has been put back to its default.
func (d *effects) resets(name string) bool {
	return d.bits&(parser.ChangesAllSettings|parser.DiscardAll) != 0 ||
		slices.ContainsFunc(d.sets, func(s parser.Setting) bool { return s.Reset && s.Name == name })
}

// special reports whether a text must be looked at before it is sent.
func (rc *record) special(f *parser.Facts) bool {
	return f.Effects&^harmless != 0 || rc.touches(f) != catalog.Untouched || readsOwn(f) ||
		f.Effects&(parser.Writes|parser.AdvancesSequence) != 0 && rc.s.db.ReadsSequences.Load() ||
		f.Effects&parser.AdvancesSequence != 0 && rc.s.route.hasTables || f.Effects&parser.ListsObjects != 0 && rc.dumps()
}

// touches returns how much the user's functions that a text may call can do to the session.
func (rc *record) touches(f *parser.Facts) catalog.Touch {
	e := rc.s.db.Effects.Load()
	if e != nil {
		return e.Touches(f.Funcs, f.Effects&parser.Writes != 0)
	}
	if len(f.Funcs) > 0 || len(f.Relations) > 0 { // the functions have not been read yet
		return catalog.Touched
	}
	return catalog.Untouched
}

// suspicious reports whether the user's functions that a text may call look as if they did
// something to the session that outlives the transaction.
func (rc *record) suspicious(f *parser.Facts) bool { return rc.touches(f) == catalog.Touched }

// note adds the effects of a text that is about to run.
func (d *effects) note(s *Session, f *parser.Facts) {
	if !s.record.special(f) {
		return
	}
	d.bits |= f.Effects
	if s.record.touches(f) != catalog.Untouched || f.Effects&uncertain != 0 && !toAll(f) {
		s.held.conn.Touch()
	}
	s.record.stain(s.held.conn, f)
	if f.Effects&(parser.DDL|parser.Opaque) != 0 && f.Effects&parser.Temp == 0 || s.record.suspicious(f) {
		// Plans are void from now on, and once more when other sessions see the change.
		d.schema = true
		s.db.Generation.Add(1)
	}
	d.texts++
	d.alone = d.texts == 1 && f.Statements == 1 && s.held.conn.Status() == wire.TxIdle && s.pipe.ops.only(opParse, opDescribeStatement)
	d.sets = append(d.sets, f.Settings...)
	d.terminates = d.terminates || slices.Contains(f.Funcs, "pg_terminate_backend")
	switch s.record.touches(f) {
	case catalog.Touched:
		d.bits |= parser.Opaque
	case catalog.Unread:
		d.bits |= parser.ChangesAllSettings
	}
	if f.Effects&parser.ChangesAllSettings != 0 && slices.Contains(f.Funcs, "set_config") {
		// Custom parameters cannot be listed, only asked for by name.
		s.record.pins.tie(pinCustom)
	}
	if f.Effects&(parser.Writes|parser.ReadsSequence|parser.AdvancesSequence) != 0 && s.db.ReadsSequences.Load() {
		s.record.pins.tie(pinSequence)
	}
	if f.Effects&parser.Notifies != 0 {
		s.record.notifies(s.held.conn)
	}
	for _, set := range f.Settings {
		if strings.Contains(set.Name, ".") {
			s.record.addPlaceholder(set.Name)
		}
	}
	if d.bits&(parser.Opaque|parser.ChangesAllSettings) != 0 {
		if e := s.db.Effects.Load(); e != nil {
			for _, name := range e.Placeholders {
				s.record.addPlaceholder(name)
			}
		}
	}
}

// stain notes on a backend that a text runs there which may set parameters under unknown names:
// the text runs other texts, or calls a function that may. A text that cannot be parsed is
// usually an error, and functions that run texts are common. So only the remaining texts are
// worth a new backend for the next session.
func (rc *record) stain(c *pool.Conn, f *parser.Facts) {
	if opaque := f.Effects&parser.Opaque != 0; opaque || rc.touches(f) != catalog.Untouched {
		c.Stain(rc.s.id, opaque && f.Err == nil)
	}
}

// addPlaceholder remembers the name of a custom parameter, which can only be asked for by name.
func (rc *record) addPlaceholder(name string) {
	if rc.placeholders == nil {
		rc.placeholders = map[string]bool{}
	}
	rc.placeholders[name] = true
	if !isOption(name) { // an empty parameter of weft itself has its default, in any session
		rc.s.held.conn.NotePlaceholder(name)
	}
}

// settleAlone settles where no cancel request can reach the backend: the client's statement is
// over, and a cancel request must not hit weft's own questions.
func (rc *record) settleAlone(c *pool.Conn) error {
	main := rc.s.reach.shield(c)
	c.AwaitCancels()
	before := rc.pins
	err := rc.settle(c)
	if c.Lane() != rc.s.lane {
		if rc.pins&^before != 0 {
			// Only a backend of the home shard can be kept for a session.
			rc.pins = before
			rc.s.held.soil(c)
		}
		// This backend does not show what the home shard's backend holds.
		rc.pins |= before & pinFound
	}
	if err == nil && rc.s.held.isPinned(c) && !c.Settings().Equal(rc.settings) {
		err = c.Apply(rc.settings) // a session that keeps its backend does not acquire it again
	}
	rc.s.reach.unshield(main)
	return err
}

// settleAt settles a transaction that the backend at hand has ended. State that only the home
// shard has, such as an advisory lock or a seed, is asked for there, if the home shard has taken
// part as well.
func (rc *record) settleAt(c *pool.Conn) error {
	i := slices.IndexFunc(rc.s.held.parked, func(h *pool.Conn) bool { return h.Lane() == rc.s.lane && h.Status() == wire.TxIdle })
	if i < 0 || c.Lane() == rc.s.lane || !rc.s.tx.isOpen() || rc.done.bits&homeEffects == 0 {
		return rc.settleAlone(c)
	}
	home := rc.s.held.parked[i]
	if err := rc.settleAlone(home); err != nil {
		return err
	}
	if rc.s.tx.sets {
		c.NoteSettings(home.Settings()) // both backends have run the same commands
	}
	return nil
}

// settle brings the session's record up to date after a transaction. The backend is idle; the
// client has not been told yet.
func (rc *record) settle(c *pool.Conn) error {
	err := rc.settleDone(c)
	if err == nil {
		c.Checked()
	}
	return err
}

// settleDone is settle, but leaves the backend's Touched as it is.
func (rc *record) settleDone(c *pool.Conn) error {
	d := rc.done.take()
	if d.bits&(parser.Temp|parser.DDL|parser.Opaque|parser.DiscardAll|parser.DiscardTemp) != 0 {
		rc.s.route.forgetNames()
	}
	for _, name := range d.stray {
		_, _ = c.Exec("DEALLOCATE " + quote.Ident(name))
	}
	for _, st := range d.describe {
		// If the schema changes, the results of the prepared statements must not.
		columns, err := c.DescribeStatement(st.Name)
		if err != nil {
			return err
		}
		if columns != nil {
			st.Description.CompareAndSwap(nil, &columns)
		}
	}
	if d.shown {
		if _, err := c.Exec("DEALLOCATE ALL"); err != nil {
			return c.Lost(err)
		}
		c.UnprepareAll()
	}
	if d.schema {
		rc.s.db.Generation.Add(1)
	}
	if (d.schema || d.resequence) && rc.s.route.hasTables {
		outcome := twopc.Committed
		if rc.s.tx.tag == "ROLLBACK" {
			outcome = twopc.Aborted
		}
		rc.s.commit.publishEnd(&d, outcome)
	}
	if d.relearn {
		if err := rc.s.srv.keeper.learnEffects(rc.s.db, c); err != nil {
			return c.Lost(err)
		}
	}
	if d.bits&parser.Reconfigures != 0 {
		rc.s.srv.pool.Retire(func(pool.Key) bool { return true })
	}
	if d.bits&(parser.Load|parser.Seed) != 0 {
		if d.bits&parser.Load != 0 {
			rc.pins |= pinLoad
		}
		if d.bits&parser.Seed != 0 {
			rc.pins |= pinSeed
		}
	}
	if d.bits&parser.DiscardAll != 0 && d.lastTag == "DISCARD ALL" {
		rc.pins &= pinSessionMode | pinForever
		if rc.channels != nil {
			if err := rc.listenTo(c, map[string]bool{}); err != nil {
				return err
			}
		}
	}
	if d.bits&(parser.DiscardSequences|parser.DiscardAll) != 0 && !d.failed {
		rc.pins &^= pinSequence
	}
	if c.Listening() {
		if err := rc.settleChannels(c, &d); err != nil {
			return err
		}
	}
	if rc.pins&pinFound != 0 && d.bits&parser.DDL != 0 {
		return rc.s.held.inspect(c, d.bits) // what pinned the session may be gone
	}
	switch {
	case d.bits&uncertain == 0:
		return nil
	case d.bits&uncertain == parser.ChangesSettings && !d.failed && allLocal(d.sets):
		rc.keepPlaceholders(c, d.sets)
		return nil
	case d.bits&uncertain == parser.ChangesSettings && d.alone && rc.plainSettings(d.sets):
		if d.failed {
			return nil
		}
		return rc.learn(c, d.sets)
	}
	return rc.s.held.inspect(c, d.bits)
}

// allLocal reports whether all settings were set with SET LOCAL.
func allLocal(sets []parser.Setting) bool {
	return !slices.ContainsFunc(sets, func(s parser.Setting) bool { return !s.Local })
}

// keepPlaceholders notes what SET LOCAL of a custom parameter leaves behind: the value is as
// before, but a parameter that was unknown is empty now.
func (rc *record) keepPlaceholders(c *pool.Conn, sets []parser.Setting) {
	for _, set := range sets {
		if _, known := c.Settings().Get(set.Name); !known && strings.Contains(set.Name, ".") && !isOption(set.Name) {
			c.NoteSettings(c.Settings().With(set.Name, ""))
			rc.settings = rc.settings.With(set.Name, "")
		}
	}
}

// plainSettings reports whether the settings can be asked for one by one. The role cannot: it
// depends on several settings.
func (rc *record) plainSettings(sets []parser.Setting) bool {
	for _, set := range sets {
		if set.Name == "role" || set.Name == "session_authorization" || neverCarried[set.Name] {
			return false
		}
	}
	return true
}

// learn asks the backend for the values that SET has just changed.
func (rc *record) learn(c *pool.Conn, sets []parser.Setting) error {
	var b strings.Builder
	for _, set := range sets {
		custom := strings.Contains(set.Name, ".") && !isOption(set.Name)
		if set.Local && !custom {
			continue
		}
		if set.Reset && !custom {
			c.NoteSettings(c.Settings().Without(set.Name))
			continue
		}
		if b.Len() > 0 {
			b.WriteString(" UNION ALL ")
		}
		fmt.Fprintf(&b, "SELECT %s, pg_catalog.current_setting(%[1]s, true)", quote.Literal(set.Name))
	}
	if b.Len() > 0 {
		rows, err := c.Ask(askTimeout, b.String())
		if err != nil {
			return err
		}
		timeout := rows[0][1]
		for _, r := range rows[1:] {
			if r[0] == "statement_timeout" {
				r[1] = timeout // Ask itself sets statement_timeout
			}
			c.NoteSettings(c.Settings().With(r[0], r[1]))
		}
	}
	rc.adopt(c, parser.ChangesSettings)
	return nil
}

// adopt makes the backend's settings those of the session.
func (rc *record) adopt(c *pool.Conn, bits parser.Effect) {
	rc.settings = c.Settings()
	if name := rc.s.login.startup.Get("application_name"); name != "" && bits&(parser.ChangesSettings|parser.ChangesAllSettings|parser.DiscardAll) != 0 {
		if _, set := rc.settings.Get("application_name"); !set {
			// RESET goes back to the name with which the client connected. The backend does not
			// know it.
			rc.settings = rc.settings.With("application_name", clean(name))
		}
	}
	rc.oldStrings = c.Strings() == "off"
	encoding, _ := c.Param("client_encoding")
	rc.setEncoding(encoding)
	timeout, _ := rc.settings.Get("idle_session_timeout")
	rc.idleTimeout = gucDuration(timeout)
}

// setEncoding notes the encoding of the client's texts. If texts in it cannot be scanned, no
// other session may use the backend on which they run.
func (rc *record) setEncoding(name string) {
	rc.oddEncoding = oddEncodings[name]
	if rc.oddEncoding {
		rc.pins |= pinEncoding
	}
}

// oddEncodings use bytes of ASCII as second bytes of a character, so that a text in these
// encodings cannot be scanned.
var oddEncodings = map[string]bool{
	"SJIS": true, "BIG5": true, "GBK": true, "UHC": true, "GB18030": true, "JOHAB": true, "SHIFT_JIS_2004": true,
}

// askTimeout asks for statement_timeout, which Ask itself changes.
const askTimeout = "SELECT 'statement_timeout', pg_catalog.current_setting('statement_timeout'); "

// onTag looks at the tag of a command that has just completed. A command about a database goes
// on to the other shards here.
func (rc *record) onTag(body []byte) *pgerr.Error {
	tag, _, _ := wire.CString(body)
	d := &rc.done
	d.lastTag = string(tag)
	switch {
	case d.lastTag == "PREPARE" || d.lastTag == "DEALLOCATE" || d.lastTag == "DEALLOCATE ALL":
		rc.s.prepared.onPreparedTag(d.lastTag)
	case d.lastTag == "DISCARD ALL":
		rc.s.prepared.forgetStatements()
		rc.s.held.conn.UnprepareAll()
	case d.text != "" && strings.HasSuffix(d.lastTag, " DATABASE"):
		rc.s.srv.keeper.owns.ForgetAll()
		if err := rc.s.util.onEveryShard(d.text); err != nil {
			return err
		}
		return rc.s.util.afterDatabase(d.text, d.lastTag)
	}
	return nil
}
