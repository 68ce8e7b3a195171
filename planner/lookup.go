package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/datum"
	"weft/plan"
	"weft/vindex"
)

// follows notes that rows of a table are changed. If the table has lookups, or the change may reach
// a table that has, the lookups must be brought up to date after the statement.
func (wr writes) follows(rel *catalog.Relation) {
	if wr.a.env.Schema != nil && len(wr.a.env.Schema.LookedUp()) > 0 && wr.reachesLookups(rel, nil) {
		wr.a.out.Lookups = true
	}
}

// reachesLookups reports whether a change of a table's rows may change rows of a table with
// lookups: its own rows, rows that its foreign keys' actions change, or rows that its triggers
// change.
func (wr writes) reachesLookups(rel *catalog.Relation, seen []*catalog.Relation) bool {
	if rel == nil || slices.Contains(seen, rel) {
		return false
	}
	seen = append(seen, rel)
	for r := rel; r != nil; r = r.Parent {
		if len(r.Lookups) > 0 {
			return true
		}
		for _, fk := range r.Referenced {
			if acts(fk.Definition) && wr.reachesLookups(wr.a.env.Schema.Relation(fk.Table), seen) {
				return true
			}
		}
	}
	for _, t := range rel.Triggers {
		for _, f := range wr.a.env.Schema.Functions(t.Function.Name) {
			if f.Opaque {
				return true
			}
			for _, n := range f.Mentions {
				if wr.reachesLookups(wr.a.env.Schema.Relation(n), seen) {
					return true
				}
			}
		}
	}
	return false
}

// acts reports whether a foreign key changes the referencing rows when the referenced row goes.
func acts(definition string) bool {
	return strings.Contains(definition, " CASCADE") || strings.Contains(definition, " SET NULL") || strings.Contains(definition, " SET DEFAULT")
}

// followed makes a plan.Write for a statement that has none, if lookups must follow the statement or
// it may have to run again. With a Write, the client gets the result only after the lookups have
// followed.
func (wr writes) followed() {
	if len(wr.a.client.tree.Statements) != 1 {
		return
	}
	stmt := wr.a.client.tree.Statements[0].Stmt
	strays := wr.strays(stmt)
	defer func() {
		c := wr.a.out.Copy()
		wr.a.out.Strays = strays && (wr.a.out.Write() != nil || c != nil && c.Writes)
	}()
	if !wr.a.out.Lookups && !strays || wr.a.out.Write() != nil && len(wr.a.conflicts) == 0 {
		return
	}
	wr.onlyRows()
	if wr.conflicting() || wr.a.refused() {
		return
	}
	whole := &plan.Whole{}
	w := &plan.Write{Shape: whole}
	switch len(wr.a.conflicts) {
	case 0:
	case 1:
		whole.Conflict = wr.a.conflicts[0]
	default:
		wr.a.unsupported("Insert the rows one by one, or name the shard key in ON CONFLICT.", "the rows that are in the way may be on other shards")
		return
	}
	if e := wr.a.out.Explain; e != nil && e.Analyze {
		stmt = stmt.GetExplainStmt().Query
	}
	switch n := stmt.GetNode().(type) {
	case *pg.Node_InsertStmt:
		w.Verb, w.Returns = "INSERT", len(n.InsertStmt.ReturningList) > 0
		whole.Updates = n.InsertStmt.GetOnConflictClause().GetAction() == pg.OnConflictAction_ONCONFLICT_UPDATE
	case *pg.Node_UpdateStmt:
		w.Verb, w.Returns = "UPDATE", len(n.UpdateStmt.ReturningList) > 0
	case *pg.Node_DeleteStmt:
		w.Verb, w.Returns = "DELETE", len(n.DeleteStmt.ReturningList) > 0
	case *pg.Node_MergeStmt:
		w.Verb = "MERGE"
	case *pg.Node_SelectStmt:
		// In a WITH that changes rows, the client gets the rows of the query.
		w.Verb, w.Returns = "SELECT", true
	default:
		return
	}
	wr.a.out.Across = w
}

// onlyRows refuses an INSERT that asks lookups for the row in the way and looks for other rows with the key of a new one: it may
// run on the shard of the row in the way.
func (wr writes) onlyRows() {
	rows := wr.a.instances
	other := func(x *instance) bool { return !x.stored || x.table.name() != rows[0].table.name() }
	if len(wr.a.conflicts) == 0 || len(rows) == len(wr.a.conflicts) && !slices.ContainsFunc(rows, other) {
		return
	}
	wr.a.unsupported("Name the shard key in ON CONFLICT, or let the INSERT be a statement of its own, that touches no other rows.",
		"the row of a sharded table that is in the way may be on another shard, and other rows of this statement are not")
}

