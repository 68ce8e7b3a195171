package target

import "time"

// Kind is what a statement does, as far as it decides where it may run.
type Kind uint8

// The kinds.
const (
	// Other statements are about the session, or about objects of the home shard. They run where they always run.
	Other Kind = iota
	// Reads: the statement reads rows, and nothing in it is known to change anything.
	Reads
	// Writes: a standby cannot run the statement.
	Writes
)

// Statement is what decides where a statement runs.
type Statement struct {
	Kind Kind
	// Plain: nothing that the statement calls can change anything, for certain.
	Plain bool
	// Begins: the session holds nothing, so that the statement begins a transaction.
	Begins bool
	// Block identifies the open block by the time at which it was opened. Zero: no block is open.
	Block time.Time
	// ReadOnly: the block is READ ONLY.
	ReadOnly bool
	// Atomic: the session reads atomically over several shards. Serial: its transactions are serializable. Standbys can do neither.
	Atomic, Serial bool
	// Exact: all statements of the block see the same rows. Snapped: the block has its snapshots already.
	Exact, Snapped bool
	// Rows: the statement may read rows of tables, though it is an Other.
	Rows bool
}

// Verdict is where a statement runs.
type Verdict uint8

// The verdicts.
const (
	AtPrimary Verdict = iota
	AtStandby
	// DenyWrite refuses a statement that a standby cannot run.
	DenyWrite
	// DenyAtomic refuses a session that reads standbys only, and atomically.
	DenyAtomic
	// DenySnapped refuses to read standbys in a block whose snapshots were taken on primaries.
	DenySnapped
	// DenyMixed refuses to read a primary in a block whose snapshots were taken on standbys.
	DenyMixed
)

// Course is where the transactions of a session go.
type Course struct {
	block   time.Time // that of the transaction at hand, zero outside of blocks
	decided bool      // the transaction at hand has had a statement
	away    bool      // the transaction at hand reads standbys
	fresh   bool      // a transaction has begun since the last call of Renewed
	before  Target    // of the statement before
	begun   bool      // there was a statement before
	dirty   bool      // the transaction at hand may have written
	wrote   time.Time // when a transaction that may have written was over, at the latest; zero for none
}

// Decide says where the next statement of the session runs.
func (c *Course) Decide(t Target, s *Statement, now time.Time) Verdict {
	if c.enter(s) {
		if c.dirty || c.begun && c.before == Primary && t != Primary {
			// With another target the session has not noted what it wrote.
			c.dirty, c.wrote = false, now
		}
	}
	c.before, c.begun = t, true
	v := c.judge(t, s)
	if v == AtPrimary && (s.Kind != Reads || !s.Plain) {
		c.dirty = true
	}
	return v
}

// Stay notes that the transaction at hand reads primaries, instead of Decide. block is as in Statement.
func (c *Course) Stay(block time.Time) {
	c.block, c.decided, c.away, c.before, c.begun = block, true, false, Primary, true
}

// Settled reports whether the first statement of the open block has decided where the block reads.
func (c *Course) Settled(block time.Time) bool {
	return !block.IsZero() && c.decided && c.block.Equal(block)
}

// enter notes that a statement belongs to another transaction than the one before, and reports whether it does.
func (c *Course) enter(s *Statement) bool {
	if s.Block.Equal(c.block) && (!s.Block.IsZero() || !s.Begins) {
		return false
	}
	c.block, c.decided, c.away, c.fresh = s.Block, false, false, true
	return true
}

// judge is Decide for a statement of the transaction at hand.
func (c *Course) judge(t Target, s *Statement) Verdict {
	switch t {
	case Primary:
		c.decided = true
		return AtPrimary
	case Auto:
		return c.split(s)
	}
	switch {
	case s.Kind == Writes:
		return DenyWrite
	case t == Standby && s.Atomic && s.Kind == Reads:
		return DenyAtomic
	case t == Standby && s.Snapped && !c.away && s.Kind == Reads:
		return DenySnapped
	case !c.decided:
		c.decided = true
		c.away = t == Standby || !s.Atomic && !s.Serial && !s.Snapped
	}
	if c.away && s.Kind == Reads {
		return AtStandby
	}
	if c.away && s.Exact && s.Rows {
		return DenyMixed
	}
	return AtPrimary
}

// split is judge for Auto.
func (c *Course) split(s *Statement) Verdict {
	reads := s.Kind == Reads && s.Plain && !s.Atomic
	switch {
	case !c.decided && !s.Block.IsZero():
		c.away = s.ReadOnly && !s.Exact && !s.Atomic && !s.Serial // what goes to the primary would see other rows
	case !c.decided:
		c.away = reads && !s.Serial
	case s.Block.IsZero() && s.Kind == Writes:
		c.away = false // later messages of the transaction see what this one writes
	}
	c.decided = true
	if c.away && reads {
		return AtStandby
	}
	return AtPrimary
}

// Away reports whether the transaction at hand reads standbys.
func (c *Course) Away() bool { return c.away }

// Renewed reports whether a transaction has begun since the last call: it may read other standbys than the one before.
func (c *Course) Renewed() bool {
	f := c.fresh
	c.fresh = false
	return f
}

// Wrote returns the time before which the session may have written. Zero: it has not.
func (c *Course) Wrote() time.Time { return c.wrote }

// Note notes that the transaction at hand may write, by something that is no statement.
func (c *Course) Note() { c.dirty = true }
