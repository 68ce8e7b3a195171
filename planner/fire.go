package planner

import (
	"slices"
	"strconv"
	"strings"

	"weft/catalog"
	"weft/pgerr"
)

// A trigger FOR EACH STATEMENT runs once, and its transition table has all rows that the statement
// has changed. If several shards run the statement, each would run the trigger, over a part of the
// rows. So such a statement is for one shard, unless the client says otherwise. On reference tables
// each copy runs the trigger over all rows, which keeps copies alike.

// firing notes the triggers FOR EACH STATEMENT that writing to a target sets off. c are the columns
// that an UPDATE sets.
func (mo modification) firing(tg *target, event catalog.Events, c *changes) {
	rel, t := tg.rel, tg.table
	if tg.through != nil {
		rel, t = tg.through.base, tg.through.own
		if c != nil {
			c = tg.through.changes(c)
		}
	}
	if rel == nil || t == nil || t.Reference {
		return
	}
	var columns []string
	if c != nil {
		columns = c.columns
	}
	mo.l.a.reach().fires(rel, event, columns)
}

// fires notes the triggers FOR EACH STATEMENT of a sharded table that an event sets off.
func (re reach) fires(rel *catalog.Relation, event catalog.Events, columns []string) {
	for i := range rel.Triggers {
		if tr := &rel.Triggers[i]; re.a.out.Fires == nil && tr.Statement&event != 0 && (event != catalog.OnUpdate || concerns(rel, tr, columns)) {
			re.a.out.Fires = pgerr.New(pgerr.FeatureNotSupported, "trigger %q of %q runs once for a statement, and this one is carried out on several shards", tr.Name, rel.Name.Name).
				WithDetail("Each shard would run it by itself, and over its own rows.").
				WithHint("Keep the statement to one shard by a condition on the shard key, use a trigger FOR EACH ROW, or SET weft.statement_triggers = 'per_shard' if once on each shard is right.")
		}
	}
}

// concerns reports whether an UPDATE of these columns may set off a trigger: UPDATE OF lists the
// columns, and a generated column follows others.
func concerns(rel *catalog.Relation, tr *catalog.Trigger, columns []string) bool {
	if tr.Of == "" {
		return true
	}
	of := strings.Fields(tr.Of)
	return slices.ContainsFunc(rel.Columns, func(c catalog.Column) bool {
		return slices.Contains(of, strconv.Itoa(int(c.Num))) && (c.Generated || slices.Contains(columns, c.Name))
	})
}
