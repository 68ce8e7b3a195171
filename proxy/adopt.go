package proxy

import (
	"weft/catalog"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/quote"
	"weft/schema"
)

// A home table that becomes a partition of a declared table is created on the other shards
// first, in the same transaction.

// adoptTables creates on the other shards the tables and sequences that a command needs there.
func (d *drawn) adoptTables(c *plan.Change) error {
	if c == nil {
		return nil
	}
	for _, n := range c.Adopts {
		if err := d.adoptTable(n); err != nil {
			return err
		}
	}
	for _, n := range c.Sequences {
		if err := d.adoptSequence(n); err != nil {
			return err
		}
	}
	return nil
}

// adoptSequence creates a sequence of the home shard on the other shards, used up.
func (d *drawn) adoptSequence(n plan.Name) error {
	if err := d.mayAsk(); err != nil {
		return err
	}
	lines, err := schema.ReadSequence(catalogName(n), func(sql string) ([][]string, error) { return d.s.commit.askBeside(d.s.held.conn, sql) })
	if err != nil {
		return err
	}
	return d.s.every.withOthers(func(_ int, c *pool.Conn) error {
		there, err := d.s.commit.askBeside(c, "SELECT pg_catalog.to_regclass("+quote.Literal(quotedName(n))+") IS NOT NULL")
		if err != nil || there[0][0] == "t" {
			return err
		}
		return d.s.every.execBeside(c, lines)
	})
}

// mayAsk makes the backend at hand ready for weft's own questions, between the client's
// messages.
func (d *drawn) mayAsk() error {
	if !d.s.pipe.ops.empty() || d.s.pipe.unsent.Len() > 0 {
		if err := d.s.flush(); err != nil {
			return err
		}
		if d.s.held.conn == nil || d.s.pipe.isSkipping() {
			return errTold
		}
	}
	d.s.held.conn.UnnamedGone()
	return nil
}

// adoptTable creates an empty table of the home shard on the other shards. It refuses a table
// with rows.
func (d *drawn) adoptTable(n plan.Name) error {
	if err := d.mayAsk(); err != nil {
		return err
	}
	name := quotedName(n)
	rows, err := d.s.commit.askBeside(d.s.held.conn, "LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE; SELECT EXISTS (SELECT FROM "+name+")")
	if err != nil {
		return err
	}
	if rows[0][0] == "t" {
		return pgerr.New(pgerr.FeatureNotSupported, "%q has rows, which would have to move to other shards", n.Table).
			WithHint("Declare it first, by the same key as the table it becomes a partition of: SELECT weft.shard_table('%s', …).", n.Table)
	}
	// ReadDefinition changes settings of the backend. ROLLBACK TO the savepoint restores them.
	const point = `"\x01a"`
	if _, err := d.s.held.conn.Exec("SAVEPOINT " + point); err != nil {
		return err
	}
	def, err := schema.ReadDefinition(d.s.srv.ctx, d.s.held.conn, catalog.Name{Schema: n.Schema, Name: n.Table})
	if _, undone := d.s.held.conn.Exec("ROLLBACK TO " + point + "; RELEASE " + point); undone != nil {
		return undone
	}
	if err != nil {
		return err
	}
	return d.s.every.withOthers(func(i int, c *pool.Conn) (err error) {
		d.s.every.beside(c, func() { err = def.ApplyInside(d.s.srv.ctx, c, d.s.route.snap.Shards[i].Name) })
		return err
	})
}
