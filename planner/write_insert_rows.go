package planner

import (
	"slices"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/quote"
)

// rowCutter cuts the text of an INSERT … VALUES into rows. Rows stay as the client wrote them,
// except for values that must be the same on all shards: those that weft supplies, and the time of
// the transaction.
type rowCutter struct {
	*writer
	tokens insertTokens
	edits  []cutEdit
	rows   *plan.Rows
	// added are the columns that the client left out and that weft names.
	added []addedColumn
	// overriding is set if values of GENERATED ALWAYS columns are among them.
	overriding bool
	refusal    *pgerr.Error
}

// cutEdit replaces some bytes by parts.
type cutEdit struct {
	at, end int
	parts   plan.Text
}

// addedColumn has the value of a column for each row, or one for all.
type addedColumn struct {
	column *catalog.Column
	text   plan.Text // the default; empty for values that weft supplies
	key    int       // the key column that it is, whose value must be known first; else -1
	values []int     // by row
}

// cutRows cuts the statement.
func (w *writer) cutRows() (*plan.Rows, *pgerr.Error) {
	g := w.gen
	if g == nil { // a home table's
		g = &generator{writer: w}
	}
	c := &rowCutter{writer: w, tokens: g.tokens(), rows: &plan.Rows{}}
	if c.tokens.valuesKeyword < 0 || len(c.tokens.rowsEnd) != len(w.lists) || len(c.tokens.rowsStart) != len(w.lists) {
		return nil, cannot("Write the statement in another way.", "weft cannot find the rows of this statement")
	}
	c.supplied(g)
	c.defaults()
	c.times()
	if c.refusal != nil {
		return nil, c.refusal
	}
	slices.SortStableFunc(c.edits, func(x, y cutEdit) int { return x.at - y.at })
	c.skips()
	c.cut()
	c.rows.Timed = c.rows.Timed || slices.ContainsFunc(c.added, func(a addedColumn) bool { return a.text.Has(plan.Now) })
	return c.rows, c.refusal
}

func (c *rowCutter) refuse(hint, format string, args ...any) {
	if c.refusal == nil {
		c.refusal = cannot(hint, format, args...)
	}
}

// skips notes whether rows may be skipped.
func (c *rowCutter) skips() {
	if o := c.stmt.OnConflictClause; o != nil {
		c.rows.Skips = true
		c.rows.Updates = o.Action == pg.OnConflictAction_ONCONFLICT_UPDATE
	}
	if rel := c.target.rel; len(rel.Triggers) > 0 {
		c.rows.Skips = true
	}
}

// supplied takes over the values that weft supplies.
func (c *rowCutter) supplied(g *generator) {
	for _, e := range g.edits {
		if e.value < 0 && e.remove > 0 && c.tokens.user == e.at {
			c.edits = append(c.edits, cutEdit{e.at, e.at + e.remove, plan.Text{sqlPart(e.text)}})
		}
		if e.value >= 0 && e.remove > 0 {
			c.edits = append(c.edits, cutEdit{e.at, e.at + e.remove, plan.Text{{Kind: plan.Supplied, Index: e.value}}})
		}
	}
	c.overriding = g.overrides
	for i, col := range g.columns {
		a := addedColumn{column: col, key: -1}
		for _, values := range g.values {
			a.values = append(a.values, values[i])
		}
		c.added = append(c.added, a)
		c.overriding = c.overriding || col.Identity == 'a'
	}
}

// defaults finds the defaults that shards cannot evaluate: those of keys, and those that use the
// time.
func (c *rowCutter) defaults() {
	rel := c.target.rel
	given := 0
	if len(c.lists) > 0 {
		given = len(c.lists[0].GetList().GetItems())
	}
	for i := range rel.Columns {
		col := &rel.Columns[i]
		if c.position(col.Name, given) >= 0 || slices.ContainsFunc(c.added, func(a addedColumn) bool { return a.column == col }) {
			continue
		}
		key := c.keyIndex(col)
		if key >= 0 && c.stored[0].keys[key].known {
			key = -1
		}
		text, told := c.a.writes().defaultText(col)
		if key < 0 && !told && !c.awayDefaults[col] {
			continue
		}
		if hidden(col) {
			c.refusal = cannotSee(col, c.target.name)
			return
		}
		if len(text) == 0 {
			c.refuse("Give the column a value.", "the default of column %q cannot be evaluated before its row is stored", col.Name)
			return
		}
		c.added = append(c.added, addedColumn{column: col, text: text, key: key})
	}
}