// conflicting tells the rows of an INSERT over several shards which values ON CONFLICT asks lookups
// for. It reports false if there are none.
func (wr writes) conflicting() bool {
	for _, row := range wr.a.conflicts {
		for _, k := range row {
			for i := range k.Keys {
				if k.Keys[i] = wr.a.settle(k.Keys[i]); len(k.Keys[i]) == 0 {
					wr.a.unsupported("Cast the parameters.", "the types of the parameters that are looked up cannot be told")
					return false
				}
			}
		}
	}
	if wr.a.out.Write() == nil {
		return false
	}
	rows, ok := wr.a.out.Write().Shape.(*plan.Rows)
	if !ok || len(wr.a.conflicts) == 0 || len(rows.Rows) != len(wr.a.conflicts) {
		return false
	}
	for i := range rows.Rows {
		rows.Rows[i].Conflict = wr.a.conflicts[i]
	}
	return true
}

// lookup chooses the lookup that finds the rows of an instance: its own, or that of another
// instance with the same key. Facts are strict: where a row of x counts there is a row of the other
// instance with the same key, and the facts of the other's columns hold. So the row that the lookup
// finds is on the shard of x's row.
func (c *classes) lookup(x *instance) *plan.LookupKey {
	if k := c.ownLookup(x); k != nil {
		return k
	}
	if len(x.table.keys) == 0 {
		return nil
	}
	first := x.cols[x.table.keys[0].Name]
	if first == nil {
		return nil
	}
	for _, s := range c.facts {
		for _, pairs := range [][][2]*column{s.equal, s.same} {
			for _, e := range pairs {
				for _, y := range e {
					if y.instance == nil || y.instance == x || c.find(y) != c.find(first) || !c.sameKey(x, y.instance) {
						continue
					}
					if k := c.ownLookup(y.instance); k != nil {
						return k
					}
				}
			}
		}
	}
	return nil
}

// sameKey reports whether matching rows of two instances are on one shard.
func (c *classes) sameKey(x, y *instance) bool {
	if y.stored || y.table == nil || !colocated(x.table, y.table) {
		return false
	}
	for i := range x.table.keys {
		a, b := x.cols[x.table.keys[i].Name], y.cols[y.table.keys[i].Name]
		if a == nil || b == nil || c.find(a) != c.find(b) {
			return false
		}
	}
	return true
}

// ownLookup returns the lookup of an instance itself.
func (c *classes) ownLookup(x *instance) *plan.LookupKey {
	if x.rel == nil || len(x.rel.Lookups) == 0 {
		return nil
	}
	k, done := c.lookups[x]
	if !done {
		if c.lookups == nil {
			c.lookups = map[*instance]*plan.LookupKey{}
		}
		k = x.lookup(c)
		c.lookups[x] = k
	}
	return k
}

// lookup chooses a lookup of the instance's table, a unique one if possible. All its columns must
// be known. A lookup costs a question to one shard, so it is not used where the key is known.
func (x *instance) lookup(cl *classes) *plan.LookupKey {
	for i := range x.rel.Lookups { // unique ones come first
		l := &x.rel.Lookups[i]
		if !l.Public || l.Shape != "" {
			continue
		}
		k := &plan.LookupKey{Name: l.Name, Unique: l.Unique}
		var columns []vindex.Column
		for _, name := range l.Columns {
			c, rc := x.cols[name], x.rel.Column(name)
			if c == nil || rc == nil {
				break
			}
			sets := cl.sets(c)
			if len(sets) == 0 {
				break
			}
			k.Keys = append(k.Keys, sets)
			columns = append(columns, vindex.Column{Name: name, Column: datum.Column{Type: datum.Type(rc.Base), Mod: rc.Mod}, TypeName: rc.TypeName})
		}
		if len(k.Keys) < len(l.Columns) {
			continue
		}
		v, err := vindex.LookupTable(columns, x.table.entries)
		if err != nil {
			continue
		}
		k.Vindex = v
		return k
	}
	return nil
}

