package planner

import (
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/plan"
	"weft/quote"
)

// generator plans the values that weft supplies to the rows of an INSERT: values of sequences,
// since every shard has sequences of its own, and random keys, which must be known before a shard
// is chosen.
type generator struct {
	*writer
	given   int // values per row in the text
	columns []*catalog.Column
	edits   []textEdit
	values  [][]int // by row: the indexes of the values for columns
	// overrides is set once OVERRIDING SYSTEM VALUE has been planned.
	overrides bool
	// places are the positions in the text; nil until they have been looked for.
	places *insertTokens
}

// textEdit is an edit at an offset of the text.
type textEdit struct {
	at, remove int
	text       string
	value      int
}

func (w *writer) generator(given int) *generator {
	w.gen = &generator{writer: w, given: given}
	return w.gen
}

// generates reports whether weft supplies the values of a column that the
// INSERT leaves out.
func (g *generator) generates(c *catalog.Column) bool {
	return drawsFrom(c) || randomUUID(c) && isKey(g.target.table, c.Name)
}

// replaces reports whether v, given for column c, is to be replaced by a
// generated value: DEFAULT, nextval of the column's own sequence, a random uuid.
func (g *generator) replaces(c *catalog.Column, v *pg.Node) bool {
	switch {
	case c.Base == uint32(datum.UUID) && isKey(g.target.table, c.Name) && g.isRandom(v):
		return true
	case !g.generates(c):
		return false
	}
	return v.GetSetToDefault() != nil || drawsFrom(c) && g.isNextval(c, v)
}

// isRandom reports whether v calls a function that makes a random uuid.
func (g *generator) isRandom(v *pg.Node) bool {
	f := v.GetFuncCall()
	if f == nil || len(f.Args) > 0 {
		return false
	}
	names := nameList(f.Funcname)
	name := names[len(names)-1]
	return name == "gen_random_uuid" && len(g.a.reach().userFunctions("", name)) == 0 || name == "uuid_generate_v4"
}

// isNextval reports whether v is nextval('…') of c's sequence.
func (g *generator) isNextval(c *catalog.Column, v *pg.Node) bool {
	f := v.GetFuncCall()
	if f == nil || len(f.Args) != 1 {
		return false
	}
	names := nameList(f.Funcname)
	if names[len(names)-1] != "nextval" || len(names) == 2 && names[0] != "pg_catalog" {
		return false
	}
	arg := f.Args[0]
	if t := arg.GetTypeCast(); t != nil {
		arg = t.Arg
	}
	name := arg.GetAConst().GetSval().GetSval()
	if name == "" {
		return false
	}
	g.a.out.Exact = true
	schema, rel, ok := regclass(name)
	if !ok {
		return false
	}
	if schema == "" {
		r := g.a.find("", rel)
		return r != nil && r.Name == c.Sequence
	}
	return catalog.Name{Schema: schema, Name: rel} == c.Sequence
}

// value adds a value to generate and returns its index.
func (g *generator) value(c *catalog.Column) int {
	if g.a.out.Generate == nil {
		g.a.out.Generate = &plan.Generate{}
	}
	v := plan.Value{Type: c.TypeName}
	if drawsFrom(c) {
		v.Sequence, v.Identity = c.Sequence.SQL(), c.Identity != 0
	}
	if ids := g.target.table.IDs; ids != nil && ids.Column == c.Name && c.Base == uint32(datum.Int8) {
		// The row is the instance that was made last.
		v.Routed, v.Row = ids, len(g.a.instances)-1
	}
	g.a.out.Generate.Values = append(g.a.out.Generate.Values, v)
	return len(g.a.out.Generate.Values) - 1
}

func generated(c *catalog.Column, i int) storedKey {
	return storedKey{known: true, set: plan.Set{{Kind: plan.Generated, Index: i, Type: datum.Type(c.Base)}}}
}

