package proxy

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// A cursor is on the shard that declared it, and FETCH does not name the shard.

// cursor says where a cursor of the open block is. gathered: it is on the home shard, over rows
// of several shards.
type cursor struct {
	lane     *pool.Lane
	gathered bool
}

// gatheredCursor is a cursor over rows of several shards. It is on the home shard, over rows
// that weft has put there, so the home shard does not know from which tables its columns are.
type gatheredCursor struct {
	known *plan.Description
	hold  bool // the cursor outlives its transaction
}

// noteCursor remembers on which shard a cursor is that the backend at hand is about to declare.
// gathered describes the cursor if it is over rows of several shards.
func (ps *portals) noteCursor(text []byte, f *parser.Facts, gathered *plan.Description) {
	if f.Effects&parser.Cursors == 0 || f.Statements != 1 {
		return
	}
	w := nameWords(text)
	if len(w) < 2 || w[0] != "declare" {
		return
	}
	name := unquote(w[1])
	if ps.s.tx.isOpen() {
		ps.s.tx.noteCursor(name, cursor{ps.s.held.conn.Lane(), gathered != nil})
	}
	if delete(ps.gathered, name); gathered == nil {
		return
	}
	ps.noteGathered(name, gatheredCursor{gathered, f.Effects&parser.HoldCursor != 0})
}

// noteGathered notes a cursor, or a portal, over rows of several shards.
func (ps *portals) noteGathered(name string, c gatheredCursor) {
	if ps.gathered == nil {
		ps.gathered = map[string]gatheredCursor{}
	}
	ps.gathered[name] = c
}

// fetched returns the description of the cursor over several shards from which a text fetches;
// nil for other texts.
func (ps *portals) fetched(text []byte) *plan.Description {
	if len(ps.gathered) == 0 {
		return nil
	}
	w := nameWords(text)
	if len(w) < 2 || w[0] != "fetch" {
		return nil
	}
	return ps.gathered[unquote(w[len(w)-1])].known
}

// fetchedBy is fetched for a prepared statement.
func (ps *portals) fetchedBy(name []byte) *plan.Description {
	if _, st := ps.s.prepared.parsed(name); len(ps.gathered) > 0 && st != nil {
		return ps.fetched(st.text)
	}
	return nil
}

// noteFetch notes whether a newly bound portal fetches from a cursor over several shards.
func (ps *portals) noteFetch(portal, text []byte) {
	delete(ps.fetches, string(portal))
	d := ps.fetched(text)
	if d == nil {
		return
	}
	if ps.fetches == nil {
		ps.fetches = map[string]*plan.Description{}
	}
	ps.fetches[string(portal)] = d
}

// putOrigins writes into the RowDescription of a cursor over several shards from which tables
// its columns are.
func putOrigins(body []byte, columns []plan.Column) {
	const fixed = 18 // bytes behind the name
	if len(body) < 2 || int(binary.BigEndian.Uint16(body)) != len(columns) {
		return
	}
	rest := body[2:]
	for _, c := range columns {
		name, field, ok := wire.CString(rest)
		if !ok || len(field) < fixed || string(name) != c.Name {
			return
		}
		binary.BigEndian.PutUint32(field, c.Table)
		binary.BigEndian.PutUint16(field[4:], uint16(c.Num))
		rest = field[fixed:]
	}
}

// cursorLane returns the lane of the cursor that a FETCH, MOVE, CLOSE or CURRENT OF names; nil
// for other texts. p is the text's plan.
func (ps *portals) cursorLane(text []byte, p *plan.Plan, f *parser.Facts) (*pool.Lane, error) {
	held := ps.s.record.pins&pinHoldCursor != 0
	if len(ps.s.tx.cursors) == 0 && !held || f.Statements != 1 {
		return nil, nil
	}
	w := nameWords(text)
	if len(w) < 2 {
		return nil, nil
	}
	if w[0] == "update" || w[0] == "delete" {
		if !p.AtCursor {
			return nil, nil
		}
		return ps.s.tx.currentOf(w)
	}
	if !slices.Contains([]string{"fetch", "move", "close"}, w[0]) {
		return nil, nil
	}
	lane := ps.s.tx.cursors[unquote(w[len(w)-1])].lane
	if lane == nil && held {
		return ps.s.lane, nil // a cursor of an earlier transaction is WITH HOLD, and on the home shard
	}
	return lane, nil
}

// cursorsOf returns the lane of the cursors that a text names or lists; nil for other texts.
func (ps *portals) cursorsOf(text []byte, p *plan.Plan, f *parser.Facts) (*pool.Lane, error) {
	if lane, err := ps.cursorLane(text, p, f); lane != nil || err != nil {
		return lane, err
	}
	return ps.listingLane(f)
}

