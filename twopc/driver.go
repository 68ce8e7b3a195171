package twopc

// Driver carries out a Commit: it does what Commit says, in that order, and tells Commit what came
// of it. Every transaction that ends on several shards is ended by a Driver, so that the order of
// a commit stands here and in Commit only.
//
//	Begin ─▶ Agree ─┬─ true ──▶ the caller sends COMMIT ─▶ Ended
//	                └─ false ─▶ Undo
//
// The caller sends COMMIT, because COMMIT is the client's own message and its answer goes to the
// client.
type Driver struct {
	commit  Commit
	decider Decider
	others  Participants
	stopAt  func(Point)
}

// Decider is the deciding shard of a commit, as a Driver speaks with it.
type Decider interface {
	// Decide enters the decision and waits for the answer.
	Decide() Answer
	// Announce tells all proxies that schemas are about to change.
	Announce() Answer
	// Rollback rolls back the deciding transaction, if its connection still stands.
	Rollback()
	// Arbitrate asks the shard, through another connection, how its transaction ended.
	Arbitrate() Outcome
}

// Participants are the other shards of a commit, as a Driver speaks with them. They are told their
// orders in rounds: all are sent before the first answer is awaited.
type Participants interface {
	// Send sends an order to participant i. A failure to send is found by Hear. last says that
	// the round has no order after this one.
	Send(i int, o Order, last bool)
	// Hear waits for the answer to the order. last says that the round has no answer after this
	// one.
	Hear(i int, o Order, last bool) Answer
	// Finish commits the prepared part of participant i, through another connection. It reports
	// false if the part is left to the resolver.
	Finish(i int) bool
}

// NewDriver makes a driver for one commit. stopAt is called at the points of the commit; it may be
// nil.
func NewDriver(d Decider, p Participants, stopAt func(Point)) Driver {
	if stopAt == nil {
		stopAt = func(Point) {}
	}
	return Driver{decider: d, others: p, stopAt: stopAt}
}

// Agree begins a commit as Commit.Begin does, and makes the participants promise that they will
// follow. It returns false if the transaction cannot be committed: then Undo comes next, otherwise
// COMMIT on the deciding shard.
func (d *Driver) Agree(parts []Part, announces bool) bool {
	return d.obey(d.commit.Begin(parts, announces)) == CommitNow
}

// Hold says that the deciding shard prepares instead of committing, as Commit.Hold does. It follows Agree.
func (d *Driver) Hold() { d.commit.Hold() }

// Held reports whether the transaction is left prepared to its client.
func (d *Driver) Held() bool { return d.commit.Held() }

// BeginAlone begins the end of a transaction as Commit.BeginAlone does: COMMIT or ROLLBACK on the
// shard that answers the client comes next.
func (d *Driver) BeginAlone(n int) { d.commit.BeginAlone(n) }

// Ended takes the deciding shard's answer to COMMIT, and ends the transaction on all participants
// in the same way. If the answer is Lost and the shard cannot be asked, all is left to the
// resolver, and Outcome is Open.
func (d *Driver) Ended(a Answer) {
	if a == OK {
		d.stopAt(AfterCommit)
	}
	if d.obey(d.commit.Committed(a)) == Undo {
		d.Undo()
	}
}

// Undo rolls back a transaction that cannot be committed, on all shards.
func (d *Driver) Undo() {
	if d.commit.Undecided() {
		d.decider.Rollback()
	}
	d.round(DuringFollow, d.commit.Followed)
	d.stopAt(AfterFollow)
}

// obey does one thing after the other that the commit asks for. It returns when the next thing is
// the caller's to do, or when nothing is left to do.
func (d *Driver) obey(do Do) Do {
	for {
		switch do {
		case Decide:
			d.stopAt(BeforeDecide)
			if do = d.commit.Decided(d.decider.Decide()); do != Undo {
				d.stopAt(AfterDecide)
			}
		case Announce:
			do = d.commit.Announced(d.decider.Announce())
		case Prepare:
			d.stopAt(BeforePrepare)
			if do = d.round(DuringPrepare, d.commit.Voted); do == CommitNow {
				d.stopAt(AfterPrepare)
			}
		case Arbitrate:
			do = d.commit.Arbitrated(d.decider.Arbitrate())
		case Follow:
			do = d.round(DuringFollow, d.commit.Followed)
		case Finish:
			do = d.finish()
		case Done:
			d.stopAt(AfterFollow)
			return do
		default: // CommitNow, Undo, Leave
			return do
		}
	}
}

// round sends every participant its order, then hears every participant. during is the point
// at which the first of several has been sent its order and the others have not.
func (d *Driver) round(during Point, heard func(int, Answer) Do) Do {
	last, sent := -1, 0
	for i := range d.commit.parts {
		if d.commit.Order(i) != None {
			last = i
		}
	}
	for i := range d.commit.parts {
		if o := d.commit.Order(i); o != None {
			if sent++; sent == 2 {
				d.stopAt(during)
			}
			d.others.Send(i, o, i == last)
		}
	}
	do := Done // for a commit whose participants need not be told
	for i := range d.commit.parts {
		if o := d.commit.Order(i); o != None {
			do = heard(i, d.others.Hear(i, o, i == last))
			if i == last {
				break // Order is about the next round from here on
			}
		}
	}
	return do
}

// finish makes the participants commit with which contact was lost after they had prepared: the
// client must see its own writes when it hears of the commit.
func (d *Driver) finish() Do {
	do := Done
	for i, p := range d.commit.parts {
		if p == Unclear {
			do = d.commit.Finished(i, d.others.Finish(i))
		}
	}
	return do
}

// Committing reports whether COMMIT on the deciding shard is the next step, or under way.
func (d *Driver) Committing() bool { return d.commit.Committing() }

// Outcome returns how the transaction ended, Open if that is not known.
func (d *Driver) Outcome() Outcome { return d.commit.Outcome() }

// Part returns the state of a participant.
func (d *Driver) Part(i int) Part { return d.commit.Part(i) }

// Settled reports whether every participant has confirmed the outcome.
func (d *Driver) Settled() bool { return d.commit.Settled() }