// replace plans a generated value in the place of v.
func (g *generator) replace(_ int, c *catalog.Column, v *pg.Node) storedKey {
	i := g.value(c)
	var start, end int
	if d := v.GetSetToDefault(); d != nil {
		start = g.a.text.tree.Offset(d.Location)
		end = start + len("DEFAULT")
		if end > len(g.a.text.sql) || !strings.EqualFold(g.a.text.sql[start:end], "default") {
			g.a.unsupported("Leave the column out.", "weft cannot find DEFAULT in this statement")
			return storedKey{}
		}
	} else {
		g.a.out.Generate.Values[i].Identity = false // the client calls nextval
		if start, end = g.callAt(v.GetFuncCall()); end < 0 {
			return storedKey{}
		}
	}
	g.edits = append(g.edits, textEdit{at: start, remove: end - start, value: i})
	switch {
	case g.ignores(c):
		g.countSupplied()
	case c.Identity == 'a':
		g.overriding()
	}
	return generated(c, i)
}

// callAt returns the position of a call. If it is not found, the statement is refused, and the end is negative.
func (g *generator) callAt(f *pg.FuncCall) (start, end int) {
	start = g.a.text.tree.Offset(f.Location)
	if end = g.closing(start); end < 0 {
		g.a.unsupported("Draw the value in a statement before.", "weft cannot find the end of a call in this statement")
		return start, end
	}
	if text := g.a.text.sql[start:end]; strings.Contains(text, "--") || strings.Contains(text, "/*") {
		g.a.out.Exact = true // the number of removed bytes holds for this text, not for all of its Norm
	}
	return start, end
}

// forbids refuses a value for a column that is GENERATED ALWAYS, as PostgreSQL does. The shards
// would accept it, because weft lets its own values for other rows through.
func (g *generator) forbids(c *catalog.Column, v *pg.Node) bool {
	if c.Identity != 'a' || v.GetSetToDefault() != nil || g.stmt.Override != pg.OverridingKind_OVERRIDING_NOT_SET {
		return false
	}
	g.a.refuse("428C9", "Use OVERRIDING SYSTEM VALUE to override.", "cannot insert a non-DEFAULT value into column %q", c.Name)
	_ = g.a.out.Refusal.WithDetail("Column %q is an identity column defined as GENERATED ALWAYS.", c.Name)
	return true
}

// ignores reports whether the values given for a column do not count.
func (g *generator) ignores(c *catalog.Column) bool {
	return c.Identity != 0 && g.stmt.Override == pg.OverridingKind_OVERRIDING_USER_VALUE
}

// replaceCell plans a generated value in the place of the i-th value of row r, which OVERRIDING
// USER VALUE ignores.
func (g *generator) replaceCell(r, i int, c *catalog.Column) storedKey {
	t := g.countSupplied()
	if t.user < 0 || r >= len(t.rowsStart) || r >= len(t.rowsEnd) || i > len(t.commas[r]) {
		g.a.unsupported("Leave OVERRIDING USER VALUE out.", "weft cannot find the values of this statement")
		return storedKey{}
	}
	start, end := t.rowsStart[r]+1, t.rowsEnd[r]
	if i > 0 {
		start = t.commas[r][i-1] + 1
	}
	if i < len(t.commas[r]) {
		end = t.commas[r][i]
	}
	g.a.out.Exact = true // there may be literals in it
	v := g.value(c)
	g.edits = append(g.edits, textEdit{at: start, remove: end - start, value: v})
	return generated(c, v)
}

// countSupplied makes OVERRIDING USER VALUE let weft's values through, and returns the positions in
// the text.
func (g *generator) countSupplied() *insertTokens {
	if g.places == nil {
		t := g.tokens()
		g.places = &t
		if t.user >= 0 {
			g.edits = append(g.edits, textEdit{at: t.user, remove: len("USER"), text: "SYSTEM", value: -1})
		}
	}
	return g.places
}

// add plans a generated value for a column that row r leaves out.
func (g *generator) add(r int, c *catalog.Column) storedKey {
	i := g.value(c)
	if r == 0 {
		g.columns = append(g.columns, c)
		g.a.out.Generate.Columns = append(g.a.out.Generate.Columns, c.Name)
	}
	for len(g.values) <= r {
		g.values = append(g.values, nil)
	}
	g.values[r] = append(g.values[r], i)
	return generated(c, i)
}

