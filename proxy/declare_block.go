package proxy

import (
	"encoding/json"
	"errors"
	"slices"

	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/schema"
)

// Migrations make a table and declare it in one transaction. A table without rows can be declared so: it
// is made on the other shards in the block's transaction, as any DDL is, and the declaration takes effect with
// the block's COMMIT.

// declaresInside are the functions that can be called inside a transaction block.
var declaresInside = map[string]directory.TableKind{"shard_table": directory.Sharded, "reference_table": directory.Reference}

// blockOnly are the arguments that make no sense for a table without rows.
var blockOnly = []string{"online", "cascade", "wait"}

// declareInBlock declares a table without rows inside the client's transaction block.
func (u *utility) declareInBlock(f *plan.Function, params [][]byte) error {
	kind, args := declaresInside[f.Name], arguments(f, params)
	if !u.s.route.hasTables || !u.s.tx.isOpen() {
		return pgerr.New(pgerr.FeatureNotSupported, "the first table of a database cannot be declared inside a transaction block").
			WithHint("Declare any table of the database by itself before: that makes the database, its roles and its functions on the other shards.")
	}
	if m := u.s.route.snap.Carrying(u.s.db.Name); m != nil {
		return carriedNow(m)
	}
	for _, step := range []func() error{
		u.s.commit.mayChange, u.s.commit.awaitShards, u.s.route.touch.enterEverything,
		func() error { return u.s.held.useLane(u.s.lane) },
		u.s.tx.quiesce, u.s.every.mayWriteEverywhere, u.s.drawn.mayAsk,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	req, err := u.request(args)
	if err != nil {
		return err
	}
	for _, name := range blockOnly {
		delete(args, name)
	}
	if kind == directory.Sharded {
		if err := declaration(req, args); err != nil {
			return err
		}
	}
	if u.s.commit.tablesInBlock().Find(req.Table.Schema, req.Table.Name) != nil {
		return pgerr.New(pgerr.DuplicateObject, "%q is already declared", req.Table.Name)
	}
	if err := schema.Empty(func(sql string) ([][]string, error) { return u.s.commit.askBeside(u.s.held.conn, sql) }, req.Table); err != nil {
		return err
	}
	if req.Links != "" {
		if err := u.keyInBlock(req); err != nil {
			return err
		}
	}
	in, err := u.judgeInBlock(req, kind)
	if err != nil {
		return err
	}
	if in.Uniques {
		if err := u.s.lookups.installLookups(); err != nil {
			return err
		}
	}
	err = u.s.every.withOthers(func(i int, c *pool.Conn) (err error) {
		u.s.every.beside(c, func() { err = in.Apply(u.s.srv.ctx, c, u.s.route.snap.Shards[i].Name) })
		return err
	})
	if err != nil {
		return err
	}
	// The block may last until the cluster has more buckets.
	if err := in.Table.KeepNumbers(u.s.route.snap.BucketCount); err != nil {
		return err
	}
	text, err := json.Marshal(in.Table)
	if err != nil {
		return err
	}
	for _, n := range in.Notices {
		u.s.out.tell(n)
	}
	u.s.record.done.note(u.s, declaresTable)
	u.s.commit.noteChange(&plan.Plan{Change: &plan.Change{Declares: []string{string(text)}}})
	if !in.Uniques {
		return nil
	}
	made := plan.LookupChange{Kind: plan.Uniques, Table: plan.Name{Schema: req.Table.Schema, Table: req.Table.Name}}
	return u.s.lookups.afterLookups(&plan.Change{Lookups: []plan.LookupChange{made}})
}

// keyInBlock gives the foreign keys of a table the shard key before the table is declared inside the block.
func (u *utility) keyInBlock(req *schema.Request) error {
	var keyed *schema.InsideLinks
	err := u.lookInBlock(func(snap *directory.Snapshot) (err error) {
		keyed, err = schema.KeyInside(u.s.srv.ctx, u.s.held.conn, snap, *req)
		return err
	})
	if err != nil {
		return err
	}
	for _, sql := range slices.Concat(keyed.All, keyed.Home) {
		err := u.s.every.execBeside(u.s.held.conn, sql)
		if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.ObjectInUse {
			return e.WithHint("Declare the tables before the block writes rows, or send SET CONSTRAINTS ALL IMMEDIATE first: then deferred foreign keys have nothing left to check.")
		}
		if err != nil {
			return err
		}
	}
	for _, sql := range keyed.All {
		if err := u.s.every.withOthers(func(_ int, c *pool.Conn) error { return u.s.every.execBeside(c, sql) }); err != nil {
			return err
		}
	}
	for _, n := range keyed.Notices {
		u.s.out.tell(n)
	}
	return nil
}

// declaresTable is what a declaration does to the session's transaction.
var declaresTable = &parser.Facts{Statements: 1, Effects: parser.DDL | parser.Writes}

// judgeInBlock judges a declaration by what the block sees.
func (u *utility) judgeInBlock(req *schema.Request, kind directory.TableKind) (in *schema.Inside, err error) {
	err = u.lookInBlock(func(snap *directory.Snapshot) (err error) {
		in, err = schema.DeclareInside(u.s.srv.ctx, u.s.held.conn, snap, *req, kind)
		return err
	})
	return in, err
}

// lookInBlock calls look with the declarations as the block sees them. What look changes of the settings of the backend at hand
// is taken back.
func (u *utility) lookInBlock(look func(snap *directory.Snapshot) error) (err error) {
	snap := u.s.route.snap.Clone()
	for _, c := range u.s.tx.changesLeft(u.s.record.done.changes) {
		applyChange(snap, u.s.db.Name, c)
	}
	c := u.s.held.conn
	const point = `"\x01d"`
	u.s.every.beside(c, func() {
		if _, err = c.Exec("SAVEPOINT " + point); err != nil {
			return
		}
		err = look(snap.For(u.s.db.Name))
		if _, undone := c.Exec("ROLLBACK TO " + point + "; RELEASE " + point); undone != nil {
			err = undone
		}
	})
	return err
}

// carriedNow refuses a declaration inside a block while rows of the database move.
func carriedNow(m *directory.Move) error {
	return pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s moves rows of this database to other shards", m.ID).
		WithHint("Wait for it with weft.wait_move('%s'), or end it with weft.cancel_move('%s').", m.ID, m.ID)
}

// mayDeclare refuses, at COMMIT, declarations of a block if rows of the database have begun to move, or if another
// session has declared the same table.
func mayDeclare(snap *directory.Snapshot, database string, changes []*plan.Change) error {
	if !slices.ContainsFunc(changes, func(c *plan.Change) bool { return len(c.Declares) > 0 }) {
		return nil
	}
	if m := snap.Carrying(database); m != nil {
		return carriedNow(m)
	}
	return nil
}

// declarationsOf returns the declarations that a change makes.
func declarationsOf(c *plan.Change, database string) []directory.Table {
	var out []directory.Table
	for _, text := range c.Declares {
		var t directory.Table
		if json.Unmarshal([]byte(text), &t) == nil && t.Database == database {
			out = append(out, t)
		}
	}
	return out
}