// lookAt gives the parameters of a lookup their types, and drops the lookup where it is useless.
func (wr writes) lookAt(in *plan.Instance) {
	if in.Lookup == nil {
		return
	}
	known := !slices.ContainsFunc(in.Keys, func(sets []plan.Set) bool { return len(sets) == 0 })
	for i := range in.Lookup.Keys {
		in.Lookup.Keys[i] = wr.a.settle(in.Lookup.Keys[i])
		known = known || len(in.Lookup.Keys[i]) == 0
	}
	if known || len(in.IDs) > 0 {
		in.Lookup = nil
		return
	}
	wr.a.out.Looks = true
}

// conflictsElsewhere checks whether the row that conflicts with a new row may be on another shard.
// Values of VALUES can be looked up in advance.
func (mo modification) conflictsElsewhere(tg *target, n *pg.InsertStmt) {
	if tg.rel == nil || tg.table == nil {
		return
	}
	list := arbiters(tg.rel, n.OnConflictClause)
	if len(list) == 0 {
		return
	}
	for _, k := range list {
		if k.Shape == "" || tg.through == nil && (n.OnConflictClause.GetInfer().GetConname() != "" || n.OnConflictClause.Infer == nil || infersDerived(n.OnConflictClause.Infer, k) == inferred) {
			continue
		}
		mo.l.a.unsupported("Name the table itself, and in ON CONFLICT what the index has, in its words: ON CONFLICT "+inference(k)+".",
			"ON CONFLICT cannot look for rows of other shards by the unique index on (%s) of sharded table %q", strings.Join(k.Items, ", "), tg.name)
		return
	}
	if mo.l.a.insert.stepped {
		mo.l.a.unsupported("Name the shard key in ON CONFLICT, or let the INSERT be a statement of its own, without other writes and without subqueries in ON CONFLICT and RETURNING.",
			"the row of sharded table %q that is in the way may be on another shard", tg.name)
		return
	}
	if mo.staysBeside(tg) {
		return
	}
	sel := n.SelectStmt.GetSelectStmt()
	rows := sel.GetValuesLists()
	if mo.l.a.text.stored || sel == nil || !plainValues(sel) || len(rows) > 1 && mo.exchanges(list, n.OnConflictClause) {
		rows = nil
	}
	var names []string
	for _, c := range n.Cols {
		names = append(names, c.GetResTarget().GetName())
	}
	cols := insertColumns(tg.shown, names)
	mo.l.a.conflicts = nil
	for _, row := range rows {
		var keys []*plan.LookupKey
		for _, k := range list {
			var key *plan.LookupKey
			if items := row.GetList().GetItems(); k.Shape != "" {
				key = mo.derivedKey(tg, cols, items, k)
			} else {
				key = mo.storedKey(tg, cols, items, k)
			}
			if key == nil {
				break
			}
			keys = append(keys, key)
		}
		if len(keys) < len(list) {
			break
		}
		mo.l.a.conflicts = append(mo.l.a.conflicts, keys)
	}
	if len(rows) == 0 || len(mo.l.a.conflicts) < len(rows) {
		mo.l.a.conflicts = nil
		mo.l.a.unsupported("Give the columns of the lookup constants or parameters in VALUES, and leave them out of SET; or name the shard key in ON CONFLICT.",
			"the row of sharded table %q that is in the way may be on another shard", tg.name)
	}
}

// staysBeside refuses a table whose triggers or policies look for rows with the key of a new row: ON
// CONFLICT takes the new row to the shard of the row in the way, and they run there.
func (mo modification) staysBeside(tg *target) bool {
	re := mo.l.a.reach()
	sharded := func(n catalog.Name) bool {
		t := mo.l.a.declared(mo.l.a.env.Schema.Relation(n))
		return t != nil && !t.Reference
	}
	const hint = "Name the shard key in ON CONFLICT."
	for _, rel := range withParts(tg.rel) {
		for i := range rel.Triggers {
			tr := &rel.Triggers[i]
			for _, f := range re.userFunctions(tr.Function.Schema, tr.Function.Name) {
				found, _ := re.mentioned(mo.l.a.env.Schema.Fired(rel, tr, f))
				if found == "" || !tr.Changes || tr.Fires&catalog.OnInsert == 0 {
					continue
				}
				mo.l.a.unsupported(hint, "trigger %q of %q touches %q on the shard of the new row, and the row that is in the way may be on another",
					tr.Name, rel.Name.Name, found)
				return true
			}
		}
		if !rel.RowSecurity || mo.exempt(rel) {
			continue
		}
		for i := range rel.Policies {
			p := &rel.Policies[i]
			if mo.concerns(p) && (slices.ContainsFunc(p.Relations, sharded) || re.reached(&p.Calls).sharded != "") {
				mo.l.a.unsupported(hint, "policy %q of %q reads rows on the shard of the new row, and the row that is in the way may be on another",
					p.Name, rel.Name.Name)
				return true
			}
		}
	}
	return false
}

