package twopc

// Commit is a transaction that writes on several shards, from COMMIT to its end. Its methods take
// what has happened and return what is to be done; the caller talks to the shards.
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
	Active   Part = iota // the participant's transaction is open
	Prepared             // the participant has prepared its transaction
	Refused              // the participant has refused to prepare, and its transaction is over
	Unclear              // contact was lost: the transaction may be prepared, and a resolver must look
	Ended                // the participant has followed the outcome
)

var parts = []string{"active", "prepared", "refused", "unclear", "ended"}

func (p Part) String() string { return parts[p] }

// Answer is how a shard answered something that was sent.
type Answer uint8

// Answers.
const (
	OK      Answer = iota
	Refusal        // the server returned an error: what was sent has not happened
	Lost           // no answer came: what was sent may have happened or not
)

var answers = []string{"ok", "refused", "lost"}

func (a Answer) String() string { return answers[a] }

// Do is what is to be done next.
type Do uint8

// What there is to do.
const (
	Wait      Do = iota // wait for the other participants' answers
	Decide              // enter the decision on the deciding shard, and wait for the answer
	Prepare             // PREPARE TRANSACTION on all participants, at once
	CommitNow           // COMMIT on the deciding shard: the commit point
	Arbitrate           // ask the deciding shard, through another connection, whether it has committed
	Follow              // COMMIT PREPARED on all participants, at once
	Undo                // ROLLBACK on the deciding shard, and what Order says on each participant
	Leave               // leave everything to the resolver: the outcome is unknown
	Done                // nothing is left to do: the client can be told
)

var dos = []string{"wait", "decide", "prepare", "commit", "arbitrate", "follow", "undo", "leave", "done"}

func (d Do) String() string { return dos[d] }

// Begin starts the commit with the number of participants besides the deciding one.
func (c *Commit) Begin(participants int) Do {
	*c = Commit{state: deciding, parts: append(c.parts[:0], make([]Part, participants)...)}
	return Decide
}

// Decided takes the answer to entering the decision's row. No participant may prepare before the
// row is entered: a resolver that finds a prepared transaction and no row takes the deciding
// transaction for dead.
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

// Voted takes a participant's answer to PREPARE TRANSACTION. All answers are awaited before
// anything else happens: a participant that has not answered could prepare after the rollback.
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

// Stopped says that something other than a shard prevented the commit, before COMMIT was sent.
func (c *Commit) Stopped() Do { return c.undo() }

// Committed takes the deciding shard's answer to COMMIT.
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

// Arbitrated takes the outcome that the deciding shard knows: Open if it could not be asked.
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

// Followed takes a participant's answer to its Order.
func (c *Commit) Followed(i int, a Answer) Do {
	switch {
	case a == OK:
		c.parts[i] = Ended
	case c.parts[i] == Active: // an open transaction ends with its connection
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

// Confirmed says that a participant with which contact was lost has followed after all.
func (c *Commit) Confirmed(i int) { c.parts[i] = Ended }

// undo makes the participants roll back.
func (c *Commit) undo() Do {
	c.follow(Aborted)
	return Undo
}

// follow makes the participants end with the outcome o.
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

// Order is the command that a participant is sent once the outcome is known.
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

// Order returns the command for a participant now that the outcome is known.
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

// Outcome returns how the transaction ended, Open if that is not known.
func (c *Commit) Outcome() Outcome { return c.outcome }

// Part returns the state of a participant.
func (c *Commit) Part(i int) Part { return c.parts[i] }

// Settled reports whether every participant has confirmed the outcome: then the row of the
// decision, if there is one, is no longer needed.
func (c *Commit) Settled() bool {
	for _, p := range c.parts {
		if p != Ended && p != Refused {
			return false
		}
	}
	return c.state == done
}

// Committing reports whether COMMIT on the deciding shard is the next step.
func (c *Commit) Committing() bool { return c.state == committing }
