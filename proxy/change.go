package proxy

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/planner"
	"weft/tally"
	"weft/twopc"
)

// When DDL has changed a schema that statements are planned by, every proxy must know of the
// change before the client is told that the DDL is done.

// changeTimeout bounds the wait for a change of the directory. A proxy that does not answer is
// waited for until its lease ends.
const changeTimeout = 30 * time.Second

// What a change that needs the directory is about.
const (
	schemaChange   = "schemas with sharded tables"
	throttleChange = "throttles"
)

// mayChange refuses changes of schemas while the directory cannot be reached: other proxies would not
// hear of them.
func (cm *commit) mayChange() error { return cm.reaches(schemaChange) }

// reaches refuses a change of something while the directory cannot be reached.
func (cm *commit) reaches(what string) error {
	if cm.s.srv.cfg.Directory == nil {
		return pgerr.New(pgerr.FeatureNotSupported, "this proxy cannot change the directory").WithHint("Send it to a proxy that has one: etcd in weft.yaml.")
	}
	// Ask the directory: that its watch has not failed yet does not mean that it can be reached.
	ctx, cancel := context.WithTimeout(cm.s.srv.ctx, 3*time.Second)
	defer cancel()
	if _, err := cm.s.srv.cfg.Directory.Load(ctx); err != nil {
		return unreachable(what, err)
	}
	return nil
}

// noteChange notes what a command does to declarations. It takes effect when the command
// commits.
func (cm *commit) noteChange(p *plan.Plan) {
	cm.s.record.done.schema = true
	if p.Change != nil {
		cm.s.record.done.changes = append(cm.s.record.done.changes, changed{p.Change, len(cm.s.tx.replay)})
	}
}

// changed is a change of declarations in an open transaction. after is how many commands that
// all participants run came before it in the block.
type changed struct {
	*plan.Change
	after int
}

// savepoints are those that are open at some place among the commands that all participants run, each with a mark of the caller's.
type savepoints []struct {
	name string
	mark int
}

// follow carries out a command. A savepoint that it makes gets the mark; back is the mark of the one that it goes back to, if ok is true.
func (sp *savepoints) follow(text string, mark int) (back int, ok bool) {
	w := words(text)
	if len(w) < 2 {
		return 0, false
	}
	name, open := strings.Trim(w[len(w)-1], `"`), *sp
	at := len(open) - 1
	for at >= 0 && open[at].name != name {
		at--
	}
	switch {
	case w[0] == "savepoint":
		*sp = append(open, struct {
			name string
			mark int
		}{name, mark})
	case at < 0:
	case w[0] == "release":
		*sp = open[:at]
	case w[0] == "rollback":
		*sp = open[:at+1]
		return open[at].mark, true
	}
	return 0, false
}

// changesLeft returns the changes that no ROLLBACK TO has taken back.
func (t *transaction) changesLeft(noted []changed) []*plan.Change {
	var left []*plan.Change
	var points savepoints
	for i, text := range append(slices.Clip(t.replay), "") {
		for len(noted) > 0 && noted[0].after <= i {
			left, noted = append(left, noted[0].Change), noted[1:]
		}
		if back, ok := points.follow(text, len(left)); ok {
			left = left[:back]
		}
	}
	return left
}

// undone reports whether a ROLLBACK TO has taken back what came into being behind the first n commands that all participants run.
func (b *block) undone(n int) bool {
	var points savepoints
	for i, text := range b.replay {
		if back, ok := points.follow(text, i); ok && i >= n && back < n {
			return true
		}
	}
	return false
}

// tablesInBlock returns the declarations as the open transaction has changed them.
func (cm *commit) tablesInBlock() *planner.Tables {
	snap := cm.s.route.snap.Clone()
	for _, c := range cm.s.tx.changesLeft(cm.s.record.done.changes) {
		applyChange(snap, cm.s.db.Name, c)
	}
	return planner.NewTables(snap, cm.s.db.Name)
}

// mayChain refuses AND CHAIN if other proxies must hear of a change first: the chained
// transaction may end otherwise than the one that made the change.
func (cm *commit) mayChain(f *parser.Facts) error {
	if f.Effects&parser.TxBegin == 0 || len(cm.s.record.done.changes) == 0 && !cm.s.tx.everywhere {
		return nil
	}
	return pgerr.New(pgerr.FeatureNotSupported, "AND CHAIN is not supported after a change of sharded tables").
		WithHint("Send COMMIT and BEGIN.")
}

