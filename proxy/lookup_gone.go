package proxy

import (
	"errors"

	"weft/pgerr"
	"weft/plan"
	"weft/vindex"
)

// ON CONFLICT sends a row to the shard of the row that a lookup has found in its way. That row may be
// gone when the statement arrives. Then the new row is stored there, as if nothing had ever
// been in its way, and it may be the wrong shard for it, where a foreign key does not find the row it
// refers to, or another transaction may have taken the value in between. PostgreSQL, which looks at one
// index, would look for the conflict again. So does weft if the statement is a transaction by itself: it
// is carried out once more. If not, the client is asked to run its transaction again.

// mostGone is how often a statement is carried out again because a row in its way has gone, mostAstray how
// often because that may be why a foreign key has failed.
const (
	mostGone   = 100
	mostAstray = 3
)

// errRowGone is the cause of errors that say so.
var errRowGone = errors.New("the row in the way has gone")

// rowGone says that the row in the way has gone. cause, if not nil, is what has come of that.
func rowGone(cause error) *pgerr.Error {
	return pgerr.New(pgerr.SerializationFailure, "could not serialize access: the row in the way of this one has just gone").
		WithHint("Run the transaction again.").WithCause(errors.Join(errRowGone, cause))
}

// rowsGone returns the lookups in which a row, according to the notes, has been stored although another
// one had its value.
func (k *keeping) rowsGone(notes map[string]map[string]int) map[string]bool {
	if len(k.met) == 0 {
		return nil
	}
	type entry struct {
		lookup, value string
		id            vindex.ID
	}
	added := map[entry]bool{}
	for name, entries := range notes {
		for e, n := range entries {
			if _, id, err := splitEntry([]byte(e)); err == nil && n > 0 {
				added[entry{name, valueOf(e), id}] = true
			}
		}
	}
	gone := map[string]bool{}
	for _, m := range k.met {
		if _, id, err := splitEntry([]byte(m.entry)); err == nil && added[entry{m.lookup, valueOf(m.entry), id}] {
			gone[m.lookup] = true
		}
	}
	return gone
}

// goneError returns the error for entries that cannot be added. If lookup has refused one, and
// is among those in which a row in the way has gone, that is the reason.
func goneError(err error, lookup string, gone map[string]bool) error {
	if lookup == "" || !gone[lookup] {
		return err
	}
	return rowGone(err)
}

// astrayError returns the error of a write. A row that ON CONFLICT DO NOTHING has sent to another shard
// than its own has a foreign key checked there only if the row in its way has gone. With DO UPDATE the
// foreign key can be that of the row that was updated.
func (x *gathering) astrayError(err error) error {
	if !x.progress.astray || !atEnd(err) {
		return err
	}
	switch s := x.write.Shape.(type) {
	case *plan.Whole:
		if s.Updates {
			return err
		}
	case *plan.Rows:
		if s.Updates || len(s.Rows) > 1 {
			return err
		}
	case *plan.Local, *plan.AtHome, *plan.Share, *plan.Stream, *plan.Copies, *plan.Own, *plan.Locking:
		return err
	}
	return rowGone(err)
}

// looksAgain reports whether a statement was ended because a row in its way has gone, and may be carried
// out again. It counts the attempts. The statement must be a transaction by itself.
func (lk *lookups) looksAgain(x *gathering, err error) bool {
	most := int8(mostGone)
	if x.progress.astray && !errors.Is(err, errRowGone) && atEnd(err) {
		most = mostAstray
	} else if len(x.progress.met) == 0 || !errors.Is(err, errRowGone) {
		return false
	}
	if lk.s.account.run.gone >= most {
		return false
	}
	lk.s.account.run.gone++
	return true
}
