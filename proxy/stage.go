package proxy

import (
	"errors"
	"slices"
	"strings"
	"time"

	"weft/finish"
	"weft/pgerr"
	"weft/pool"
	"weft/stream"
	"weft/wire"
)

// Rows that are too many to be parameters are copied into a temporary table, on a separate
// backend that is no participant of the client's transaction: a transaction with temporary
// tables cannot be prepared, and a READ ONLY transaction cannot make them. The separate
// backend has the client's role and settings, and is beyond the pool's limit: the session
// that needs it holds other backends already.

// apart turns an error of the separate backend into one that does not lose the client's
// transaction if only the separate backend is lost.
func apart(err error) error {
	if !errors.Is(err, pool.ErrLost) {
		return err
	}
	e := *pgerr.From(err)
	return e.WithCause(errors.New("the backend that put the rows together is lost"))
}

// trackStager lets cancel requests reach the separate backend alone.
func (re *reach) trackStager(x *gathering) {
	re.mu.Lock()
	defer re.mu.Unlock()
	re.legs = append(re.legs[:0], x.intake.stager)
}

// openStage begins to copy the rows collected so far, and those to come, into temporary
// tables.
func (ls *legs) openStage(x *gathering) error {
	c, err := ls.s.lane.Dedicated(ls.s.srv.ctx)
	if err != nil {
		return survivable(err)
	}
	x.intake.stager = c
	ls.s.reach.addLeg(c)
	if !c.Settings().Equal(ls.s.record.settings) {
		if err := c.Apply(ls.s.record.settings); err != nil {
			return err
		}
	}
	if _, err := c.Exec("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"); err != nil {
		return err
	}
	for _, text := range ls.s.tx.replay {
		if ls.s.tx.sets && !setsMode(text) {
			if _, err := c.Exec(text); err != nil {
				return err
			}
		}
	}
	rows, err := c.Exec("SELECT pg_catalog.has_database_privilege(pg_catalog.current_database(), 'TEMPORARY')")
	if err != nil {
		return err
	}
	if rows[0][0] != "t" {
		x.intake.noTemp = true
		x.intake.inputs.Hold(inlineAtHome)
		ls.s.reach.endStage(x)
		// Legs that are over may belong to another session already.
		ls.s.reach.track(slices.DeleteFunc(slices.Clone(x.legs), func(l *leg) bool { return l.over }))
		return nil
	}
	x.intake.stage, err = finish.OpenStage(c, x.intake.inputs)
	return err
}

// setsMode reports whether a text sets a mode of the transaction: READ ONLY, its isolation
// level.
func setsMode(text string) bool {
	w := words(text)
	return len(w) > 0 && w[0] == "set" && slices.ContainsFunc(w, func(word string) bool { return strings.HasPrefix(word, "transaction") })
}

// abortTimeout is how long the separate backend may take to stop.
const abortTimeout = 2 * time.Second

// endStage ends the separate backend. Its temporary tables go with its transaction.
func (re *reach) endStage(x *gathering) {
	c := x.intake.stager
	if c == nil {
		return
	}
	if x.intake.stage != nil {
		// A server that stands still must not hold up the client.
		_ = c.Conn().SetDeadline(time.Now().Add(abortTimeout))
		_ = x.intake.stage.Abort() // the connection is closed anyway
	}
	x.intake.stage, x.intake.stager = nil, nil
	re.mu.Lock()
	re.legs = re.legs[:0]
	re.mu.Unlock()
	c.Terminate()
}

// passStaged runs the remainder over the copied rows and hands the result to the client.
func (ls *legs) passStaged(x *gathering, describe bool) error {
	defer ls.s.reach.endStage(x)
	ls.s.reach.trackStager(x)
	l := &leg{s: ls.s, conn: x.intake.stager}
	out, err := x.appendRemainder(nil, nil)
	if err != nil {
		return err
	}
	l.out = wire.AppendEmpty(appendExecute(out), wire.Sync)
	n, err := ls.s.gather.passRows(x, stream.Rows(l), describe)
	if err != nil {
		ls.stopLegs([]*leg{l})
		return apart(err)
	}
	ls.s.gather.tellSelected(x, n)
	return nil
}