// news is what other proxies must be told.
type news struct {
	database string
	schema   bool // the schema of database has changed
	roles    bool // roles have changed
	changes  []*plan.Change
	// resequence: values drawn in advance from sequences are void.
	resequence bool
	// pending is the key of the entry that intend has made, "" for none, and outcome how its
	// transaction ended; undo are the names that intend declared and that the tables did not
	// get.
	pending string
	outcome twopc.Outcome
	undo    []plan.Name
	late    bool // not all shards have followed: the entry stays pending
}

// intend tells every proxy, right before COMMIT, that the schema is about to change. Should this
// process die before it can tell that the schema has changed, the other proxies do not go on
// with what they know, and can end the change. Until then tables that get another name are
// declared under both names.
func (cm *commit) intend(a *agreement) error {
	changes := cm.s.tx.changesLeft(cm.s.record.done.changes)
	p := directory.Pending{ID: a.decision.Key, Proxy: cm.s.srv.cfg.Proxy, Database: cm.s.db.Name}
	for _, m := range a.decision.Members {
		p.Shards = append(p.Shards, m.Shard)
	}
	ctx, cancel := context.WithTimeout(cm.s.srv.ctx, changeTimeout)
	defer cancel()
	a.told = true
	next, err := cm.s.srv.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if cm.s.tx.everywhere {
			if err := takenByAll(old, &p); err != nil {
				return nil, err
			}
		}
		if err := mayDeclare(old, cm.s.db.Name, changes); err != nil {
			return nil, err
		}
		next := old.Clone()
		a.undo = nil
		for _, c := range changes {
			for _, r := range c.Renames {
				t := next.Table(cm.s.db.Name, r.From.Schema, r.From.Table)
				if t == nil || next.Table(cm.s.db.Name, r.To.Schema, r.To.Table) != nil {
					continue
				}
				also := *t
				also.Schema, also.Name = r.To.Schema, r.To.Table
				next.PutTable(also)
				a.undo = append(a.undo, r.To)
			}
		}
		p.Change = change{Do: changes, Undo: a.undo}.encode()
		next.Pending = append(next.Pending, p)
		return next, nil
	})
	if err == nil {
		err = cm.s.srv.keeper.spreadVersion(ctx, next.Version)
	}
	if e := (*pgerr.Error)(nil); errors.As(err, &e) {
		return e
	}
	if err != nil {
		return unreachable(schemaChange, err)
	}
	cm.s.route.refresh() // this block itself has just changed the declarations
	return nil
}

// takenByAll refuses a change in which not every shard has taken part: one has joined meanwhile.
func takenByAll(snap *directory.Snapshot, p *directory.Pending) error {
	name, ok := twopc.ParseName(p.ID)
	for i := range snap.Shards {
		if sh := snap.Shards[i].Name; ok && sh != name.Decider && !slices.Contains(p.Shards, sh) {
			return pgerr.New(pgerr.SerializationFailure, "shard %q has joined while the schema was being changed", sh).WithHint("Run the transaction again.")
		}
	}
	return nil
}

// unreachable is the error for a change that other proxies could not be told of.
func unreachable(what string, err error) *pgerr.Error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "the directory cannot be reached, so %s cannot be changed", what).
		WithDetail("%s", err.Error()).WithHint("Try again when etcd is back. Reads and writes go on meanwhile.")
}

// publishEnd tells every proxy how a transaction that changed schemas has ended.
func (cm *commit) publishEnd(d *effects, o twopc.Outcome) {
	n := news{database: cm.s.db.Name, schema: d.schema, roles: d.bits&parser.Roles != 0, resequence: d.resequence, outcome: o}
	if o == twopc.Committed {
		n.changes = cm.s.tx.changesLeft(d.changes)
	}
	if a := cm.agreement; a != nil && a.told {
		n.pending, n.late = a.decision.Key, !a.Settled()
		if o == twopc.Aborted {
			n.undo = a.undo
		}
	}
	cm.publish(n)
	cm.s.srv.keeper.stopAt(twopc.AfterPublish)
}

// publish tells every proxy the news. If that fails, it warns the client and goes on trying in
// the background.
func (cm *commit) publish(n news) {
	ctx, cancel := context.WithTimeout(cm.s.srv.ctx, changeTimeout)
	defer cancel()
	if err := cm.s.srv.keeper.publish(ctx, n); err != nil {
		cm.s.log.Error("schema change not published", "database", cm.s.db.Name, "err", err)
		e := pgerr.New("01000", "other proxies may not know of this change of the schema yet").WithDetail("%s", err.Error())
		e.Severity = pgerr.SeverityWarning
		cm.s.out.tell(e)
		if a := cm.agreement; a != nil {
			cm.s.srv.metrics.commits[a.Outcome()].Add(cm.s.id, tally.Now()-a.began)
		}
		// The resolver must not touch what is pending meanwhile: its nonce stays in hands.
		cm.agreement = nil
		cm.s.srv.crew.Go(cm.s.srv.guarded("news of changes", func() { cm.s.srv.keeper.publishLater(n) }))
	}
	cm.leaveToResolver()
	cm.s.route.refresh()
}

