package planner

import (
	"encoding/binary"
	"fmt"
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/copydata"
	"weft/datum"
	"weft/directory"
	"weft/parser"
	"weft/plan"
)

// copy is the route of COPY.
func (cp copying) copy(n *pg.CopyStmt) plan.Route {
	if n.Relation == nil {
		return cp.copyQuery(n)
	}
	cp.a.out.Writes = n.IsFrom
	cp.a.top().expression(n.WhereClause)
	rel := cp.a.commands().named(rangeVar(n.Relation))
	t := cp.a.declared(rel)
	if rel == nil || t == nil {
		if n.IsFrom && rel != nil {
			cp.a.top().modification().homeTarget(rel, nil)
			cp.a.reach().defaulting(rel, given(n.Attlist))
		} else {
			cp.a.top().modification().policed(rel, nil, false)
		}
		cp.a.reach().called()
		return cp.a.commands().refusedOr(plan.Home)
	}
	cp.a.touch(t, t.Name)
	cp.a.top().modification().policed(rel, t, n.IsFrom)
	switch {
	case len(cp.a.touched.waits) > 0:
		cp.a.commands().wait()
	case n.IsFrom && onServer(n):
		cp.a.unsupported("Use COPY … FROM STDIN, as psql's \\copy does.", "COPY into table %q, which is on all shards, from a file of a server is not supported", t.Name)
	case n.IsFrom:
		return cp.copyFrom(n, rel, t)
	case !t.Reference:
		return cp.copyTable(n)
	}
	return cp.a.commands().refusedOr(plan.AnyCopy)
}

// onServer reports whether a COPY reads or writes a file or a program on the server.
func onServer(n *pg.CopyStmt) bool { return n.Filename != "" || n.IsProgram }

// copyQuery returns the route of COPY (query) TO. If no single shard can answer the query, it is
// gathered like any other, and weft writes its rows as COPY data.
func (cp copying) copyQuery(n *pg.CopyStmt) plan.Route {
	r := cp.a.commands().nested(n.Query, "COPY")
	if cp.a.refused() {
		return r
	}
	w, follows := cp.a.out.Write(), cp.a.out.Lookups || cp.a.writes().strays(n.Query)
	_, returns := verbOf(n.Query)
	switch {
	case w != nil && !w.Returns, w == nil && !returns:
		cp.a.out.Across = nil
		return plan.Home // the home shard says that there is nothing to copy
	case w != nil && !follows && r != plan.Gathered && len(cp.a.text.tree.Statements) > 1, w == nil && !follows && cp.a.out.Gather() == nil:
		if n.Query.GetSelectStmt() == nil {
			cp.a.out.Across = nil
		}
		return r
	}
	cp.a.out.Across, cp.a.out.Exact = nil, true
	if (w != nil || follows) && cp.a.out.Generate != nil {
		r, cp.a.out.Generate, cp.a.edits = plan.Gathered, nil, nil // the query is planned by itself, and draws values then
	}
	o := cp.copyOptions(n, nil)
	switch {
	case len(cp.a.text.tree.Statements) > 1:
		cp.a.scattered = nil
		cp.a.unsupported("Send it as a statement of its own.", "COPY from several shards cannot be part of a text with several statements")
		return plan.Refused
	case onServer(n):
		cp.a.unsupported("Use COPY … TO STDOUT, as psql's \\copy does.", "COPY from several shards to a file of a server is not supported")
		return plan.Refused
	}
	cp.a.timed = false
	sql, err := cp.spellOut(n.Query)
	var check string
	if err == nil && o.unclear != "" {
		check = cp.a.client.sql // the server refuses it before there is any row, or weft does after that
	} else if err == nil && (w != nil || follows) {
		check, err = cp.spellOut(optionsOf(n))
	} else if err == nil {
		check, err = cp.spellOut(emptied(n))
	}
	if err != nil {
		cp.a.out.Refusal, cp.a.out.Route = unwritable(err), plan.Refused
		return plan.Refused
	}
	c := &plan.Copy{Query: sql, Writes: w != nil || follows, Check: check, Format: o.format, Encoding: o.encoding, Unclear: o.unclear}
	if force := o.quoted; len(force) > 0 {
		// The columns are known when the query has been described.
		c.Columns = force
	}
	cp.a.out.Across = c
	return r
}