// keyIndex returns which key column a column is, or -1.
func (w *writer) keyIndex(col *catalog.Column) int {
	if w.target.table == nil {
		return -1
	}
	return slices.IndexFunc(w.target.table.keys, func(k directory.Column) bool { return col != nil && k.Name == col.Name })
}

// defaultText writes out a column's default. told is set if it uses the time of the transaction.
func (wr writes) defaultText(c *catalog.Column) (text plan.Text, told bool) {
	if c.Default == "" || c.Generated {
		return nil, false
	}
	wr.withDefault(c, func(n *pg.Node) {
		told = wr.a.clock().asksTime(n)
		n = placeless(n)
		wr.a.clock().times(n)
		sel := newSelect()
		sel.TargetList = []*pg.Node{targetNode(n, "")}
		var err error
		if text, err = wr.a.gatherer().render(selectNode(sel)); err != nil || len(text) == 0 {
			text = nil
			return
		}
		text[0].SQL = strings.TrimPrefix(text[0].SQL, "SELECT ")
		if text[0].SQL == "" {
			text = text[1:]
		}
	})
	return text, told
}

// times finds the calls of now() and its relatives.
func (c *rowCutter) times() {
	c.conflictTimes()
	parser.Walk(c.stmt, func(m any) bool {
		n, ok := m.(*pg.Node)
		if !ok {
			return true
		}
		if c.away[n] {
			return false
		}
		now := c.a.clock().nowCall(n)
		if now == nil {
			return true
		}
		start, end := c.callPlace(n)
		if start < 0 {
			c.refuse("Give the time as a parameter.", "weft cannot find a call of now() in this statement")
			return false
		}
		c.edits = append(c.edits, cutEdit{start, end, nowText(now)})
		c.rows.Timed = true
		return false
	})
}

// conflictTimes writes out the defaults that tell the time where ON CONFLICT sets columns to them.
func (c *rowCutter) conflictTimes() {
	const word = "default"
	to := c.a.writes().writable(c.stmt.Relation)
	for _, t := range c.stmt.OnConflictClause.GetTargetList() {
		v := setNode(t).GetSetToDefault()
		if v == nil || to == nil {
			continue
		}
		col := to.updated(t.GetResTarget().GetName())
		if col == nil || !c.a.clock().defaultTells(col) {
			continue
		}
		text, _ := c.a.writes().defaultText(col)
		at := c.a.client.tree.Offset(v.Location)
		if len(text) == 0 || at < 0 || at+len(word) > len(c.a.client.sql) || !strings.EqualFold(c.a.client.sql[at:at+len(word)], word) {
			c.refuse("Give the value, such as now().", "column %q cannot be set to its default on several shards: each would have its own", col.Name)
			return
		}
		c.edits = append(c.edits, cutEdit{at, at + len(word), slices.Concat(plan.Text{{Kind: plan.SQL, SQL: "("}}, text, plan.Text{{Kind: plan.SQL, SQL: ")"}})})
		c.rows.Timed = true
	}
}

// nowText returns the result of nowCall as a text.
func nowText(n *pg.Node) plan.Text {
	t := n.GetTypeCast()
	if t == nil {
		return plan.Text{{Kind: plan.Now}}
	}
	as := strings.Join(nameList(t.TypeName.Names), ".")
	if len(t.TypeName.Typmods) > 0 {
		as += "(" + strconv.Itoa(int(t.TypeName.Typmods[0].GetAConst().GetIval().GetIval())) + ")"
		as = strings.TrimPrefix(as, "pg_catalog.")
	}
	return plan.Text{{Kind: plan.SQL, SQL: "CAST("}, {Kind: plan.Now}, {Kind: plan.SQL, SQL: " AS " + as + ")"}}
}

// callPlace returns the position of a call that nowCall knows.
func (c *rowCutter) callPlace(n *pg.Node) (start, end int) {
	location := n.GetFuncCall().GetLocation()
	sql := n.GetSqlvalueFunction()
	if sql != nil {
		location = sql.Location
	}
	start = c.a.client.tree.Offset(location)
	if start < 0 || start >= len(c.a.client.sql) {
		return -1, 0
	}
	if sql == nil {
		end = (&generator{writer: c.writer}).closing(start)
		if end < 0 {
			return -1, 0
		}
		return start, end
	}
	sc := wordScanner{text: c.a.client, at: start}
	word, at := sc.next()
	if at != start || !isWord(c.a.client.sql[start]) {
		return -1, 0
	}
	end = start + len(word)
	if sql.Typmod >= 0 {
		if end = (&generator{writer: c.writer}).closing(start); end < 0 {
			return -1, 0
		}
	}
	return start, end
}

