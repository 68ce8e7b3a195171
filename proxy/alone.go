package proxy

import (
	"fmt"
	"strings"
	"time"

	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// A command that cannot run in a transaction (CONCURRENTLY, VACUUM) runs on one shard after the
// other. When it fails, some shards may have carried it out already. So it can be run again:
// shards that are done are left alone, and on the others the leftovers of the failed attempt are
// removed first.

// aloneStep is what one shard still has to do.
type aloneStep struct {
	name string
	lane *pool.Lane
	// first are the texts that clean up before the command.
	first []string
	// text is the command, or the text that finishes an earlier attempt.
	text string
	// done: the shard has already carried the command out.
	done bool
}

// prepareAlone finds out what each shard still has to do. The home shard comes first. In a block
// nothing is looked for: the home shard refuses the command.
func (u *utility) prepareAlone(e *spread) error {
	if u.s.tx.isOpen() {
		return nil
	}
	e.steps = nil
	for i := range u.s.route.snap.Shards {
		step := aloneStep{name: u.s.route.snap.Shards[i].Name, lane: u.s.held.laneOf(u.s.route.snap, i).lane, text: e.text}
		if sql := e.plan.Change.Elsewhere; sql != "" && step.lane != u.s.lane {
			step.text = sql
		}
		if again := e.plan.Change.Again; again != nil {
			if err := u.lookAgain(again, &step); err != nil {
				return err
			}
		}
		if step.lane == u.s.lane {
			e.steps = append([]aloneStep{step}, e.steps...)
		} else {
			e.steps = append(e.steps, step)
		}
	}
	if again := e.plan.Change.Again; again != nil && !e.open() {
		for i := range e.steps {
			e.steps[i].done = false // all shards are done: the servers will say so
		}
	}
	if err := u.s.lookups.uniqueFirst(e); err != nil {
		return err
	}
	home := &e.steps[0]
	for _, sql := range home.first {
		if err := u.onShard(u.s.srv.ctx, home.lane.Shard(), sql); err != nil {
			return err
		}
	}
	if e.homeLast() {
		u.aloneElsewhere(e, false)
		if e.err != nil {
			return e.err
		}
	}
	return nil
}

// inPipeline is the error for a command that must be alone in its transaction and follows others without a Sync between, nil
// if it does not. Those are one transaction, but the shard that gets the command may not have seen the others and would carry it
// out.
func (im *implicit) inPipeline(f *parser.Facts) error {
	if f == nil || f.Alone == "" || !im.hasBegun() || im.s.tx.isOpen() && !im.isOpen() {
		return nil
	}
	return pgerr.New(pgerr.ActiveSQLTransaction, "%s cannot be executed within a pipeline", f.Alone)
}

// open reports whether a shard has not carried the command out yet.
func (e *spread) open() bool {
	for i := range e.steps {
		if !e.steps[i].done {
			return true
		}
	}
	return false
}

// homeLast reports whether the home shard runs the command last, because the command removes the
// object by which the next attempt would be planned.
func (e *spread) homeLast() bool {
	again := e.plan.Change.Again
	return len(e.steps) > 0 && again != nil && (again.Kind == plan.DropsIndex || again.Kind == plan.Detaches)
}

// local reports whether the home shard cannot answer the client: it has carried the command out
// before, or has to run another text now.
func (e *spread) local() bool {
	return len(e.steps) > 0 && (e.steps[0].done || e.steps[0].text != e.text)
}

// lookAgain finds out what an earlier attempt has left on a shard.
func (u *utility) lookAgain(again *plan.Again, step *aloneStep) error {
	name := quote.Literal(quotedName(again.Name))
	table := quote.Literal(quotedName(again.Table))
	var sql string
	switch again.Kind {
	case plan.CreatesIndex, plan.DropsIndex:
		sql = "SELECT indisvalid AND indisready FROM pg_catalog.pg_index WHERE indexrelid = pg_catalog.to_regclass(" + name + ")"
	case plan.Detaches:
		sql = "SELECT coalesce(pg_catalog.to_jsonb(i)->>'inhdetachpending', 'false') FROM pg_catalog.pg_inherits i WHERE inhrelid = pg_catalog.to_regclass(" + name + ") AND inhparent = pg_catalog.to_regclass(" + table + ")"
	case plan.Reindexes:
		sql = "SELECT pg_catalog.format('DROP INDEX CONCURRENTLY IF EXISTS %I.%I', n.nspname, c.relname) FROM pg_catalog.pg_index i " +
			"JOIN pg_catalog.pg_class c ON c.oid = i.indexrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace " +
			"WHERE i.indrelid = pg_catalog.to_regclass(" + table + ") AND NOT i.indisvalid AND c.relname ~ '_cc(new|old)[0-9]*$'"
	}
	rows, err := u.s.route.ask(step.lane, sql)
	if err != nil {
		return err
	}
	value := ""
	if len(rows) > 0 {
		value = rows[0][0]
	}
	switch again.Kind {
	case plan.CreatesIndex:
		if step.done = value == "t"; value == "f" {
			step.first = []string{"DROP INDEX CONCURRENTLY IF EXISTS " + quotedName(again.Name)}
		}
	case plan.DropsIndex:
		step.done = value == ""
	case plan.Detaches:
		if step.done = value == ""; value == "true" {
			step.text = "ALTER TABLE " + quotedName(again.Table) + " DETACH PARTITION " + quotedName(again.Name) + " FINALIZE"
		}
	case plan.Reindexes:
		for _, r := range rows {
			step.first = append(step.first, r[0])
		}
	}
	return nil
}

func quotedName(n plan.Name) string {
	return quote.Ident(n.Schema) + "." + quote.Ident(n.Table)
}

// aloneElsewhere carries the command out on all shards but home, and tells the client how far
// the command is. homeDone: the home shard has carried it out.
func (u *utility) aloneElsewhere(e *spread, homeDone bool) {
	var done []string
	if homeDone || e.steps[0].done {
		done = append(done, e.steps[0].name)
	}
	for i := range e.steps[1:] {
		step := &e.steps[i+1]
		if err := u.aloneOn(step); err != nil {
			e.err = u.aloneError(e, step, done, err)
			return
		}
		step.done = true
		done = append(done, step.name)
		u.tellAlone(e, done)
	}
}

// longCommand is the time after which the client is told how far a command is, whatever the
// command.
const longCommand = time.Second

// tellAlone tells the client how far a command is, if the command can be run again after a
// failure or takes long. Other commands say only what PostgreSQL says.
func (u *utility) tellAlone(e *spread, done []string) {
	if e.plan.Change.Again == nil && time.Since(e.began) < longCommand {
		return
	}
	u.s.out.tell(&pgerr.Error{
		Severity: pgerr.SeverityNotice, Code: "00000",
		Message: fmt.Sprintf("%d of %d shards have carried this out: %s", len(done), len(e.steps), strings.Join(done, ", ")),
	})
	_ = u.s.out.flushClient()
}

// aloneOn does what one shard still has to do. A cancel request of the client reaches the
// backend.
func (u *utility) aloneOn(step *aloneStep) error {
	if step.done {
		return nil
	}
	c, err := step.lane.Acquire(u.s.srv.ctx, pool.Want{Session: u.s.id, Underway: true})
	if err != nil {
		return err
	}
	if err := c.Apply(u.s.record.settings); err != nil {
		c.Discard()
		return err
	}
	// Whatever the text was, it may have changed the state of the backend.
	defer c.Terminate()
	for _, sql := range append(step.first, step.text) {
		if err := u.s.every.execBeside(c, sql); err != nil {
			return err
		}
	}
	return nil
}

// aloneError adds to a shard's error which shards are done and how to go on.
func (u *utility) aloneError(e *spread, step *aloneStep, done []string, err error) *pgerr.Error {
	told := *pgerr.From(err)
	told.Severity = pgerr.SeverityError
	var left []string
	for i := range e.steps {
		if !e.steps[i].done && (i > 0 || len(done) == 0 || done[0] != e.steps[0].name) {
			left = append(left, e.steps[i].name)
		}
	}
	where := "This is what shard " + step.name + " said."
	if len(done) > 0 {
		where += " Carried out on " + strings.Join(done, ", ") + "; not yet on " + strings.Join(left, ", ") + "."
	}
	if told.Detail != "" {
		where = told.Detail + " " + where
	}
	told.Detail = where
	told.Hint = "Remove the cause and run the same command again: shards that are done are left alone, and what this attempt has left behind goes first."
	return &told
}

// aloneLocally carries out the remaining steps when the home shard cannot answer the client. It
// returns the command tag.
func (u *utility) aloneLocally(e *spread) (tag string, err error) {
	if !e.homeLast() {
		u.aloneElsewhere(e, false)
		if e.err != nil {
			return "", e.err
		}
	}
	home := &e.steps[0]
	if err := u.aloneOn(home); err != nil {
		var done []string
		for _, step := range e.steps[1:] {
			done = append(done, step.name)
		}
		return "", u.aloneError(e, home, done, err)
	}
	return [...]string{"CREATE INDEX", "DROP INDEX", "REINDEX", "ALTER TABLE"}[e.plan.Change.Again.Kind], nil
}

// answerAlone answers a simple query whose command the home shard has carried out before, or for
// which the home shard runs another text.
func (u *utility) answerAlone(e *spread) error {
	tag, err := u.aloneLocally(e)
	if err != nil {
		u.s.lookups.takeBack(e)
		return u.s.lost.refuseRead(err)
	}
	u.publishAlone(e)
	u.s.out.Grow()
	u.s.out.B = wire.AppendCommandComplete(u.s.out.B, tag)
	u.s.out.tellReady()
	return nil
}

// publishAlone tells every proxy of the change. No backend's answer would make this proxy do so.
func (u *utility) publishAlone(e *spread) {
	u.s.commit.publish(news{database: u.s.db.Name, schema: true, changes: []*plan.Change{e.plan.Change}})
}

// aloneExecute prepares the execution of a portal. done: nothing is left to send to a backend.
func (u *utility) aloneExecute(e *spread) (done bool, err error) {
	if err := u.s.flush(); err != nil || u.s.pipe.isSkipping() {
		return true, err
	}
	if err := u.prepareAlone(e); err != nil {
		u.s.lookups.takeBack(e)
		return true, u.s.lost.refuseBoundRead(err)
	}
	if !e.local() {
		return false, nil
	}
	tag, err := u.aloneLocally(e)
	if err != nil {
		u.s.lookups.takeBack(e)
		return true, u.s.lost.refuseBoundRead(err)
	}
	u.publishAlone(e)
	u.s.pipe.ops.push(op{kind: opLocal, frame: wire.AppendCommandComplete(nil, tag)})
	return true, nil
}