// overriding lets values through to a column that is GENERATED ALWAYS.
func (g *generator) overriding() {
	if g.overrides || g.stmt.Override != pg.OverridingKind_OVERRIDING_NOT_SET {
		return
	}
	g.overrides = true
	if at := g.valuesAt(); at >= 0 {
		g.edits = append(g.edits, textEdit{at: at, text: "OVERRIDING SYSTEM VALUE ", value: -1})
		return
	}
	g.a.unsupported("Write OVERRIDING SYSTEM VALUE before VALUES.", "weft cannot find VALUES in this statement")
}

// finish plans the edits that add the columns.
func (g *generator) finish(lists []*pg.Node) {
	if len(g.columns) > 0 {
		g.addColumns(lists)
		if g.stmt.Override == pg.OverridingKind_OVERRIDING_USER_VALUE {
			g.countSupplied()
		}
	}
	g.a.edits = append(g.a.edits, g.edits...)
}

// addColumns plans the edits for columns that the INSERT does not name.
func (g *generator) addColumns(lists []*pg.Node) {
	tokens := g.tokens()
	values := tokens.valuesKeyword
	if values < 0 {
		g.a.unsupported("Name the columns in the INSERT.", "weft cannot find VALUES in this statement")
		return
	}
	always := false
	var names []string
	for _, c := range g.columns {
		names = append(names, quote.Ident(c.Name))
		always = always || c.Identity == 'a'
	}
	over := ""
	if always && !g.overrides && g.stmt.Override == pg.OverridingKind_OVERRIDING_NOT_SET {
		over = "OVERRIDING SYSTEM VALUE "
	}
	switch {
	case tokens.defaultValues >= 0: // DEFAULT VALUES
		end := values + len("VALUES")
		g.edits = append(g.edits,
			textEdit{at: tokens.defaultValues, remove: len("DEFAULT"), text: "(" + strings.Join(names, ", ") + ") " + over, value: -1},
			textEdit{at: end, text: " (", value: -1})
		g.fill(end, g.values[0], false)
		g.edits = append(g.edits, textEdit{at: end, text: ")", value: -1})
		return
	case g.listed:
		g.edits = append(g.edits, textEdit{at: tokens.columnsEnd, text: ", " + strings.Join(names, ", "), value: -1})
	default:
		var all []string
		for _, c := range g.cols[:min(g.given, len(g.cols))] {
			all = append(all, quote.Ident(c.Name))
		}
		at := tokens.valuesKeyword
		if tokens.overriding >= 0 {
			at = tokens.overriding
		}
		g.edits = append(g.edits, textEdit{at: at, text: "(" + strings.Join(append(all, names...), ", ") + ") ", value: -1})
	}
	if over != "" {
		g.edits = append(g.edits, textEdit{at: values, text: over, value: -1})
	}
	if len(tokens.rowsEnd) != len(lists) {
		g.a.unsupported("Send the rows in statements of their own.", "weft cannot find the rows of this statement")
		return
	}
	for r := range lists {
		g.fill(tokens.rowsEnd[r], g.values[r], true)
	}
}

// fill adds values at the end of a row.
func (g *generator) fill(at int, values []int, comma bool) {
	for i, v := range values {
		if comma || i > 0 {
			g.edits = append(g.edits, textEdit{at: at, text: ", ", value: -1})
		}
		g.edits = append(g.edits, textEdit{at: at, value: v})
	}
}

// regclass splits the text of a qualified name.
func regclass(s string) (schema, name string, ok bool) {
	var parts []string
	for s != "" {
		if s[0] == '"' {
			end := 1
			var b strings.Builder
			for {
				i := strings.IndexByte(s[end:], '"')
				if i < 0 {
					return "", "", false
				}
				b.WriteString(s[end : end+i])
				end += i + 1
				if end < len(s) && s[end] == '"' {
					b.WriteByte('"')
					end++
					continue
				}
				break
			}
			parts = append(parts, b.String())
			s = s[end:]
		} else {
			i := strings.IndexByte(s, '.')
			if i < 0 {
				i = len(s)
			}
			parts = append(parts, strings.ToLower(strings.TrimSpace(s[:i])))
			s = s[i:]
		}
		if s != "" {
			if s[0] != '.' || len(s) == 1 {
				return "", "", false
			}
			s = s[1:]
		}
	}
	switch len(parts) {
	case 1:
		return "", parts[0], parts[0] != ""
	case 2:
		return parts[0], parts[1], true
	}
	return "", "", false
}