// cut makes the parts.
func (c *rowCutter) cut() {
	c.rows.Head = c.head()
	for r := range max(len(c.lists), 1) {
		row, ok := c.row(r)
		if !ok {
			return
		}
		c.rows.Rows = append(c.rows.Rows, row)
	}
	tail := c.tokens.valuesKeyword + len("VALUES")
	if n := len(c.tokens.rowsEnd); n > 0 {
		tail = c.tokens.rowsEnd[n-1] + 1
	}
	c.rows.Tail = c.text(tail, c.tokens.end)
}

// head returns everything before the rows.
func (c *rowCutter) head() plan.Text {
	start, values := 0, c.tokens.valuesKeyword
	if e := c.a.client.tree.Statements[0].Stmt.GetExplainStmt(); e != nil {
		start = c.a.commands().explainedAt(len(e.Options) > 0)
	}
	var names []string
	for _, a := range c.added {
		names = append(names, quote.Ident(a.column.Name))
	}
	over := ""
	if c.overriding && c.stmt.Override == pg.OverridingKind_OVERRIDING_NOT_SET {
		over = "OVERRIDING SYSTEM VALUE "
	}
	switch {
	case c.tokens.defaultValues >= 0:
		if len(names) == 0 { // there is no row without columns
			names = []string{quote.Ident(c.target.rel.Columns[0].Name)}
		}
		return append(c.text(start, c.tokens.defaultValues), sqlPart(" ("+strings.Join(names, ", ")+") "+over+"VALUES"))
	case len(names) == 0:
	case c.listed:
		head := append(c.text(start, c.tokens.columnsEnd), sqlPart(", "+strings.Join(names, ", ")))
		return append(append(append(head, c.text(c.tokens.columnsEnd, values)...), sqlPart(over)), c.text(values, values+len("VALUES"))...)
	default:
		given := len(c.lists[0].GetList().GetItems())
		var all []string
		for _, col := range c.cols[:min(given, len(c.cols))] {
			all = append(all, quote.Ident(col.Name))
		}
		at := values
		if c.tokens.overriding >= 0 {
			at = c.tokens.overriding
		}
		head := append(c.text(start, at), sqlPart("("+strings.Join(append(all, names...), ", ")+") "))
		return append(append(append(head, c.text(at, values)...), sqlPart(over)), c.text(values, values+len("VALUES"))...)
	}
	return append(append(c.text(start, values), sqlPart(over)), c.text(values, values+len("VALUES"))...)
}

func sqlPart(s string) plan.Part { return plan.Part{Kind: plan.SQL, SQL: s} }

// row cuts one row.
func (c *rowCutter) row(r int) (plan.Row, bool) {
	var out plan.Row
	if c.target.table != nil {
		for range c.target.table.keys {
			out.Keys = append(out.Keys, -1)
		}
	}
	comma := true
	if len(c.lists) == 0 {
		out.Text, comma = plan.Text{sqlPart("(")}, false
		if len(c.added) == 0 {
			out.Text = append(out.Text, sqlPart("DEFAULT"))
		}
	} else if !c.given(r, &out) {
		return out, false
	}
	for _, a := range c.added {
		if comma {
			out.Text = append(out.Text, sqlPart(", "))
		}
		comma = true
		switch {
		case len(a.values) > 0:
			out.Text = append(out.Text, plan.Part{Kind: plan.Supplied, Index: a.values[r]})
		case a.key >= 0 || c.awayDefaults[a.column]:
			cell := c.cell(&out, plan.Cell{Text: a.text, As: keyType(a.column), Home: c.awayDefaults[a.column]})
			if a.key >= 0 {
				out.Keys[a.key] = cell
			}
		default:
			out.Text = append(out.Text, a.text...)
		}
	}
	out.Text = append(out.Text, sqlPart(")"))
	return out, true
}

// cell adds a cell to a row.
func (c *rowCutter) cell(row *plan.Row, cell plan.Cell) int {
	c.rows.Cells = append(c.rows.Cells, cell)
	i := len(c.rows.Cells) - 1
	row.Text = append(row.Text, plan.Part{Kind: plan.Held, Index: i})
	return i
}

