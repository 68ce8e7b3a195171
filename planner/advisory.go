package planner

import (
	"weft/catalog"
	"weft/parser"
)

// Advisory locks are taken on the home shard, so that all sessions exclude each other. A function
// that took one inside another shard would lock only there.

const lockHint = "Advisory locks are on the home shard. Take the lock in a statement of its own before: SELECT pg_advisory_xact_lock(…)."

// locksInTrigger refuses a trigger on the shard of its row that takes advisory locks.
func (re reach) locksInTrigger(on string, t *table, f *catalog.Function) bool {
	if t == nil || !f.Reach.Locks {
		return false
	}
	re.a.unsupported(lockHint, "trigger function %q of %q takes advisory locks, and runs on the shard of its row", f.Name.Name, on)
	return true
}

// locksWhereCalled notes functions that take advisory locks: such a function must be called on the
// home shard.
func (l *level) locksWhereCalled(users []*catalog.Function) {
	for _, f := range users {
		if f.Reach.Locks {
			l.a.touched.homely = append(l.a.touched.homely, f.Name.Name)
			l.a.touched.advisory = true
		}
	}
}

// locksInPolicies refuses a statement over a table whose policies take advisory locks: they would
// run on the shards of the rows.
func (re reach) locksInPolicies(t *table) {
	if re.a.env.Schema == nil {
		return
	}
	rel := re.a.env.Schema.Relation(t.name())
	if rel == nil {
		return
	}
	for i := range rel.Policies {
		if p := &rel.Policies[i]; p.Calls.Locks {
			re.a.unsupported(lockHint, "policy %q of %q takes advisory locks, and runs on the shards of the rows", p.Name, rel.Name.Name)
		}
	}
}

// locksInStored refuses a write to a table whose defaults, checks and the like take advisory locks:
// they would run where rows are stored.
func (re reach) locksInStored(rel *catalog.Relation) {
	for i := range rel.Runs {
		if run := &rel.Runs[i]; run.Locks && run.Kind != catalog.RunTrigger {
			re.a.unsupported(lockHint, "%s of %q takes advisory locks, and runs on the shards of the rows", run, rel.Name.Name)
		}
	}
}

// locksInNames refuses a statement over sharded tables whose operators or casts take advisory
// locks: they would run on the shards of the rows.
func (re reach) locksInNames() {
	if re.a.env.Schema == nil || len(re.a.touched.sharded) == 0 || re.a.text.tree == nil {
		return
	}
	for _, c := range re.a.env.Schema.Casts() {
		if c.Locks {
			re.a.unsupported("Drop it: any statement might run it, on any shard.", "%s takes advisory locks, which are on the home shard", c.What)
		}
	}
	for _, s := range re.a.text.tree.Statements {
		parser.Walk(s.Stmt, func(m any) bool {
			for _, name := range catalog.OperatorNames(m) {
				for _, o := range re.a.env.Schema.Operators(name) {
					if o.Locks {
						re.a.unsupported(lockHint, "operator %s takes advisory locks, and runs on the shards of the rows", name)
					}
				}
			}
			return true
		})
	}
}
