package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"
	"google.golang.org/protobuf/proto"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// now() is the time at which a transaction began. In a transaction of several shards each shard has
// its own time, and weft uses the time of the shard that joined first. On that shard a statement
// runs unchanged. On any other shard, a statement that reads the time, or stores it by default, gets
// the time as a constant (plan.Plan.Timed says that it must, and PlanTimed plans how).

// tell notes whether a statement uses the time of its transaction, and plans what one shard then
// runs.
func (ck clock) tell(stmt *pg.Node) {
	verb, returns := verbOf(stmt)
	out := ck.a.out
	if verb == "" || out.Route != plan.Keyed && out.Route != plan.Home && out.Route != plan.Any && out.Route != plan.AnyCopy || !ck.tellsTime(stmt) {
		return
	}
	out.Timed = true
	if ck.a.when != timed || out.Route == plan.Any || out.Route == plan.AnyCopy || out.Across != nil || len(ck.a.conflicts) > 0 {
		return
	}
	if out.Generate != nil {
		return // rows with values that weft supplies are made elsewhere
	}
	node := proto.Clone(stmt).(*pg.Node)
	for _, ins := range insertsIn(node) {
		if !ck.fillDefaults(ins) {
			ck.a.scattered = untimed()
			return
		}
	}
	ck.a.timed = true
	text, err := ck.a.gatherer().render(node)
	if err != nil {
		ck.a.scattered = unwritable(err)
		return
	}
	own := &plan.Own{Text: text, Writes: out.Writes}
	if out.Route == plan.Keyed {
		for _, x := range ck.a.instances {
			in := x.solve(ck.a.gatherer().classesOf(x.scope))
			ck.a.settleInstance(&in)
			own.Instances = append(own.Instances, in)
		}
	}
	out.Across = &plan.Write{Verb: verb, Returns: returns, Shape: own}
	ck.a.gatherer().holds()
}

func untimed() *pgerr.Error {
	return cannot("Name the columns, or give the time as a parameter.",
		"the time of the transaction cannot be put into this statement, on another shard than the one where the transaction began")
}

// verbOf returns the verb of a statement's command tag, and whether the statement returns rows. The
// verb is "" for statements that get no constant time.
func verbOf(stmt *pg.Node) (verb string, returns bool) {
	switch n := stmt.GetNode().(type) {
	case *pg.Node_SelectStmt:
		if intoOf(n.SelectStmt) == nil {
			return "SELECT", true
		}
	case *pg.Node_InsertStmt:
		return "INSERT", len(n.InsertStmt.ReturningList) > 0
	case *pg.Node_UpdateStmt:
		return "UPDATE", len(n.UpdateStmt.ReturningList) > 0
	case *pg.Node_DeleteStmt:
		return "DELETE", len(n.DeleteStmt.ReturningList) > 0
	case *pg.Node_MergeStmt:
		return "MERGE", false
	}
	return "", false
}

// tellsTime reports whether a statement asks for the time of the transaction, or
// stores it by default.
func (ck clock) tellsTime(stmt *pg.Node) bool {
	return ck.asksTime(stmt) || slices.ContainsFunc(insertsIn(stmt), func(ins *pg.InsertStmt) bool {
		rel, _ := ck.a.relation(ins.Relation)
		return rel != nil && !ck.a.temporary(ins.Relation) &&
			slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool { return ck.defaultTells(&c) && ck.leaves(ins, rel, c.Name) })
	})
}

// insertsIn returns the INSERTs of a statement: itself, and those in WITH.
func insertsIn(stmt *pg.Node) []*pg.InsertStmt {
	var out []*pg.InsertStmt
	parser.Walk(stmt, func(m any) bool {
		if ins, ok := m.(*pg.InsertStmt); ok {
			out = append(out, ins)
		}
		return true
	})
	return out
}

// defaultTells reports whether a column's default is the time, or made of it.
func (ck clock) defaultTells(c *catalog.Column) bool {
	found := false
	text := strings.ToLower(c.Default)
	if c.Generated || !slices.ContainsFunc(timeWords, func(word string) bool { return strings.Contains(text, word) }) {
		return false
	}
	if c.Sequence == (catalog.Name{}) {
		ck.a.writes().withDefault(c, func(n *pg.Node) { found = ck.asksTime(n) })
	}
	return found
}

