package twopc

// Commit is a transaction that writes on several shards, from COMMIT to its end. Its methods take
// what has happened and return what is to be done; a Driver does it.
//
//	Begin ─▶ Decide ─▶ Announce ─▶ Prepare ─▶ CommitNow ─▶ Follow ─▶ Finish ─▶ Done
//	            │         │           │           │
//	            ▼         ▼           ▼           ├─ lost ─▶ Arbitrate ─▶ Follow, Undo or Leave
//	           Undo      Undo        Undo         └─ refused ─▶ Undo
type Commit struct {
	state     state
	announces bool // the transaction changes schemas: other proxies are told before it commits
	holds     bool // the deciding transaction is prepared instead of committed
	open      bool // the deciding transaction is open, and its connection has not been lost
	parts     []Part
	waits     int // participants whose answers are outstanding
	outcome   Outcome
}

type state uint8

const (
	fresh state = iota
	deciding
	announcing
	preparing
	committing
	arbitrating
	following
	finishing
	done
	held
)

// Part is the state of a participant other than the deciding one.
type Part uint8

// Parts.
const (
	Active   Part = iota // the participant's transaction is open
	Reader               // the participant's transaction is open and has nothing to keep: it ends without a promise
	Prepared             // the participant has prepared its transaction
	Refused              // the participant has refused to prepare, and its transaction is over
	Unclear              // contact was lost: the transaction may be prepared, and a resolver must look
	Ended                // the participant has followed the outcome
)

var parts = []string{"active", "reader", "prepared", "refused", "unclear", "ended"}

func (p Part) String() string { return parts[p] }

// Answer is how a shard answered something that was sent.
type Answer uint8

// Answers.
const (
	OK      Answer = iota
	Refusal        // the server returned an error: what was sent has not happened
	Failed         // as Refusal, but the transaction is still open: it can only be rolled back
	Lost           // no answer came: what was sent may have happened or not
)

var answers = []string{"ok", "refused", "failed", "lost"}

func (a Answer) String() string { return answers[a] }

// Do is what is to be done next.
type Do uint8

// What there is to do.
const (
	Wait      Do = iota // wait for the other participants' answers
	Decide              // enter the decision on the deciding shard, and wait for the answer
	Announce            // tell all proxies that schemas are about to change
	Prepare             // PREPARE TRANSACTION on all participants, at once
	CommitNow           // COMMIT on the deciding shard: the commit point
	Arbitrate           // ask the deciding shard, through another connection, whether it has committed
	Follow              // what Order says on each participant, all at once
	Finish              // COMMIT PREPARED, through other connections, where contact was lost
	Undo                // ROLLBACK on the deciding shard if Undecided, then what Order says on each participant
	Leave               // leave everything to the resolver: the outcome is unknown
	Done                // nothing is left to do: the client can be told
)

var dos = []string{"wait", "decide", "announce", "prepare", "commit", "arbitrate", "follow", "finish", "undo", "leave", "done"}

func (d Do) String() string { return dos[d] }

// Begin starts the commit with the participants besides the deciding one, each Active or a
// Reader. announces says that the transaction changes schemas.
func (c *Commit) Begin(parts []Part, announces bool) Do {
	*c = Commit{state: deciding, announces: announces, open: true, parts: append(c.parts[:0], parts...)}
	return Decide
}

// BeginAlone starts the end of a transaction that needs no decision: at most one shard has
// written, or the client rolls back. The participants, n readers, end as the shard that answers
// the client.
func (c *Commit) BeginAlone(n int) Do {
	*c = Commit{state: committing, parts: c.parts[:0]}
	for range n {
		c.parts = append(c.parts, Reader)
	}
	return CommitNow
}

// Hold says, before the deciding shard has ended its part, that it prepares instead of committing: the
// transaction is a pledge, and its participants stay prepared until its client ends it.
func (c *Commit) Hold() { c.holds = true }

// Held reports whether the transaction is prepared on all shards, and left to its client.
func (c *Commit) Held() bool { return c.state == held }

// Decided takes the answer to entering the decision's row. No participant may prepare before the
// row is entered: a resolver that finds a prepared transaction and no row takes the deciding
// transaction for dead.
func (c *Commit) Decided(a Answer) Do {
	c.open = a != Lost
	switch {
	case a != OK:
		return c.undo()
	case c.announces:
		c.state = announcing
		return Announce
	}
	return c.prepare()
}

// Announced takes whether all proxies have been told of the change of schemas. The decision's row
// is entered before: a proxy that finds the announcement can ask for the outcome.
func (c *Commit) Announced(a Answer) Do {
	if a != OK {
		return c.undo()
	}
	return c.prepare()
}

