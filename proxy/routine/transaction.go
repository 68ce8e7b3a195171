package routine

import (
	"context"
	"strconv"
)

// point is an open savepoint of a program.
type point struct {
	name string
	// mark is Session.Mark before it.
	mark int
}

// Savepoint implements program.Transaction.
func (d *Dialogue) Savepoint(context.Context) error {
	p := point{"weft_program_" + strconv.Itoa(d.room.depth) + "_" + strconv.Itoa(len(d.points)+1), d.session.Mark()}
	if err := d.run("SAVEPOINT " + p.name); err != nil {
		return err
	}
	d.points = append(d.points, p)
	d.room.points++
	return nil
}

// Release implements program.Transaction.
func (d *Dialogue) Release(context.Context) error {
	p := d.pop()
	if err := d.run("RELEASE SAVEPOINT " + p.name); err != nil {
		return err
	}
	if d.session.Mark() == p.mark+2 { // nothing but the savepoint and its release
		d.session.Forget(p.mark)
	}
	return nil
}

// RollbackTo implements program.Transaction.
func (d *Dialogue) RollbackTo(context.Context) error {
	p := d.pop()
	if err := d.run("ROLLBACK TO SAVEPOINT " + p.name); err != nil {
		return err
	}
	if err := d.run("RELEASE SAVEPOINT " + p.name); err != nil {
		return err
	}
	d.session.Forget(p.mark)
	return nil
}

func (d *Dialogue) pop() point {
	p := d.points[len(d.points)-1]
	d.points = d.points[:len(d.points)-1]
	d.room.points--
	return p
}

// End implements program.Transaction.
func (d *Dialogue) End(_ context.Context, commit, chain bool) error {
	sql := "ROLLBACK"
	if commit {
		sql = "COMMIT"
	}
	if chain {
		return d.run(sql + " AND CHAIN")
	}
	if err := d.run(sql); err != nil {
		return err
	}
	return d.run("BEGIN")
}
