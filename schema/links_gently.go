package schema

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"weft/catalog"
	"weft/pgerr"
	"weft/quote"
)

// Constraints of large tables are made before the transaction that changes the foreign keys, by statements that let clients write meanwhile:
//
//	CREATE UNIQUE INDEX CONCURRENTLY              becomes the unique constraint
//	ADD CONSTRAINT weft_… FOREIGN KEY … NOT VALID is in force for new rows
//	VALIDATE CONSTRAINT weft_…                    reads the old rows; takes the name of the old foreign key in the end
//
// A process that dies leaves the index, which the next call uses, or the constraint weft_…, which the next call makes anew.

// tables returns the tables that a change is about, each once.
func (k *keying) tables() []catalog.Name {
	var out []catalog.Name
	for _, u := range k.found.uniques {
		out = append(out, u.table)
	}
	for _, l := range k.found.keyed {
		out = append(out, l.was.Table, l.was.References)
	}
	slices.SortFunc(out, func(a, b catalog.Name) int { return strings.Compare(a.SQL(), b.SQL()) })
	return slices.Compact(out)
}

// lock begins a transaction that has the tables locked. Clients lock the same tables in an order of their own, so it waits for less time than
// it takes PostgreSQL to look for a deadlock, in which a client might lose, and tries again.
func (k *keying) lock(mode string, tables []catalog.Name) error {
	const once, pause = 300 * time.Millisecond, 100 * time.Millisecond
	most := k.reqs[0].lockTimeout()
	var names []string
	for _, n := range tables {
		names = append(names, n.SQL())
	}
	for end := time.Now().Add(most); ; {
		err := k.s.run("BEGIN", fmt.Sprintf("SET LOCAL lock_timeout = %d", max(1, min(most, once).Milliseconds())), "LOCK TABLE "+strings.Join(names, ", ")+" IN "+mode+" MODE")
		var e *pgerr.Error
		if err == nil || !errors.As(err, &e) || e.Code != pgerr.LockNotAvailable && e.Code != pgerr.DeadlockDetected {
			return err
		}
		if !time.Now().Before(end) {
			return e.WithHint("Transactions that use %s are still open after %s. End them, or SET lock_timeout to wait longer.", k.reqs[0].name(), most.Round(time.Millisecond))
		}
		if err := k.s.run("ROLLBACK"); err != nil {
			return err
		}
		select {
		case <-k.ctx.Done():
			return context.Cause(k.ctx)
		case <-time.After(pause):
		}
	}
}

// isLarge reports whether one of the tables of a change is too large to be locked while its rows are read.
func (k *keying) isLarge() (bool, error) {
	for _, n := range k.tables() {
		pages, err := k.s.one("SELECT pg_relation_size(" + quote.Literal(n.SQL()) + "::regclass) / current_setting('block_size')::int")
		if err != nil || number(pages) > onlinePages {
			return true, err
		}
	}
	return false, nil
}

// prepare makes constraints of large tables. Partitioned tables cannot have them made so.
func (k *keying) prepare() error {
	large, err := k.isLarge()
	if err != nil || !large {
		return err
	}
	for i := range k.found.uniques {
		if u := &k.found.uniques[i]; k.isPlain(u.table) {
			if err := k.prepareUnique(u); err != nil {
				return err
			}
		}
	}
	for i := range k.found.keyed {
		if l := &k.found.keyed[i]; l.here && k.isPlain(l.was.Table) && k.isPlain(l.was.References) && !strings.HasSuffix(l.now.Definition, " NOT VALID") {
			if err := k.prepareLink(l); err != nil {
				return err
			}
		}
	}
	return nil
}

func (k *keying) isPlain(n catalog.Name) bool {
	rel := k.schema.Relation(n)
	return rel != nil && rel.Kind == catalog.Table
}

// prepareUnique makes the index of a unique constraint, unless something has its name.
func (k *keying) prepareUnique(u *unique) error {
	name := shorten(u.table.Name + "_" + strings.Join(u.columns, "_") + "_key")
	full := catalog.Name{Schema: u.table.Schema, Name: name}
	taken, err := k.s.one("SELECT to_regclass(" + quote.Literal(full.SQL()) + ")")
	if err != nil || taken != "" {
		return err
	}
	k.made = append(k.made, "DROP INDEX CONCURRENTLY IF EXISTS "+full.SQL())
	if err := k.s.run("CREATE UNIQUE INDEX CONCURRENTLY " + quote.Ident(name) + " ON " + u.table.SQL() + " (" + quote.Idents(u.columns) + ")"); err != nil {
		return err
	}
	u.index = name
	return nil
}

// prepareLink makes the new foreign key beside the old one.
func (k *keying) prepareLink(l *link) error {
	alter, name := "ALTER TABLE "+l.was.Table.SQL(), shorten("weft_"+l.was.Name)
	drop := alter + " DROP CONSTRAINT IF EXISTS " + quote.Ident(name)
	statements := []string{alter + " ADD CONSTRAINT " + quote.Ident(name) + " " + l.now.Definition + " NOT VALID", "COMMIT"}
	mode := "SHARE ROW EXCLUSIVE"
	if slices.ContainsFunc(k.schema.Relation(l.was.Table).ForeignKeys, func(fk catalog.ForeignKey) bool { return fk.Name == name }) {
		statements, mode = slices.Insert(statements, 0, drop), "ACCESS EXCLUSIVE"
	}
	if err := k.lock(mode, slices.Compact([]catalog.Name{l.was.Table, l.was.References})); err != nil {
		return err
	}
	k.made = append(k.made, drop)
	if err := k.s.only(statements...); err != nil {
		return err
	}
	if err := k.s.run(alter + " VALIDATE CONSTRAINT " + quote.Ident(name)); err != nil {
		return err
	}
	l.made = name
	return nil
}

// undo takes back what prepare has made, the last first. What cannot be taken back is taken back by the next call.
func (k *keying) undo() {
	if len(k.made) == 0 || k.s.run("ROLLBACK") != nil {
		return
	}
	for i := len(k.made) - 1; i >= 0; i-- {
		_ = k.s.run(k.made[i])
	}
}

// shorten cuts a name to the length that PostgreSQL gives names.
func shorten(name string) string {
	const most = 63
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "")
}
