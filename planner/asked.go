package planner

import (
	"maps"
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"
)

// asked lists the relations whose declarations decide a plan: whether they have one, and which. A
// declaration of another relation leaves the plan as it is, so a session that waits to run the plan
// need not plan again. Relations are noted by their last names: a relation that is declared
// meanwhile may come before them in the search path.
type asked struct {
	names map[string]bool
	any   bool // every declaration may matter
}

// note takes down a relation.
func (k *asked) note(name string) {
	if k == nil || k.names[name] {
		return
	}
	if k.names == nil {
		k.names = map[string]bool{}
	}
	k.names[name] = true
}

// noteAny says that any declaration may change the plan.
func (k *asked) noteAny() {
	if k != nil {
		k.any = true
	}
}

// tell writes the list into the plan.
func (k *asked) tell(a *analysis) {
	if a.out.Confined = !k.any; !k.any {
		a.out.Names = slices.Sorted(maps.Keys(k.names))
	}
}

// confined reports whether all declarations that decide a statement's plan are noted. They are for
// statements that read and write rows, and for EXECUTE, whose statement is planned by itself. They
// are not for DDL.
func confined(n *pg.Node) bool {
	switch n.GetNode().(type) {
	case *pg.Node_SelectStmt, *pg.Node_InsertStmt, *pg.Node_UpdateStmt, *pg.Node_DeleteStmt, *pg.Node_MergeStmt,
		*pg.Node_VariableSetStmt, *pg.Node_VariableShowStmt, *pg.Node_TransactionStmt, *pg.Node_DeallocateStmt,
		*pg.Node_PrepareStmt, *pg.Node_ExecuteStmt, *pg.Node_DiscardStmt, *pg.Node_ListenStmt, *pg.Node_UnlistenStmt, *pg.Node_NotifyStmt, *pg.Node_FetchStmt, *pg.Node_ClosePortalStmt:
		return true
	}
	return false
}