// emptied returns the same COPY without a row.
func emptied(n *pg.CopyStmt) *pg.Node {
	sel := newSelect()
	sel.TargetList = []*pg.Node{targetOf(pg.MakeColumnRefNode([]*pg.Node{pg.MakeAStarNode()}, -1), "")}
	sel.FromClause = []*pg.Node{{Node: &pg.Node_RangeSubselect{RangeSubselect: &pg.RangeSubselect{
		Subquery: proto.Clone(n.Query).(*pg.Node), Alias: &pg.Alias{Aliasname: "q"},
	}}}}
	return copyOf(n, sel)
}

// optionsOf returns a COPY of nothing with the same options. Only FORCE_QUOTE depends on what is
// copied.
func optionsOf(n *pg.CopyStmt) *pg.Node {
	out := proto.Clone(n).(*pg.CopyStmt)
	for _, o := range out.Options {
		if d := o.GetDefElem(); d.GetDefname() == "force_quote" { // still an error without the format CSV
			d.Arg = &pg.Node{Node: &pg.Node_AStar{AStar: &pg.A_Star{}}}
		}
	}
	return copyOf(out, newSelect())
}

// copyOf returns the same COPY of another query, of which no row is copied.
func copyOf(n *pg.CopyStmt, sel *pg.SelectStmt) *pg.Node {
	out := proto.Clone(n).(*pg.CopyStmt)
	plainOptions(out.Options)
	sel.LimitCount, sel.LimitOption = pg.MakeAConstIntNode(0, -1), pg.LimitOption_LIMIT_OPTION_COUNT
	out.Query = selectNode(sel)
	return &pg.Node{Node: &pg.Node_CopyStmt{CopyStmt: out}}
}

// copyTable returns the route of COPY … TO of a sharded table: that of its rows.
func (cp copying) copyTable(n *pg.CopyStmt) plan.Route {
	rel := cp.a.commands().named(rangeVar(n.Relation))
	if rel.Kind == catalog.PartitionedTable {
		return plan.Home // the home shard refuses it
	}
	sel := &pg.SelectStmt{
		LimitOption: pg.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg.SetOperation_SETOP_NONE,
	}
	from := proto.Clone(n.Relation).(*pg.RangeVar)
	from.Inh = false
	sel.FromClause = []*pg.Node{rangeNode(from)}
	for _, name := range nameList(n.Attlist) {
		if c := findColumn(rel, name); c == nil || c.Generated {
			cp.a.out.Writes = true
			return plan.Home // the home shard says that it cannot be copied
		}
		sel.TargetList = append(sel.TargetList, targetOf(nameNode(name), ""))
	}
	if len(sel.TargetList) == 0 {
		for i := range rel.Columns {
			if c := &rel.Columns[i]; !c.Generated {
				sel.TargetList = append(sel.TargetList, targetOf(nameNode(c.Name), ""))
			}
		}
	}
	query := proto.Clone(n).(*pg.CopyStmt)
	query.Relation, query.Attlist, query.Query = nil, nil, selectOf(sel)
	return cp.copyQuery(query)
}