// exchanges reports whether DO UPDATE may give a row a value of a lookup that another row of the
// same statement asks for.
func (mo modification) exchanges(list []*catalog.Lookup, c *pg.OnConflictClause) bool {
	for _, t := range c.TargetList {
		r := t.GetResTarget()
		if !slices.ContainsFunc(list, func(k *catalog.Lookup) bool { return k.About(r.GetName()) }) {
			continue
		}
		if slices.ContainsFunc(list, func(k *catalog.Lookup) bool { return mixes(k, r.GetName()) }) {
			return true
		}
		// The conflicting row has that value already.
		if names := nameList(r.GetVal().GetColumnRef().GetFields()); len(names) != 2 || names[0] != "excluded" || names[1] != r.GetName() {
			return true
		}
	}
	return false
}

// storedKey returns what a row of an INSERT stores in the columns of a lookup, or nil if that is
// unknown.
func (mo modification) storedKey(tg *target, cols []*catalog.Column, items []*pg.Node, k *catalog.Lookup) *plan.LookupKey {
	out := newLookupKey(tg, k)
	var columns []vindex.Column
	for _, name := range k.Columns {
		c := tg.rel.Column(name)
		if c == nil || c.Generated || c.Identity != 0 || c.Sequence.Name != "" {
			return nil
		}
		stored := storedKey{}
		if i := slices.Index(cols, c); i >= 0 && i < len(items) {
			stored = mo.stored(items[i], c)
		} else {
			stored = mo.l.a.writes().defaultKey(c)
		}
		if !stored.known {
			return nil
		}
		out.Keys = append(out.Keys, []plan.Set{stored.set})
		columns = append(columns, vindex.Column{Name: name, Column: datum.Column{Type: datum.Type(c.Base), Mod: c.Mod}, TypeName: c.TypeName})
	}
	var err error
	if out.Vindex, err = vindex.LookupTable(columns, tg.table.entries); err != nil {
		return nil
	}
	return out
}

// newLookupKey returns what a row claims in a lookup, without the values.
func newLookupKey(tg *target, k *catalog.Lookup) *plan.LookupKey {
	out := &plan.LookupKey{Name: k.Name, Unique: true}
	for _, rel := range withParts(tg.rel) {
		out.Triggered = out.Triggered || slices.ContainsFunc(rel.Triggers, func(t catalog.Trigger) bool { return t.Changes })
	}
	return out
}

// arbiters returns the unique lookups that ON CONFLICT asks.
func arbiters(rel *catalog.Relation, c *pg.OnConflictClause) []*catalog.Lookup {
	var out, perhaps []*catalog.Lookup
	exact := false
	for r := rel; r != nil; r = r.Parent {
		for i := range r.Lookups {
			k := &r.Lookups[i]
			switch {
			case !k.Unique:
			case c.Infer == nil, c.Infer.Conname != "" && keepsConstraint(r, k, c.Infer.Conname):
				out = append(out, k)
			case k.Shape == "":
				if c.Infer.Conname == "" && infers(c.Infer, k.Columns) {
					out = append(out, k)
				}
			default:
				switch infersDerived(c.Infer, k) {
				case inferred:
					out, exact = append(out, k), true
				case mayBeInferred:
					perhaps = append(perhaps, k)
				case notInferred:
				}
			}
		}
	}
	if !exact { // an index with other words is another index
		out = append(out, perhaps...)
	}
	return out
}

// keepsConstraint reports whether a lookup keeps a constraint. One lookup keeps all that are on the same columns.
func keepsConstraint(rel *catalog.Relation, k *catalog.Lookup, constraint string) bool {
	return constraint == k.Index || slices.ContainsFunc(rel.Unique, func(u catalog.Unique) bool {
		if k.Shape != "" {
			return u.Name == constraint && u.Derived != nil && u.Derived.Shape == k.Shape
		}
		return u.Name == constraint && !u.Partial && !u.Exclusion && u.Derived == nil && sameNames(u.Columns, k.Columns)
	})
}

// infers reports whether an inference names these columns and nothing else.
func infers(n *pg.InferClause, columns []string) bool {
	var names []string
	for _, e := range n.IndexElems {
		names = append(names, e.GetIndexElem().GetName())
	}
	slices.Sort(names)
	return sameNames(slices.Compact(names), columns)
}

// sameNames reports whether two lists have the same names in them.
func sameNames(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
