package proxy

import (
	"slices"
	"strings"

	"weft/pgerr"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// A transaction that has notified cannot be prepared. So in a block all shards but home leave
// notes of what their functions notify (see catalog.Carried). Right before COMMIT the notes are
// collected and sent on the shard whose COMMIT decides: all of them once, or none.

// carryNotes makes a participant leave notes.
const carryNotes = "SET LOCAL weft.carry = on"

// carries reports whether a participant leaves notes: if it is not the home shard and its
// functions may notify.
func (cm *commit) carries(c *pool.Conn) bool {
	if c.Lane() == cm.s.lane {
		return false
	}
	e := cm.s.db.Effects.Load()
	return e == nil || e.Notifies
}

// carryNotes collects the participants' notes and sends them on the backend at hand, which is
// about to commit.
func (cm *commit) carryNotes() error {
	if !cm.s.tx.carries || cm.s.held.conn == nil || cm.s.held.conn.Status() != wire.TxActive {
		return nil
	}
	if err := cm.s.tx.quiesce(); err != nil {
		return err
	}
	notes, err := cm.notes(true)
	if err != nil {
		return err
	}
	return cm.tellNotes(cm.s.held.conn, notes)
}

// tellFirst sends the notes so far on the home shard, which is about to run a text that may
// notify there. The COMMIT sends them again: PostgreSQL does not send the same notification
// twice in a transaction, and notifications sent after a savepoint may have been rolled back by
// then.
func (cm *commit) tellFirst(home *pool.Conn) error {
	notes, err := cm.notes(false)
	if err != nil || len(notes) == 0 {
		return err
	}
	if home == cm.s.held.conn {
		if err := cm.s.tx.quiesce(); err != nil {
			return err
		}
	}
	return cm.tellNotes(home, notes)
}

// notes returns the notes that the participants have left, in order of time. With deferred,
// their deferred constraints run first, which may leave more notes; on the backend at hand
// COMMIT itself runs them.
func (cm *commit) notes(deferred bool) ([]string, error) {
	var notes []string
	for _, c := range append(slices.Clone(cm.s.held.parked), cm.s.held.conn) {
		if c == nil || c.Status() != wire.TxActive || c.Lane() == cm.s.lane {
			continue
		}
		if _, err := cm.s.srv.keeper.owns.Ensure(cm.s.srv.ctx, c.Shard(), cm.s.db.Name); err != nil {
			return nil, err
		}
		text := "SELECT weft.notes()"
		if deferred && c != cm.s.held.conn {
			text = "SET CONSTRAINTS ALL IMMEDIATE;" + text
		}
		rows, err := cm.askBeside(c, text)
		if err != nil {
			return nil, err
		}
		notes = append(notes, strings.FieldsFunc(rows[0][0], func(r rune) bool { return r == '\n' })...)
	}
	// Each note begins with the time when it was left.
	slices.SortStableFunc(notes, func(a, b string) int { return strings.Compare(timeOf(a), timeOf(b)) })
	return notes, nil
}

// tellNotes sends the notifications of notes on a backend.
func (cm *commit) tellNotes(c *pool.Conn, notes []string) error {
	if len(notes) == 0 {
		return nil
	}
	if _, err := cm.s.srv.keeper.owns.Ensure(cm.s.srv.ctx, c.Shard(), cm.s.db.Name); err != nil {
		return err
	}
	cm.s.record.notifies(c)
	return cm.s.every.execBeside(c, "SELECT weft.tell("+quote.Literal(strings.Join(notes, "\n"))+")")
}

func timeOf(note string) string {
	t, _, _ := strings.Cut(note, " ")
	return t
}

// notifiesHere notes that a text notifies by itself on the participant at hand. That participant
// must be the one that decides, so a second one is refused.
func (cm *commit) notifiesHere() error {
	if !cm.s.tx.isOpen() {
		return nil
	}
	if before := cm.s.tx.notifiesOn(cm.s.held.conn); before != nil {
		return pgerr.New(pgerr.FeatureNotSupported, "a transaction cannot notify on shard %s after it has on shard %s", cm.s.held.conn.Shard(), before.Shard()).
			WithHint("Notify in statements of their own, SELECT pg_notify(…): they go to the home shard.")
	}
	return nil
}

// mayHaveNotified notes that functions may have notified on the backend at hand before it could
// be told to leave notes.
func (cm *commit) mayHaveNotified() {
	if cm.carries(cm.s.held.conn) {
		cm.s.tx.mayHaveNotifiedOn(cm.s.held.conn)
	}
}
