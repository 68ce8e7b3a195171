package proxy

import (
	"slices"
	"strings"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A transaction that has notified cannot be prepared, so in a block all shards but home
// leave notes of what their functions notify (see catalog.Carried). Right before the COMMIT
// they are collected, and sent on the shard whose COMMIT decides: all, once, or none.

// carryNotes makes a participant leave notes.
const carryNotes = "SET LOCAL weft.carry = on"

// carries reports whether a participant leaves notes: one that could notify, and need
// not decide.
func (s *Session) carries(c *pool.Conn) bool {
	if c.Lane() == s.lane {
		return false
	}
	e := s.db.Effects.Load()
	return e == nil || e.Notifies
}

// carryNotes collects what the participants of the block want to notify, and does so on
// the backend at hand, which is about to commit.
func (s *Session) carryNotes() error {
	if !s.block.carries || s.conn == nil || s.conn.Status != wire.TxActive {
		return nil
	}
	if err := s.sent(); err != nil {
		return err
	}
	notes, err := s.notes(true)
	if err != nil {
		return err
	}
	return s.tellNotes(s.conn, notes)
}

// tellFirst sends the notes so far on the home shard, which is about to run something that
// may notify there. The commit sends them again: what has been sent in a transaction is not sent
// twice, and what was sent after a savepoint may be gone by then.
func (s *Session) tellFirst(home *pool.Conn) error {
	notes, err := s.notes(false)
	if err != nil || len(notes) == 0 {
		return err
	}
	if home == s.conn {
		if err := s.sent(); err != nil {
			return err
		}
	}
	return s.tellNotes(home, notes)
}

// notes are those that the participants have left, in order. With deferred, what they have put off
// until the commit runs before, and may leave more; the one at hand is told to run it by COMMIT itself.
func (s *Session) notes(deferred bool) ([]string, error) {
	var notes []string
	for _, c := range append(slices.Clone(s.parked), s.conn) {
		if c == nil || c.Status != wire.TxActive || c.Lane() == s.lane {
			continue
		}
		if _, err := s.srv.own(s.ctx, c.Shard(), s.db.Name); err != nil {
			return nil, err
		}
		text := "SELECT weft.notes()"
		if deferred && c != s.conn {
			text = "SET CONSTRAINTS ALL IMMEDIATE;" + text
		}
		rows, err := s.askBeside(c, text)
		if err != nil {
			return nil, err
		}
		notes = append(notes, strings.FieldsFunc(rows[0][0], func(r rune) bool { return r == '\n' })...)
	}
	// Each begins with the time when it was left.
	slices.SortStableFunc(notes, func(a, b string) int { return strings.Compare(timeOf(a), timeOf(b)) })
	return notes, nil
}

// tellNotes sends notes on a backend.
func (s *Session) tellNotes(c *pool.Conn, notes []string) error {
	if len(notes) == 0 {
		return nil
	}
	if _, err := s.srv.own(s.ctx, c.Shard(), s.db.Name); err != nil {
		return err
	}
	s.notifies(c)
	return s.execBeside(c, "SELECT weft.tell("+pool.QuoteLiteral(strings.Join(notes, "\n"))+")")
}

func timeOf(note string) string {
	t, _, _ := strings.Cut(note, " ")
	return t
}

// notifiesHere notes that a text notifies by itself on the participant at hand. That one must
// decide, so there can be no other.
func (s *Session) notifiesHere() error {
	b := &s.block
	if !b.open {
		return nil
	}
	if b.notifier != nil && b.notifier != s.conn && !b.perhaps {
		return pgerr.New(pgerr.FeatureNotSupported, "a transaction cannot notify on shard %s after it has on shard %s", s.conn.Shard(), b.notifier.Shard()).
			WithHint("Notify in statements of their own, SELECT pg_notify(…): they go to the home shard.")
	}
	b.notifier, b.perhaps = s.conn, false
	return nil
}

// mayHaveNotified notes that functions may have notified on the backend at hand before
// it could be told to leave notes.
func (s *Session) mayHaveNotified() {
	if s.carries(s.conn) {
		s.block.notifier, s.block.perhaps = s.conn, true
	}
}
