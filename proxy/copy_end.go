package proxy

import (
	"errors"
	"strconv"
	"unicode/utf8"

	"weft/pgerr"
)

// finish ends the data on all shards. All are told before the first is waited for.
func (x *load) finish() error {
	if x.stop.Load() {
		return nil
	}
	x.closeAll(true, "")
	for _, in := range x.open {
		<-in.ended
	}
	if x.spoiled && !x.stop.Load() {
		return spoilt()
	}
	return nil
}

// closeAll ends the data on those shards that have not been told to stop.
func (x *load) closeAll(done bool, reason string) {
	for _, in := range x.open {
		if in.stopped {
			continue
		}
		if err := in.close(done, reason); err != nil {
			in.giveUp() // the inlet's listener notes the error
		}
	}
}

// end takes the shards' final answers. err is what weft itself has found wrong, or nil.
func (x *load) end(err error) error {
	failed := x.stop.Load()
	if err != nil && !errors.Is(err, errGivenUp) || failed {
		x.closeFailed(err)
	}
	legs := make([]*leg, len(x.open))
	var cause *pgerr.Error
	var causeLine int64
	for i, in := range x.open {
		<-in.ended
		legs[i] = in.leg
		e := (*pgerr.Error)(nil)
		if in.err == nil || in.lost() || !errors.As(in.err, &e) {
			continue
		}
		line := x.translate(in, e, errors.Is(err, errGivenUp))
		if !in.stopped || e.Code != pgerr.QueryCanceled || errors.Is(err, errGivenUp) && x.strange == nil && i == 0 {
			if cause == nil || sooner(e, line, cause, causeLine) {
				cause, causeLine = e, line
			}
		}
	}
	ended := x.s.legs.endLegs(legs, false)
	switch {
	case ended != nil && lost(ended):
		return ended
	case cause != nil && (err == nil || errors.Is(err, errGivenUp) || isBadData(err)):
		x.owe(cause, causeLine)
		return cause // even if weft has refused a later row
	case x.strange != nil:
		x.s.out.tell(x.strange)
		// A server that has not read this message does not know where the next begins.
		return pgerr.Fatal(pgerr.ProtocolViolation, "terminating connection because protocol synchronization was lost")
	case err != nil && !errors.Is(err, errGivenUp):
		return err
	case ended != nil:
		return ended
	case err != nil:
		return pgerr.New(pgerr.QueryCanceled, "COPY from stdin failed")
	}
	n := int64(0)
	for _, in := range x.open {
		if n += in.changed; x.plan.Table.Reference {
			break
		}
	}
	x.tag = "COPY " + strconv.FormatInt(n, 10)
	return nil
}

// owe counts the Syncs that came after a wrong row: a server ignores a Sync that it reads among
// the data, but answers a Sync that it reads after it has failed.
func (x *load) owe(e *pgerr.Error, line int64) {
	for _, last := range x.syncs {
		if line >= 0 && line <= last && !isLate(e) {
			x.owed++
		}
	}
}

// answerSyncs answers the Syncs that came among the data of a COPY that had failed.
func (cp *copier) answerSyncs(owed int) error {
	for range owed {
		if err := cp.s.sync(nil, 0); err != nil {
			return err
		}
	}
	return nil
}

// batch is how many rows PostgreSQL collects before it adds them to the indexes.
const batch = 1000

// sooner reports whether a single server would have found error a before error b. The lines that
// the errors are about decide, -1 for none; but a duplicate key is only noticed when its batch
// of rows is written, and an error about no line at the very end.
func sooner(a *pgerr.Error, lineA int64, b *pgerr.Error, lineB int64) bool {
	if lineA < 0 || lineB < 0 {
		return lineA >= 0
	}
	if lateA, lateB := isLate(a), isLate(b); lateA != lateB {
		if lateA {
			return lineA+batch <= lineB
		}
		return lineA < lineB+batch
	}
	return lineA < lineB
}

// isLate reports whether PostgreSQL finds an error only when it adds a batch of rows to the
// indexes.
func isLate(e *pgerr.Error) bool {
	return e.Code == pgerr.UniqueViolation || e.Code == pgerr.ExclusionViolation
}

// closeFailed makes the shards give up that have not failed themselves.
func (x *load) closeFailed(err error) {
	reason := "another shard has failed"
	if err != nil {
		reason = "weft: " + pgerr.From(err).Message
	}
	for _, in := range x.open {
		select {
		case <-in.ended:
			continue
		default:
		}
		if in.stopped || in.failed.Load() {
			continue
		}
		if err != nil && !isBadData(err) {
			in.buf = in.buf[:in.from] // the rows not sent yet do not matter
			in.begin()
		}
		if err := in.close(false, reason); err != nil {
			in.giveUp()
		}
	}
}

// isBadData reports whether an error is about the client's data, found by weft instead of a
// server.
func isBadData(err error) bool {
	e := (*pgerr.Error)(nil)
	return errors.As(err, &e) && e.Code == pgerr.BadCopyFileFormat
}

// translate makes a shard's error speak of the client's data. It returns the line that the error
// is about, -1 if none.
func (x *load) translate(in *inlet, e *pgerr.Error, givenUp bool) int64 {
	if x.sql != string(x.text) {
		e.Position = 0 // the position is one in another text than the client's
	}
	start, digits, end := copyLine(e.Where, x.plan.Relation)
	if start < 0 {
		return -1
	}
	if givenUp && e.Code == pgerr.QueryCanceled {
		line := x.cut.Line
		if !x.cut.Counted() {
			line++ // the line after the last, which never came
		}
		e.Where = e.Where[:digits] + strconv.FormatInt(line, 10) + e.Where[end:]
		return line
	}
	e.Where = in.clientsLine(e.Where)
	if start, digits, end = copyLine(e.Where, x.plan.Relation); start < 0 {
		return -1
	}
	n, _ := strconv.ParseInt(e.Where[digits:end], 10, 64)
	return n
}

// abandon ends the dialogue with all shards because the client is gone: their backends are
// closed with the session, and roll back.
func (x *load) abandon() {
	for _, in := range x.open {
		in.giveUp()
	}
	for _, in := range x.open {
		if in.buf != nil { // the inlet has been started
			<-in.ended
		}
	}
}

// at notes in an error which line of the client's data it is about.
func (x *load) at(e *pgerr.Error) *pgerr.Error {
	e.Where = "COPY " + x.plan.Relation + ", line " + strconv.FormatInt(x.cut.Line, 10)
	return e
}

// maxShown is how many bytes of a line PostgreSQL shows in an error.
const maxShown = 100

// in is at, and also shows the line.
func (x *load) in(e *pgerr.Error, row []byte) *pgerr.Error {
	line := row[:x.cut.Row.Body]
	shown := string(line)
	if len(line) > maxShown {
		end := maxShown
		for utf8.Valid(line) && !utf8.RuneStart(line[end]) { // no half of a character
			end--
		}
		shown = string(line[:end]) + "..."
	}
	x.at(e).Where += `: "` + shown + `"`
	return e
}
