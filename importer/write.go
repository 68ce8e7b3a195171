package importer

import (
	"slices"
	"strconv"
	"strings"

	"weft/quote"
)

// Statement is one statement for weft.
type Statement struct {
	SQL  string
	Args [][]byte // as text; nil is NULL
	Rows int64    // that it must concern; negative: any number
}

// writer makes statements of changes of one table. Columns are numbered as the stream does.
type writer struct {
	rel   *Relation
	table string // as SQL
	// key are the columns that find a row; none: all of them are compared.
	key []int
	// shard are the columns of the shard key; none: the table is at home or on every shard.
	shard []int
	// fixed are columns that no UPDATE may set: they are generated always.
	fixed []int
	// overriding: some columns are generated as identity.
	overriding bool
}

// newWriter binds a table of the stream to that of the target, which has the same columns.
func newWriter(r *Relation, t *Table, shard []string) *writer {
	w := &writer{rel: r, table: t.sql()}
	for i, name := range r.Columns {
		if r.Full && slices.Contains(t.Key, name) || !r.Full && r.Key[i] {
			w.key = append(w.key, i)
		}
		if slices.Contains(shard, name) {
			w.shard = append(w.shard, i)
		}
		if c := slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == name }); c >= 0 {
			w.overriding = w.overriding || t.Columns[c].Identity
			if t.Columns[c].Always {
				w.fixed = append(w.fixed, i)
			}
		}
	}
	return w
}

// text is a statement that is being written.
type text struct {
	strings.Builder
	args [][]byte
}

func (t *text) param(v Value) {
	t.args = append(t.args, v.param())
	t.WriteByte('$')
	t.WriteString(strconv.Itoa(len(t.args)))
}

func (t *text) statement(rows int64) Statement { return Statement{t.String(), t.args, rows} }

func (w *writer) column(i int) string { return quote.Ident(w.rel.Columns[i]) }

func (w *writer) columns() string { return quote.Idents(w.rel.Columns) }

// insert makes the statement that inserts rows. All of their values must be known.
func (w *writer) insert(rows ...[]Value) Statement {
	var t text
	t.WriteString("INSERT INTO " + w.table + " (" + w.columns() + ")")
	if w.overriding {
		t.WriteString(" OVERRIDING SYSTEM VALUE")
	}
	t.WriteString(" VALUES ")
	for n, row := range rows {
		t.WriteString([...]string{"(", ", ("}[min(n, 1)])
		for i, v := range row {
			if i > 0 {
				t.WriteString(", ")
			}
			t.param(v)
		}
		t.WriteByte(')')
	}
	return t.statement(int64(len(rows)))
}

// update makes the statement for an update. It reports false for one that takes more than one statement: the
// row has no key, or may have to move.
func (w *writer) update(c *Change) (s Statement, ok bool) {
	if len(w.key) == 0 {
		return s, false
	}
	changed := func(i int) bool { return c.Old != nil && !c.Old[i].equal(c.New[i]) }
	known := func(i int) bool { return c.Full || c.Old == nil || slices.Contains(w.key, i) }
	for _, i := range w.shard {
		if known(i) && changed(i) {
			return s, false
		}
	}
	for _, i := range w.fixed {
		if !slices.Contains(w.key, i) && !c.Full || known(i) && changed(i) {
			return s, false
		}
	}
	var t text
	t.WriteString("UPDATE " + w.table + " SET ")
	for i, v := range c.New {
		switch {
		case v.Kind == 'u', slices.Contains(w.shard, i), slices.Contains(w.fixed, i):
			continue
		case (c.Full || slices.Contains(w.key, i)) && !changed(i):
			continue
		}
		if len(t.args) > 0 {
			t.WriteString(", ")
		}
		t.WriteString(w.column(i) + " = ")
		t.param(v)
	}
	if len(t.args) == 0 {
		return s, true // nothing has changed
	}
	old := c.Old
	if old == nil {
		old = c.New
	}
	w.where(&t, old)
	// The shard key outside of the row's key: where it is unknown whether it has changed, the row is looked for where it
	// would be if it has not.
	for _, i := range w.shard {
		if v := c.New[i]; !slices.Contains(w.key, i) && v.Kind == 't' {
			t.WriteString(" AND " + w.column(i) + " = ")
			t.param(v)
		}
	}
	return t.statement(1), true
}

// remove makes the statement that deletes a row, by the key it had. It reports false for a table without key.
func (w *writer) remove(c *Change) (s Statement, ok bool) {
	if len(w.key) == 0 {
		return s, false
	}
	var t text
	t.WriteString("DELETE FROM " + w.table)
	w.where(&t, c.Old)
	if c.Full {
		for _, i := range w.shard {
			if v := c.Old[i]; !slices.Contains(w.key, i) && v.Kind == 't' {
				t.WriteString(" AND " + w.column(i) + " = ")
				t.param(v)
			}
		}
	}
	return t.statement(1), true
}

// where appends the condition that finds a row by its key.
func (w *writer) where(t *text, row []Value) {
	for n, i := range w.key {
		if n == 0 {
			t.WriteString(" WHERE ")
		} else {
			t.WriteString(" AND ")
		}
		t.WriteString(w.column(i) + " = ")
		t.param(row[i])
	}
}

// current makes the statement that reads a row by the key it has before a change, and discard the one that deletes it.
func (w *writer) current(c *Change) Statement {
	var t text
	t.WriteString("SELECT " + w.columns() + " FROM " + w.table)
	w.where(&t, w.before(c))
	return t.statement(1)
}

func (w *writer) discard(c *Change) Statement {
	var t text
	t.WriteString("DELETE FROM " + w.table)
	w.where(&t, w.before(c))
	return t.statement(1)
}

func (w *writer) before(c *Change) []Value {
	if c.Old != nil {
		return c.Old
	}
	return c.New
}

// alike makes the statement that deletes all rows that are written the same as one.
func (w *writer) alike(row []Value) Statement {
	var t text
	t.WriteString("DELETE FROM " + w.table)
	for i, v := range row {
		if i == 0 {
			t.WriteString(" WHERE ")
		} else {
			t.WriteString(" AND ")
		}
		t.WriteString(w.column(i) + "::text IS NOT DISTINCT FROM ")
		t.param(v)
		t.WriteString("::text")
	}
	for _, i := range w.shard {
		if row[i].Kind == 't' {
			t.WriteString(" AND " + w.column(i) + " = ")
			t.param(row[i])
		}
	}
	return t.statement(whole)
}

// truncate makes the statement that empties tables.
func truncate(tables []string) Statement {
	return Statement{SQL: "TRUNCATE " + strings.Join(tables, ", "), Rows: whole}
}
