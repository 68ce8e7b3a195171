package proxy

import (
	"slices"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
)

// A cursor is on the shard that declared it, and FETCH does not say which.

// noteCursor remembers where a cursor is that the backend at hand is about to
// declare.
func (s *Session) noteCursor(text []byte, f *parser.Facts) {
	if f.Effects&parser.Cursors == 0 || !s.block.open || f.Statements != 1 {
		return
	}
	if w := words(string(text)); len(w) > 1 && w[0] == "declare" {
		if s.block.cursors == nil {
			s.block.cursors = map[string]*pool.Lane{}
		}
		s.block.cursors[unquote(w[1])] = s.conn.Lane()
	}
}

// cursorLane returns the lane of the cursor that a FETCH, MOVE, CLOSE or CURRENT OF names;
// nil for other texts. p is its plan.
func (s *Session) cursorLane(text []byte, p *plan.Plan, f *parser.Facts) *pool.Lane {
	held := s.pins&pinHoldCursor != 0
	if len(s.block.cursors) == 0 && !held || f.Statements != 1 {
		return nil
	}
	w := words(string(text))
	if len(w) < 2 {
		return nil
	}
	if w[0] == "update" || w[0] == "delete" {
		if !p.AtCursor {
			return nil
		}
		return s.currentOf(w)
	}
	if !slices.Contains([]string{"fetch", "move", "close"}, w[0]) {
		return nil
	}
	lane := s.block.cursors[unquote(w[len(w)-1])]
	if lane == nil && held {
		return s.lane // from an earlier transaction, so WITH HOLD, which is on the home shard
	}
	return lane
}

// listingLane returns the lane where a text that reads pg_cursors finds the cursors of the
// open block; nil for other texts, and for the home shard.
func (s *Session) listingLane(f *parser.Facts) (*pool.Lane, error) {
	if len(s.block.cursors) == 0 || !slices.ContainsFunc(f.Relations, func(name string) bool { return name == "pg_cursors" || name == "pg_catalog.pg_cursors" }) {
		return nil, nil
	}
	var there *pool.Lane
	several := false
	for _, lane := range s.block.cursors {
		several = several || there != nil && lane != there
		there = lane
	}
	if s.pins&pinHoldCursor != 0 {
		several = several || there != s.lane
	}
	switch {
	case !several && there == s.lane:
		return nil, nil
	case several || len(f.Relations) > 1:
		return nil, pgerr.New(pgerr.FeatureNotSupported, "pg_cursors has the cursors of one shard, and those of this transaction are on others as well").
			WithHint("Read pg_cursors by itself, in a transaction whose cursors are all on one shard.")
	}
	return there, nil
}

// currentOf returns the lane of the cursor that WHERE CURRENT OF names, nil if there
// is none.
func (s *Session) currentOf(w []string) *pool.Lane {
	for i := 2; i+1 < len(w); i++ {
		if w[i] == "of" && w[i-1] == "current" && w[i-2] == "where" {
			return s.block.cursors[unquote(w[i+1])]
		}
	}
	return nil
}