// prepare makes the participants that have written prepare.
func (c *Commit) prepare() Do {
	c.state = preparing
	if c.waits = c.ordered(); c.waits > 0 {
		return Prepare
	}
	c.state = committing
	return CommitNow
}

// ordered counts the participants that Order has a command for.
func (c *Commit) ordered() (n int) {
	for i := range c.parts {
		if c.Order(i) != None {
			n++
		}
	}
	return n
}

// Voted takes a participant's answer to PREPARE TRANSACTION. All answers are awaited before
// anything else happens: a participant that has not answered could prepare after the rollback.
func (c *Commit) Voted(i int, a Answer) Do {
	c.parts[i] = [...]Part{OK: Prepared, Refusal: Refused, Failed: Active, Lost: Unclear}[a]
	if c.waits--; c.waits > 0 {
		return Wait
	}
	for _, p := range c.parts {
		if p != Prepared && p != Reader {
			return c.undo()
		}
	}
	c.state = committing
	return CommitNow
}

// Committed takes the deciding shard's answer to COMMIT, or to PREPARE TRANSACTION if it holds.
func (c *Commit) Committed(a Answer) Do {
	c.open = false
	switch a {
	case OK:
		if c.holds {
			c.state = held
			return Done
		}
		return c.follow(Committed)
	case Refusal, Failed:
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
	case a == OK, c.parts[i] == Active, c.parts[i] == Reader: // an open transaction ends with its connection
		c.parts[i] = Ended
	default:
		c.parts[i] = Unclear
	}
	if c.waits--; c.waits > 0 {
		return Wait
	}
	if c.outcome == Committed {
		for _, p := range c.parts {
			if p == Unclear {
				c.waits++
			}
		}
	}
	return c.finish()
}

// Finished takes whether a participant with which contact was lost has followed after all. If
// not, the participant is left to the resolver.
func (c *Commit) Finished(i int, followed bool) Do {
	if followed {
		c.parts[i] = Ended
	}
	c.waits--
	return c.finish()
}

// finish ends the commit when no participant is left that can be made to follow.
func (c *Commit) finish() Do {
	if c.state = finishing; c.waits > 0 {
		return Finish
	}
	c.state = done
	return Done
}

// undo makes the participants roll back.
func (c *Commit) undo() Do {
	c.follow(Aborted)
	return Undo
}

// follow makes the participants end with the outcome o.
func (c *Commit) follow(o Outcome) Do {
	c.outcome, c.state = o, following
	if c.waits = c.ordered(); c.waits == 0 {
		c.state = done
		return Done
	}
	return Follow
}

// Order is a command that a participant is sent.
type Order uint8

// Orders.
const (
	None Order = iota
	PrepareTransaction
	CommitPrepared
	RollbackPrepared
	CommitReads // COMMIT, where nothing was written
	Rollback
)

var orders = []string{"nothing", "PREPARE TRANSACTION", "COMMIT PREPARED", "ROLLBACK PREPARED", "COMMIT", "ROLLBACK"}

func (o Order) String() string { return orders[o] }

// Named reports whether the order is about a prepared transaction, which it has to name.
func (o Order) Named() bool { return o == CommitPrepared || o == RollbackPrepared }

// Order returns the command that a participant is to be sent now.
func (c *Commit) Order(i int) Order {
	p := c.parts[i]
	switch {
	case c.state == preparing && p == Active:
		return PrepareTransaction
	case c.outcome == Committed && p == Prepared:
		return CommitPrepared
	case c.outcome == Aborted && p == Prepared:
		return RollbackPrepared
	case c.outcome == Committed && p == Reader:
		return CommitReads
	case c.outcome == Aborted && (p == Active || p == Reader):
		return Rollback
	}
	return None
}

// Undecided reports whether the deciding transaction is open: Undo then begins with its ROLLBACK.
func (c *Commit) Undecided() bool { return c.open }

// Outcome returns how the transaction ended, Open if that is not known.
func (c *Commit) Outcome() Outcome { return c.outcome }

// Part returns the state of a participant.
func (c *Commit) Part(i int) Part { return c.parts[i] }

// Settled reports whether every participant has confirmed the outcome: then the row of the
// decision, if there is one, is no longer needed.
func (c *Commit) Settled() bool {
	for _, p := range c.parts {
		if p != Ended && p != Refused && p != Reader {
			return false
		}
	}
	return c.state == done
}

// Committing reports whether COMMIT on the deciding shard is the next step.
func (c *Commit) Committing() bool { return c.state == committing }