// publish enters the news in the directory and waits until every proxy has them.
func (k *keeper) publish(ctx context.Context, n news) error {
	told := false
	next, err := k.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if told = n.pending != "" && !n.roles && old.FindPending(n.pending) == nil; told {
			return old, nil // the resolver, or the session, was faster
		}
		next := old.Clone()
		if n.schema {
			next.Schemas = counted(next.Schemas, n.database)
		}
		if n.roles {
			// Roles are shared by all databases, and policies of any database may depend on
			// them.
			for i := range next.Tables {
				if d := next.Tables[i].Database; d != n.database && (i == 0 || d != next.Tables[i-1].Database) {
					next.Schemas = counted(next.Schemas, d)
				}
			}
		}
		if n.resequence {
			next.Sequences = counted(next.Sequences, n.database)
		}
		p := next.FindPending(n.pending)
		if n.pending == "" || p != nil && p.Outcome == "" { // otherwise another proxy has already told
			for _, name := range n.undo {
				next.DropTable(n.database, name.Schema, name.Table)
			}
			for _, c := range n.changes {
				applyChange(next, n.database, c)
			}
		}
		if p != nil && n.late {
			p.Outcome, p.Change = n.outcome.String(), ""
		} else {
			next.Settle(n.pending)
		}
		return next, nil
	})
	if err != nil {
		return err
	}
	if err := k.spreadVersion(ctx, next.Version); err != nil || told || !n.resequence {
		return err
	}
	k.voidLots(ctx, n.database, n.outcome == twopc.Aborted)
	return nil
}

// counted counts one more change of a database.
func counted(m map[string]int64, database string) map[string]int64 {
	if m == nil {
		m = map[string]int64{}
	}
	m[database]++
	return m
}

// spreadVersion waits until this proxy and all others serve a version of the directory.
func (k *keeper) spreadVersion(ctx context.Context, version int64) error {
	if k.s.cfg.Current != nil {
		if _, err := k.s.cfg.Current.Reach(ctx, version); err != nil {
			return err
		}
	}
	return k.s.cfg.Directory.Acknowledged(ctx, version)
}

// publishLater publishes news once a second until that succeeds.
func (k *keeper) publishLater(n news) {
	for {
		select {
		case <-k.s.ctx.Done():
			return
		case <-time.After(time.Second):
		}
		ctx, cancel := context.WithTimeout(k.s.ctx, changeTimeout)
		err := k.publish(ctx, n)
		cancel()
		if err == nil {
			if name, ok := twopc.ParseName(n.pending); ok {
				k.s.left.Drop(name.Nonce)
			}
			return
		}
	}
}

// applyChange changes the declarations as DDL has changed the tables.
func applyChange(snap *directory.Snapshot, database string, c *plan.Change) {
	for _, n := range c.Drops {
		snap.DropTable(database, n.Schema, n.Table)
	}
	for _, n := range c.Functions {
		snap.DropFunction(database, n.Schema, n.Table)
	}
	for _, t := range declarationsOf(c, database) {
		if t.Vindex.Buckets == snap.BucketCount {
			t.Vindex.Buckets = 0
		}
		snap.PutTable(t)
	}
	for _, x := range c.Adds {
		if t := snap.Table(database, x.Like.Schema, x.Like.Table); t != nil {
			also := *t
			also.Schema, also.Name, also.ForeignKeys = x.Table.Schema, x.Table.Table, nil
			snap.PutTable(also)
		}
	}
	for _, r := range c.Columns {
		if t := snap.Table(database, r.Table.Schema, r.Table.Table); t != nil {
			for i := range t.Columns {
				if t.Columns[i].Name == r.From {
					t.Columns[i].Name = r.To
				}
			}
			if t.IDs.Column == r.From {
				t.IDs.Column = r.To
			}
		}
	}
	for _, x := range c.Types {
		if t := snap.Table(database, x.Table.Schema, x.Table.Table); t != nil {
			for i := range t.Columns {
				if col := &t.Columns[i]; col.Name == x.Column {
					col.Type, col.TypeName, col.Mod = x.Type, x.Name, x.Mod
				}
			}
		}
	}
	for _, r := range c.Renames {
		if t := snap.Table(database, r.From.Schema, r.From.Table); t != nil {
			moved := *t
			snap.DropTable(database, r.From.Schema, r.From.Table)
			moved.Schema, moved.Name = r.To.Schema, r.To.Table
			snap.PutTable(moved)
		}
	}
}
