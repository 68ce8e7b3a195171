package twopc

// Commit is a transaction that writes on several shards, from COMMIT to its end.
// Its methods take what has happened and return what is to be done; whoever
// calls them does the talking.
//
//	Begin ─▶ Decide ─▶ Prepare ─▶ CommitNow ─▶ Follow ─▶ Done
//	            │         │           │
//	            ▼         ▼           ├─ lost ─▶ Arbitrate ─▶ Follow, Undo or Leave
//	           Undo      Undo         └─ refused ─▶ Undo
type Commit struct {
	state   state
	parts   []Part
	waits   int // participants whose answers are outstanding
	outcome Outcome
}

type state uint8

const (
	fresh state = iota
	deciding
	preparing
	committing
	arbitrating
	following
	done
)

// Part is the state of a participant other than the deciding one.
type Part uint8

// Parts.
const (
	Active   Part = iota // its transaction is open
	Prepared             // it has promised
	Refused              // it has not, and its transaction is over
	Unclear              // contact was lost: it may be prepared, and somebody must look
	Ended                // it has followed
)

var parts = []string{"active", "prepared", "refused", "unclear", "ended"}

func (p Part) String() string { return parts[p] }

// Answer is what came of something that was sent.
type Answer uint8

// Answers.
const (
	OK      Answer = iota
	Refusal        // the server said no: what was sent has not happened
	Lost           // nobody knows
)

var answers = []string{"ok", "refused", "lost"}

func (a Answer) String() string { return answers[a] }

// Do is what is to be done next.
type Do uint8

// What there is to do.
const (
	Wait      Do = iota // for the other participants' answers
	Decide              // enter the decision on the deciding shard, and wait for the answer
	Prepare             // all participants, at once
	CommitNow           // COMMIT on the deciding shard: the commit point
	Arbitrate           // ask the deciding shard, through another connection, whether it has
	Follow              // COMMIT PREPARED on all participants, at once
	Undo                // ROLLBACK on the deciding shard, and on all participants what undoes their part
	Leave               // everything to the resolver: the outcome is unknown
	Done                // nothing: the client can be told
)

var dos = []string{"wait", "decide", "prepare", "commit", "arbitrate", "follow", "undo", "leave", "done"}

func (d Do) String() string { return dos[d] }

// Begin is called with the number of participants beside the deciding one.
func (c *Commit) Begin(participants int) Do {
	*c = Commit{state: deciding, parts: append(c.parts[:0], make([]Part, participants)...)}
	return Decide
}

// Decided says what came of the decision's row. Until it is there nobody may
// prepare: a resolver that finds a prepared transaction and no row takes the
// deciding transaction for dead.
func (c *Commit) Decided(a Answer) Do {
	if a != OK {
		return c.undo()
	}
	if len(c.parts) == 0 {
		c.state = committing
		return CommitNow
	}
	c.state, c.waits = preparing, len(c.parts)
	return Prepare
}

// Voted says what a participant made of PREPARE. All are heard before anything
// else happens: one that is still at it could prepare after it was undone.
func (c *Commit) Voted(i int, a Answer) Do {
	c.parts[i] = [...]Part{OK: Prepared, Refusal: Refused, Lost: Unclear}[a]
	if c.waits--; c.waits > 0 {
		return Wait
	}
	for _, p := range c.parts {
		if p != Prepared {
			return c.undo()
		}
	}
	c.state = committing
	return CommitNow
}

// Stopped says that something else than the shards kept it from being committed,
// before COMMIT was sent.
func (c *Commit) Stopped() Do { return c.undo() }

// Committed says what came of COMMIT on the deciding shard.
func (c *Commit) Committed(a Answer) Do {
	switch a {
	case OK:
		return c.follow(Committed)
	case Refusal:
		return c.undo()
	}
	c.state = arbitrating
	return Arbitrate
}

// Arbitrated says what the deciding shard knows: Open if it could not be asked.
func (c *Commit) Arbitrated(o Outcome) Do {
	switch o {
	case Committed:
		return c.follow(Committed)
	case Aborted:
		return c.undo()
	}
	c.state = done
	for i, p := range c.parts {
		if p == Prepared {
			c.parts[i] = Unclear
		}
	}
	return Leave
}

// Followed says what came of what Order had for a participant.
func (c *Commit) Followed(i int, a Answer) Do {
	switch {
	case a == OK:
		c.parts[i] = Ended
	case c.parts[i] == Active: // it ends with its connection
		c.parts[i] = Ended
	default:
		c.parts[i] = Unclear
	}
	if c.waits--; c.waits > 0 {
		return Wait
	}
	c.state = done
	return Done
}

// Confirmed says that a participant which had been lost has followed after all.
func (c *Commit) Confirmed(i int) { c.parts[i] = Ended }

func (c *Commit) undo() Do {
	c.follow(Aborted)
	return Undo
}

// follow makes the participants end as has been decided.
func (c *Commit) follow(o Outcome) Do {
	c.outcome, c.state, c.waits = o, following, 0
	for i := range c.parts {
		if c.Order(i) != None {
			c.waits++
		}
	}
	if c.waits == 0 {
		c.state = done
		return Done
	}
	return Follow
}

// Order is what a participant is told to do.
type Order uint8

// Orders.
const (
	None Order = iota
	CommitPrepared
	RollbackPrepared
	Rollback
)

var orders = []string{"nothing", "COMMIT PREPARED", "ROLLBACK PREPARED", "ROLLBACK"}

func (o Order) String() string { return orders[o] }

// Order returns what a participant is to be told now that the outcome is known.
func (c *Commit) Order(i int) Order {
	switch {
	case c.outcome == Committed && c.parts[i] == Prepared:
		return CommitPrepared
	case c.outcome == Aborted && c.parts[i] == Prepared:
		return RollbackPrepared
	case c.outcome == Aborted && c.parts[i] == Active:
		return Rollback
	}
	return None
}

// Outcome returns how the transaction ended, Open if nobody knows.
func (c *Commit) Outcome() Outcome { return c.outcome }

// Part returns the state of a participant.
func (c *Commit) Part(i int) Part { return c.parts[i] }

// Settled reports whether every participant has confirmed the outcome: the row
// of the decision, if there is one, is of no more use.
func (c *Commit) Settled() bool {
	for _, p := range c.parts {
		if p != Ended && p != Refused {
			return false
		}
	}
	return c.state == done
}

// Committing reports whether COMMIT is all that is missing.
func (c *Commit) Committing() bool { return c.state == committing }