// given cuts the client's values, up to the bracket that closes them.
func (c *rowCutter) given(r int, out *plan.Row) bool {
	items := c.lists[r].GetList().GetItems()
	commas, at, close := c.tokens.commas[r], c.tokens.rowsStart[r], c.tokens.rowsEnd[r]
	if len(commas) != len(items)-1 {
		c.refuse("Write the statement in another way.", "weft cannot find the values of this statement")
		return false
	}
	for i, v := range items {
		var col *catalog.Column
		if i < len(c.cols) {
			col = c.cols[i]
		}
		start, end := c.tokens.rowsStart[r]+1, close
		if i > 0 {
			start = commas[i-1] + 1
		}
		if i < len(commas) {
			end = commas[i]
		}
		key := c.keyIndex(col)
		held, text, ok := c.holdsBack(r, key, col, v)
		if !ok {
			return false
		}
		if !held && text == nil {
			continue
		}
		out.Text = append(out.Text, c.text(at, start)...)
		if text == nil {
			text = c.text(start, end)
		}
		if held {
			cell := plan.Cell{Text: text, Apart: c.away[v], Home: v.GetSetToDefault() != nil && c.awayDefaults[col]}
			if key >= 0 || cell.Home {
				cell.As = keyType(col)
			}
			if n := c.cell(out, cell); key >= 0 {
				out.Keys[key] = n
			}
		} else {
			out.Text = append(out.Text, text...)
		}
		at = end
	}
	out.Text = append(out.Text, c.text(at, close)...)
	return true
}

// holdsBack reports whether a value becomes a cell, and what is written instead of the client's
// text, if anything.
func (c *rowCutter) holdsBack(r, key int, col *catalog.Column, v *pg.Node) (held bool, instead plan.Text, ok bool) {
	if v.GetSetToDefault() != nil {
		if key >= 0 && c.stored[r].keys[key].known || col == nil {
			return false, nil, true // weft supplies it, or it is a constant
		}
		text, told := c.a.writes().defaultText(col)
		away := c.defaultAway(col)
		switch {
		case key < 0 && !told && !away:
			return false, nil, true
		case len(text) == 0:
			c.refuse("Give the column a value.", "the default of column %q cannot be evaluated before its row is stored", col.Name)
			return false, nil, false
		}
		c.rows.Timed = c.rows.Timed || told
		return key >= 0 || away, text, true
	}
	if c.away[v] {
		return true, nil, true
	}
	return key >= 0 && !c.plainKey(c.stored[r].keys[key], col), nil, true
}

// plainKey reports whether a key's value means the same wherever it is read.
func (c *rowCutter) plainKey(k storedKey, col *catalog.Column) bool {
	if !k.known || len(k.set) != 1 {
		return false
	}
	switch src := k.set[0]; src.Kind {
	case plan.Null, plan.Generated, plan.Constant:
		return true
	case plan.Literal:
		return class(datum.Type(col.Base)) == datum.Int8 && (class(src.Type) == datum.Int8 || src.Type == datum.Unknown)
	case plan.Param:
		t, sure := c.a.params.resolve(src.Index)
		return sure && class(t) == datum.Int8 && class(datum.Type(col.Base)) == datum.Int8
	}
	return false
}

// keyType returns the type as which a key's value is asked for.
func keyType(c *catalog.Column) string {
	switch datum.Type(c.Base) {
	case datum.Text, datum.Varchar:
		return "pg_catalog.text"
	case datum.Bpchar:
		return "pg_catalog.bpchar"
	}
	return c.TypeName
}

// text cuts a part of the client's text.
func (c *rowCutter) text(from, to int) plan.Text {
	var out plan.Text
	sc := wordScanner{text: c.a.client, at: from}
	sc.lit, _ = slices.BinarySearchFunc(c.a.client.literals, from, func(l parser.Literal, at int) int { return int(l.End) - 1 - at })
	copied := from
	flush := func(end int) {
		if copied < end {
			out = append(out, sqlPart(c.a.client.sql[copied:end]))
		}
	}
	edit, _ := slices.BinarySearchFunc(c.edits, from, func(e cutEdit, at int) int { return e.at - at })
	for {
		word, start := sc.next()
		if word == "" || start >= to {
			flush(to)
			return out
		}
		switch {
		case edit < len(c.edits) && c.edits[edit].at <= start:
			flush(start)
			out = append(out, c.edits[edit].parts...)
			copied = c.edits[edit].end
			sc.at = copied
			edit++
		case word == "'":
			flush(start)
			lit, _ := slices.BinarySearchFunc(c.a.client.literals, start, func(l parser.Literal, at int) int { return int(l.Start) - at })
			out = append(out, plan.Part{Kind: plan.Lit, Index: lit})
			c.a.held[lit] = true
			copied = sc.at
		case word[0] == '$' && len(word) > 1 && word[1] >= '0' && word[1] <= '9':
			n, size := 0, 1
			for size < len(word) && word[size] >= '0' && word[size] <= '9' && n <= maxParams {
				n = n*10 + int(word[size]-'0')
				size++
			}
			flush(start)
			out = append(out, plan.Part{Kind: plan.Given, Index: n - 1})
			copied = start + size
			sc.at = copied
		}
	}
}