// copyFrom is the route of COPY FROM STDIN into a declared table.
func (cp copying) copyFrom(n *pg.CopyStmt, rel *catalog.Relation, t *table) plan.Route {
	l := cp.a.top()
	l.modification().written(rel, t, nil)
	if !t.Reference {
		l.a.reach().fires(rel, catalog.OnInsert, nil)
	}
	l.a.reach().defaulting(rel, given(n.Attlist))
	cp.a.writes().follows(rel)
	if t.Reference && len(rel.Triggers) > 0 {
		cp.a.unsupported("Use INSERT.", "COPY into reference table %q, which has triggers, could leave its copies different", t.Name)
	}
	if len(cp.a.text.tree.Statements) > 1 {
		cp.a.unsupported("Send it as a statement of its own.", "COPY into table %q, which is on all shards, cannot be part of a text with several statements", t.Name)
	}
	if rel.Kind != catalog.Table && rel.Kind != catalog.PartitionedTable {
		return cp.a.commands().refusedOr(plan.Home) // the home shard says so
	}
	if cp.a.refused() {
		return plan.Refused
	}
	cp.a.out.Exact = true
	c := &plan.Copy{Table: &t.Table, Relation: rel.Name.Name}
	columns, unclear := copyColumns(rel, nameList(n.Attlist))
	for _, col := range columns {
		c.Columns = append(c.Columns, col.Name)
	}
	o := cp.copyOptions(n, c.Columns)
	c.Format, c.Encoding, c.Unclear = o.format, o.encoding, o.unclear
	if unclear != "" {
		c.Unclear = unclear
	}
	cp.a.out.Across = c
	if c.Unclear == "" {
		l.modification().supplied(c, rel, t, n)
		l.modification().copyText(c, n)
		c.Types = binaryTypes(&c.Format, columns)
	}
	if cp.a.decide() == plan.Refused {
		return plan.Refused
	}
	return plan.Gathered
}

// copyColumns returns the columns of the data. The server reports what is wrong with a list of
// names.
func copyColumns(rel *catalog.Relation, names []string) (out []*catalog.Column, unclear string) {
	if len(names) == 0 {
		for i := range rel.Columns {
			if c := &rel.Columns[i]; !c.Generated {
				out = append(out, c)
			}
		}
		return out, ""
	}
	for i, name := range names {
		c := findColumn(rel, name)
		if c == nil || c.Generated || slices.Contains(names[:i], name) {
			return nil, fmt.Sprintf("column %q", name)
		}
		out = append(out, c)
	}
	return out, ""
}

// supplied finds where the key of a row comes from, and the values that weft adds to rows because
// each shard would compute another one.
func (mo modification) supplied(c *plan.Copy, rel *catalog.Relation, t *table, n *pg.CopyStmt) {
	c.Keys = make([]plan.CopyKey, len(t.keys))
	for i := range rel.Columns {
		col := &rel.Columns[i]
		key := slices.IndexFunc(t.keys, func(k directory.Column) bool { return k.Name == col.Name })
		k := plan.CopyKey{Field: slices.Index(c.Columns, col.Name), Supply: -1}
		switch {
		case k.Field >= 0:
		case col.Generated:
			if key >= 0 {
				mo.l.a.unsupported("Use INSERT, or leave the column to the client.", "COPY cannot compute the shard key %q of %q", col.Name, t.Name)
			}
		case mo.supplies(c, col, t.Reference, key >= 0):
			k.Supply = len(c.Supply) - 1
		case key >= 0:
			known := mo.l.a.writes().defaultKey(col)
			if !known.known {
				mo.l.a.unsupported("Give the column in the data.", "COPY cannot tell the shard key %q of %q: its default is %s", col.Name, t.Name, col.Default)
				return
			}
			k.Source = known.set[0]
		}
		if key >= 0 {
			c.Keys[key] = k
		}
	}
	if t.Reference {
		c.Keys = nil
		if n.WhereClause != nil && mo.l.a.copying().steadiness(n.WhereClause) == 'v' {
			mo.l.a.unsupported("Leave volatile functions out of WHERE.", "COPY … WHERE could take other rows into each copy of reference table %q", t.Name)
		}
	}
}