// settleCursors looks after cursors on other shards before the backend at hand runs a text:
// CLOSE ALL closes them too, and DECLARE must not take the name of one of them.
func (ps *portals) settleCursors(text []byte, f *parser.Facts, how manner) error {
	switch {
	case len(ps.s.tx.cursors) == 0 || f.Statements != 1:
	case closesAll(text) && how != asQuery:
		return ps.s.tx.mayCloseAll()
	case closesAll(text):
		return ps.closeCursors()
	case f.Effects&parser.Cursors != 0:
		w := nameWords(text)
		if len(w) < 2 || w[0] != "declare" {
			return nil
		}
		name := unquote(w[1])
		there := ps.s.tx.cursors[name].lane
		if there == nil || there == ps.s.held.conn.Lane() {
			return nil
		}
		c, err := ps.s.every.enlist(there)
		if err != nil {
			return err
		}
		rows, err := ps.s.commit.askBeside(c, "SELECT count(*) FROM pg_catalog.pg_cursors WHERE name = "+quote.Literal(name))
		if err == nil && rows[0][0] != "0" {
			err = pgerr.New(pgerr.DuplicateCursor, "cursor \"%s\" already exists", name)
		}
		return err
	}
	return nil
}

// isTakenName reports whether an error says that a cursor of that name exists.
func isTakenName(err error) bool {
	e, ok := errors.AsType[*pgerr.Error](err) // each Bind asks, and errors.As would allocate
	return ok && e.Code == pgerr.DuplicateCursor
}

// closesAll reports whether a text is CLOSE ALL.
func closesAll(text []byte) bool {
	const longest = 100
	if len(text) > longest {
		return false
	}
	w := nameWords(text)
	return len(w) == 2 && w[0] == "close" && w[1] == "all"
}

// mayCloseAll refuses CLOSE ALL in extended messages if cursors are on other shards than the
// backend at hand: messages sent there may not be answered yet.
func (t *transaction) mayCloseAll() error {
	for _, at := range t.cursors {
		if at.lane != t.s.held.conn.Lane() {
			return pgerr.New(pgerr.FeatureNotSupported, "CLOSE ALL in extended messages closes the cursors of one shard, and those of this transaction are on others as well").
				WithHint("Close them by name, or send it as a simple query.")
		}
	}
	return nil
}

// closeCursors closes all cursors that are not on the backend at hand.
func (ps *portals) closeCursors() error {
	for name, at := range ps.s.tx.cursors {
		if at.lane != ps.s.held.conn.Lane() {
			c, err := ps.s.every.enlist(at.lane)
			if err == nil {
				err = ps.s.every.execBeside(c, "CLOSE ALL")
			}
			if err != nil {
				return err
			}
		}
		delete(ps.s.tx.cursors, name)
	}
	return nil
}

// nameWords splits a text into its words, in lower case except for quoted names, which stay as
// they are.
func nameWords(text []byte) (out []string) {
	var sc parser.Scanner
	if sc.Scan(text, parser.Options{}) {
		text = sc.Norm
	}
	rest := strings.TrimRight(string(text), "; \t\r\n")
	for {
		if rest = strings.TrimLeft(rest, " \t\r\n\f\v"); rest == "" {
			return out
		}
		if rest[0] != '"' {
			end := strings.IndexAny(rest, " \t\r\n\f\v\"")
			if end < 0 {
				end = len(rest)
			}
			out, rest = append(out, strings.ToLower(rest[:end])), rest[end:]
			continue
		}
		end := 1
		for end < len(rest) && (rest[end] != '"' || strings.HasPrefix(rest[end:], `""`)) {
			if rest[end] == '"' {
				end++
			}
			end++
		}
		end = min(end+1, len(rest))
		out, rest = append(out, rest[:end]), rest[end:]
	}
}

// listingLane returns the lane where a text that reads pg_cursors finds the cursors of the open
// block; nil for other texts, and for the home shard.
func (ps *portals) listingLane(f *parser.Facts) (*pool.Lane, error) {
	if len(ps.s.tx.cursors) == 0 || !slices.ContainsFunc(f.Relations, func(name string) bool { return name == "pg_cursors" || name == "pg_catalog.pg_cursors" }) {
		return nil, nil
	}
	var there *pool.Lane
	several := false
	for _, c := range ps.s.tx.cursors {
		several = several || there != nil && c.lane != there
		there = c.lane
	}
	if ps.s.record.pins&pinHoldCursor != 0 {
		several = several || there != ps.s.lane
	}
	switch {
	case !several && there == ps.s.lane:
		return nil, nil
	case several || len(f.Relations) > 1:
		return nil, pgerr.New(pgerr.FeatureNotSupported, "pg_cursors has the cursors of one shard, and those of this transaction are on others as well").
			WithHint("Read pg_cursors by itself, in a transaction whose cursors are all on one shard.")
	}
	return there, nil
}

// currentOf returns the lane of the cursor that WHERE CURRENT OF names, nil if the block has no
// such cursor.
func (t *transaction) currentOf(w []string) (*pool.Lane, error) {
	for i := 2; i+1 < len(w); i++ {
		if w[i] != "of" || w[i-1] != "current" || w[i-2] != "where" {
			continue
		}
		c := t.cursors[unquote(w[i+1])]
		if c.gathered {
			return nil, pgerr.New(pgerr.FeatureNotSupported, "WHERE CURRENT OF needs a cursor on one shard, and %q is over several", unquote(w[i+1])).
				WithHint("Name the row by its primary key.")
		}
		return c.lane, nil
	}
	return nil, nil
}