// timeWords are words of which a default that uses the time contains one.
var timeWords = []string{"now", "current_", "localtime", "transaction_timestamp"}

// leaves reports whether an INSERT may leave a column to its default.
func (ck clock) leaves(ins *pg.InsertStmt, rel *catalog.Relation, name string) bool {
	at := -1
	for i, c := range insertColumns(rel, namesOf(ins)) {
		if c != nil && c.Name == name {
			at = i
		}
	}
	sel := ins.SelectStmt.GetSelectStmt()
	switch {
	case at < 0 || sel == nil:
		return true
	case !plainValues(sel):
		return len(ins.Cols) == 0 // the source may have fewer columns
	}
	return slices.ContainsFunc(sel.ValuesLists, func(n *pg.Node) bool {
		items := n.GetList().GetItems()
		return at >= len(items) || items[at].GetSetToDefault() != nil
	})
}

// namesOf returns the columns that an INSERT names.
func namesOf(ins *pg.InsertStmt) []string {
	var out []string
	for _, c := range ins.Cols {
		out = append(out, c.GetResTarget().GetName())
	}
	return out
}

// fillDefaults writes the defaults that tell the time into an INSERT. It returns
// false if there is no place for them.
func (ck clock) fillDefaults(ins *pg.InsertStmt) bool {
	to := ck.a.writes().writable(ins.Relation)
	if to == nil || ck.a.temporary(ins.Relation) {
		return true
	}
	rel := to.shown
	for i := range rel.Columns {
		c := &rel.Columns[i]
		if ck.defaultTells(c) && ck.leaves(ins, rel, c.Name) && !ck.fillDefault(ins, rel, c) {
			return false
		}
	}
	return true
}

// fillSets writes out the defaults that tell the time where SET names them, and reports whether
// there are any.
func (ck clock) fillSets(list []*pg.Node, to *writable) bool {
	filled := false
	var source *pg.Node
	for _, t := range list {
		if m := t.GetResTarget().GetVal().GetMultiAssignRef(); m != nil {
			if m.Colno == 1 {
				source = m.Source
			}
			m.Source = source // the items of a copy have copies of it
		}
		v := setNode(t)
		col := to.updated(t.GetResTarget().GetName())
		if v.GetSetToDefault() == nil || col == nil || !ck.defaultTells(col) {
			continue
		}
		ck.a.writes().withDefault(col, func(n *pg.Node) { v.Node, filled = placeless(n).Node, true })
	}
	return filled
}

func (ck clock) fillDefault(ins *pg.InsertStmt, rel *catalog.Relation, c *catalog.Column) bool {
	value := func() (out *pg.Node) {
		ck.a.writes().withDefault(c, func(n *pg.Node) { out = placeless(n) })
		return out
	}
	sel := ins.SelectStmt.GetSelectStmt()
	if sel == nil { // DEFAULT VALUES
		sel = newSelect()
		sel.ValuesLists = []*pg.Node{{Node: &pg.Node_List{List: &pg.List{}}}}
		ins.SelectStmt = selectNode(sel)
	}
	cols := insertColumns(rel, namesOf(ins))
	at := slices.IndexFunc(cols, func(o *catalog.Column) bool { return o != nil && o.Name == c.Name })
	if !plainValues(sel) {
		if len(ins.Cols) == 0 || sel.Op != pg.SetOperation_SETOP_NONE || len(sel.ValuesLists) > 0 || len(sel.DistinctClause) > 0 || len(sel.GroupClause) > 0 {
			return false
		}
		ins.Cols = append(ins.Cols, columnTarget(c.Name))
		sel.TargetList = append(sel.TargetList, targetOf(value(), ""))
		return true
	}
	lists := sel.ValuesLists
	width := len(lists[0].GetList().GetItems())
	if at < 0 || at >= width {
		if len(ins.Cols) == 0 {
			for _, o := range cols[:min(width, len(cols))] {
				ins.Cols = append(ins.Cols, columnTarget(o.Name))
			}
		}
		ins.Cols = append(ins.Cols, columnTarget(c.Name))
		at = len(ins.Cols) - 1
	}
	for _, n := range lists {
		list := n.GetList()
		switch {
		case len(list.Items) == at:
			list.Items = append(list.Items, value())
		case at < len(list.Items) && list.Items[at].GetSetToDefault() != nil:
			list.Items[at] = value()
		case at > len(list.Items):
			return false
		}
	}
	return true
}