// supplies adds a column to those that weft supplies, if weft must.
func (mo modification) supplies(c *plan.Copy, col *catalog.Column, reference, key bool) bool {
	s := plan.Supply{Column: col.Name, Type: col.TypeName}
	switch datum.Type(col.Base) {
	case datum.Int2:
		s.Size = 2
	case datum.Int4:
		s.Size = 4
	case datum.Int8:
		s.Size = 8
	}
	switch {
	case drawsFrom(col):
		s.Sequence, s.Identity = col.Sequence.SQL(), col.Identity != 0
		if ids := c.Table.IDs; ids != nil && ids.Column == col.Name && s.Size == 8 {
			s.Routed = ids
		}
	case randomUUID(col) && (key || reference) && datum.Type(col.Base) == datum.UUID:
	case col.Default == "":
		return false
	default:
		steady := byte('i')
		mo.l.a.writes().withDefault(col, func(n *pg.Node) {
			steady = mo.l.a.copying().steadiness(n)
			(&level{a: mo.l.a, scope: &scope{}}).expression(n)
		})
		if steady == 'v' && reference {
			mo.l.a.unsupported("Give the column in the data.", "the default of column %q would have another value in each copy of reference table %q", col.Name, c.Relation)
		}
		if steady != 's' {
			return false
		}
		s.Expr = col.Default
	}
	c.Supply = append(c.Supply, s)
	return true
}

// steadiness returns how an expression's value may change: i not at all, s from one statement to
// the next, v at any time.
func (cp copying) steadiness(n *pg.Node) byte {
	worst := byte('i')
	note := func(v byte) {
		if v == 'v' || v == 's' && worst == 'i' {
			worst = v
		}
	}
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.SQLValueFunction:
			note('s')
		case *pg.FuncCall:
			names := nameList(m.Funcname)
			schema := ""
			if len(names) > 1 {
				schema = names[0]
			}
			users := cp.a.reach().userFunctions(schema, names[len(names)-1])
			for _, f := range users {
				note(f.Volatility)
			}
			if len(users) == 0 {
				note(cp.a.reach().volatility(names[len(names)-1]))
			}
		case *pg.SubLink:
			note('v')
		}
		return true
	})
	return worst
}

// copyText writes the COPY that the shards run: without options that concern the client's data
// alone, with the columns that weft supplies.
func (mo modification) copyText(c *plan.Copy, n *pg.CopyStmt) {
	mo.l.a.timed = n.WhereClause != nil && mo.l.a.clock().asksTime(n.WhereClause)
	if len(c.Supply) == 0 && c.Format.Header == copydata.NoHeader && !mo.l.a.timed {
		c.Text = plan.Text{{SQL: mo.l.a.client.sql}} // the text of the client
		return
	}
	n = proto.Clone(n).(*pg.CopyStmt)
	plainOptions(n.Options)
	n.Options = slices.DeleteFunc(n.Options, func(o *pg.Node) bool { return o.GetDefElem().GetDefname() == "header" })
	if len(c.Supply) > 0 {
		n.Attlist = nil
		for _, s := range c.Supply {
			n.Attlist = append(n.Attlist, pg.MakeStrNode(s.Column))
		}
		for _, name := range c.Columns {
			n.Attlist = append(n.Attlist, pg.MakeStrNode(name))
		}
	}
	var err error
	c.Text, err = mo.l.a.gatherer().render(&pg.Node{Node: &pg.Node_CopyStmt{CopyStmt: n}})
	mo.l.a.timed = false
	if err != nil {
		mo.l.a.out.Refusal, mo.l.a.out.Route = unwritable(err), plan.Refused
	}
}

// binaryTypes notes the types of binary fields that may contain OIDs, which differ between shards.
func binaryTypes(f *copydata.Format, columns []*catalog.Column) []byte {
	own := func(c *catalog.Column) bool { return datum.Type(c.Base) >= firstUserType && !c.Enum }
	if f.Kind != copydata.Binary || !slices.ContainsFunc(columns, own) {
		return nil
	}
	types := binary.BigEndian.AppendUint16(nil, uint16(len(columns)))
	for _, c := range columns {
		types = binary.BigEndian.AppendUint32(types, uint32(c.Base))
	}
	return types
}

// spellOut writes a statement as SQL, with the literals of this very text.
func (cp copying) spellOut(n *pg.Node) (string, error) {
	t, err := cp.a.gatherer().render(n)
	if err != nil {
		return "", err
	}
	return string(t.Append(nil, &plan.Fill{Literal: func(dst []byte, i int) []byte {
		l := cp.a.client.literals[i]
		return append(dst, cp.a.client.sql[l.Start:l.End]...)
	}})), nil
}
