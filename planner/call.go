package planner

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/pgerr"
	"weft/plan"
)

// signature describes one of weft's functions.
type signature struct {
	name   string   // weft's name of the function
	params []string // in order, under weft's names
	alias  []string // what callers call the first of them: "table" is a reserved word
	needed int
	open   bool // the function takes other named arguments too
	// returns are the columns of the function's rows; none for void.
	returns []string
	// plans are the columns of the rows that the function returns with dry_run => true.
	plans []string
	// with are arguments that the name implies.
	with map[string]string
}

// movePlan are the columns of a plan to move rows.
var movePlan = []string{
	"from_shard", "to_shard", "buckets", "rows", "bytes", "estimated_time", "from_before", "from_after", "to_before", "to_after", "reason",
}

// ownSchema is where weft keeps its own tables on the shards.
const ownSchema = "weft"

// moveOptions are the parameters of functions that start jobs, or change them.
var moveOptions = []string{"max_pause", "pause_target", "rate", "duty", "verify", "until"}

// own are the functions in schema weft, citus the functions that users of Citus know.
var (
	own = map[string]signature{
		"shard_table":     {name: "shard_table", params: []string{"table", "columns", "vindex", "name", "params"}, alias: []string{"table_name"}, needed: 2, open: true},
		"shard_tables":    {name: "shard_tables", params: append([]string{"tables", "wait", "foreign_keys"}, moveOptions...), alias: []string{"tables"}, needed: 1},
		"alter_shard_key": {name: "alter_shard_key", params: []string{"table", "columns", "vindex", "name", "params"}, alias: []string{"table_name"}, needed: 2, open: true},
		"reference_table": {name: "reference_table", params: []string{"table"}, alias: []string{"table_name"}, needed: 1},
		"unshard_table": {
			name: "unshard_table", params: append([]string{"table", "online", "cascade", "wait"}, moveOptions...), alias: []string{"table_name"}, needed: 1,
		},
		"create_lookup": {name: "create_lookup", params: []string{"table", "columns", "unique", "name"}, alias: []string{"table_name", "columns", "is_unique"}, needed: 2},
		"drop_lookup":   {name: "drop_lookup", params: []string{"table", "columns"}, alias: []string{"table_name"}, needed: 2},
		"verify_lookup": {
			name: "verify_lookup", params: []string{"table", "columns"}, alias: []string{"table_name"},
			returns: []string{"lookup", "relation", "columns", "rows", "missing", "stale", "duplicates"},
		},
		"verify_placement": {
			name: "verify_placement", params: []string{"table"}, alias: []string{"table_name"},
			returns: []string{"relation", "rows", "misplaced", "examples"},
		},
		"pin": {name: "pin", params: []string{"vindex", "value", "shard"}, needed: 3, returns: []string{"job"}},
		"distribute_function": {
			name: "distribute_function", params: []string{"function", "argument", "colocate_with"}, alias: []string{"function_name", "arg"}, needed: 2,
		},
		"verify_reference":      {name: "verify_reference", params: []string{"table"}, alias: []string{"table_name"}, returns: []string{"finding"}},
		"undistribute_function": {name: "undistribute_function", params: []string{"function"}, alias: []string{"function_name"}, needed: 1},
		"move_buckets": {
			name: "move_buckets", params: append([]string{"buckets", "to"}, moveOptions...), alias: []string{"buckets", "to_shard"}, needed: 2, returns: []string{"job"},
		},
		"add_shard": {
			name: "add_shard", params: []string{"name", "hosts", "weight", "rebalance", "max_pause"}, needed: 2, returns: []string{"job"},
		},
		"set_shard_state": {name: "set_shard_state", params: []string{"shard", "state"}, needed: 2},
		"drain_shard":     {name: "drain_shard", params: []string{"name", "max_pause"}, needed: 1, returns: []string{"job"}},
		"remove_shard":    {name: "remove_shard", params: []string{"name"}, needed: 1},
		"isolate": {
			name: "isolate", params: append([]string{"table", "value", "shard"}, moveOptions...), alias: []string{"table_name", "value", "to_shard"}, needed: 2, returns: []string{"job"},
		},
		"grow_buckets": {
			name: "grow_buckets", params: []string{"buckets", "dry_run"}, needed: 1, returns: []string{"buckets"}, plans: []string{"buckets", "new_buckets"},
		},
		"rebalance": {
			name: "rebalance", params: append([]string{"strategy", "threshold", "max_moves", "dry_run"}, moveOptions...), returns: []string{"job"}, plans: movePlan,
		},
		"plan_heat": {
			name:    "plan_heat",
			returns: []string{"step", "action", "object", "from_shard", "to_shard", "from_before", "from_after", "to_before", "to_after", "reason", "sql"},
		},
		"set_move":         {name: "set_move", params: append([]string{"job"}, moveOptions...), needed: 1},
		"pause_moves":      {name: "pause_moves", params: []string{"job"}, returns: []string{"job"}},
		"resume_moves":     {name: "resume_moves", params: []string{"job"}, returns: []string{"job"}},
		"undo_move":        {name: "undo_move", params: []string{"job"}, needed: 1, returns: []string{"job"}},
		"wait_move":        {name: "wait_move", params: []string{"job"}, needed: 1},
		"cancel_move":      {name: "cancel_move", params: []string{"job"}, needed: 1},
		"statements_reset": {name: "statements_reset"},
		"record":           {name: "record", params: []string{"duration", "share"}},
		"record_stop":      {name: "record_stop"},
		"recorded":         {name: "recorded", returns: []string{"proxy", "transaction"}},
		"dismiss":          {name: "dismiss", params: []string{"id", "duration"}, needed: 1},
		"throttle": {
			name: "throttle", returns: []string{"id"}, alias: []string{"table_name"},
			params: []string{
				"table", "key", "bucket", "shard", "statement", "username", "database", "application_name", "class", "rate", "concurrency", "share", "refuse",
				"max_wait", "below", "mode", "duration", "reason",
			},
		},
		"restore_point": {name: "restore_point", params: []string{"name", "strict"}, alias: []string{"point_name", "strict"}, needed: 1, returns: []string{"restore_point"}},
		"unthrottle":    {name: "unthrottle", params: []string{"id"}, needed: 1},
		"token":         {name: "token", returns: []string{"token"}},
		"schema_diff":   {name: "schema_diff", returns: []string{"shard", "object", "difference"}},
	}
	citus = map[string]signature{
		"create_distributed_table": {
			name: "shard_table", needed: 2,
			params: []string{"table", "columns", "distribution_type", "colocate_with", "shard_count"},
			alias:  []string{"table_name", "distribution_column"},
		},
		"create_distributed_table_concurrently": {
			name: "shard_table", needed: 2,
			params: []string{"table", "columns", "distribution_type", "colocate_with", "shard_count"},
			alias:  []string{"table_name", "distribution_column"}, with: map[string]string{"online": "true"},
		},
		"alter_distributed_table": {
			name: "alter_shard_key", params: []string{"table", "columns", "shard_count", "colocate_with", "cascade"},
			alias: []string{"table_name", "distribution_column", "shard_count", "colocate_with", "cascade_to_colocated"}, needed: 2,
		},
		"create_distributed_function": {
			name: "distribute_function", params: []string{"function", "argument", "colocate_with", "force_delegation"},
			alias: []string{"function_name", "distribution_arg_name"}, needed: 1,
		},
		"citus_add_node": {
			name: "add_shard", params: []string{"host", "port", "groupid", "noderole", "nodecluster"}, alias: []string{"nodename", "nodeport"}, needed: 2, returns: []string{"job"},
		},
		"citus_drain_node": {
			name: "drain_shard", params: []string{"host", "port", "shard_transfer_mode", "rebalance_strategy"}, alias: []string{"nodename", "nodeport"}, needed: 2, returns: []string{"job"},
		},
		"citus_remove_node": {name: "remove_shard", params: []string{"host", "port"}, alias: []string{"nodename", "nodeport"}, needed: 2},
		"citus_rebalance_start": {
			name: "rebalance", params: []string{"strategy", "drain_only", "shard_transfer_mode"}, alias: []string{"rebalance_strategy"}, returns: []string{"job"},
		},
		"citus_rebalance_stop": {name: "rebalance_stop"},
		"citus_rebalance_wait": {name: "rebalance_wait"},
		"citus_rebalance_status": {
			name: "rebalance_status", params: []string{"verbose"},
			returns: []string{"job_id", "state", "job_type", "description", "started_at", "finished_at", "details"},
		},
		"get_rebalance_progress": {
			name: "rebalance_progress", returns: []string{"job_id", "sourcename", "targetname", "buckets", "buckets_done", "progress", "rows", "bytes"},
		},
		"get_rebalance_table_shards_plan": {
			name: "rebalance", params: []string{"relation", "threshold", "max_moves", "excluded_shard_list", "drain_only", "strategy"},
			alias:   []string{"relation", "threshold", "max_shard_moves", "excluded_shard_list", "drain_only", "rebalance_strategy"},
			returns: movePlan, with: map[string]string{"dry_run": "true"},
		},
		"isolate_tenant_to_new_shard": {
			name: "isolate_tenant", params: []string{"table", "value", "cascade_option", "shard_transfer_mode"}, alias: []string{"table_name", "tenant_id"}, needed: 2,
			returns: []string{"isolate_tenant_to_new_shard"},
		},
		"create_reference_table": {name: "reference_table", params: []string{"table"}, alias: []string{"table_name"}, needed: 1},
		"undistribute_table": {
			name: "unshard_table", params: []string{"table", "cascade_via_foreign_keys"}, alias: []string{"table_name"}, needed: 1,
		},
	}
)

// Provides reports whether weft itself has a function of that name, which is given without a schema.
func Provides(name string) bool {
	_, ours := own[name]
	_, theirs := citus[name]
	return ours || theirs
}

// soleCall returns the function call that a query consists of: SELECT f(…), or SELECT * FROM f(…).
// label is the name of its column.
func soleCall(sel *pg.SelectStmt) (f *pg.FuncCall, label string) {
	if len(sel.TargetList) != 1 || len(sel.FromClause) > 1 || sel.WhereClause != nil || sel.Op != pg.SetOperation_SETOP_NONE ||
		sel.WithClause != nil || len(sel.SortClause) > 0 || sel.LimitCount != nil || sel.LimitOffset != nil ||
		len(sel.GroupClause) > 0 || sel.HavingClause != nil || sel.IntoClause != nil || len(sel.LockingClause) > 0 || len(sel.DistinctClause) > 0 {
		return nil, ""
	}
	t := sel.TargetList[0].GetResTarget()
	if len(sel.FromClause) == 0 {
		return t.GetVal().GetFuncCall(), t.GetName()
	}
	from := sel.FromClause[0].GetRangeFunction()
	if from == nil || len(from.Functions) != 1 || from.Ordinality || len(from.Coldeflist) > 0 || !isStar(t.GetVal()) {
		return nil, ""
	}
	items := from.Functions[0].GetList().GetItems()
	if len(items) == 0 {
		return nil, ""
	}
	return items[0].GetFuncCall(), ""
}

// weftCall plans SELECT weft.f(…), and reports whether the query is one.
func (re reach) weftCall(sel *pg.SelectStmt) (plan.Route, bool) {
	f, label := soleCall(sel)
	if f == nil {
		return 0, false
	}
	names := nameList(f.Funcname)
	name := names[len(names)-1]
	sig, ok := signature{}, false
	switch {
	case len(names) == 2 && names[0] == "weft":
		if sig, ok = own[name]; !ok {
			re.noFunction(names, f)
			return plan.Refused, true
		}
	case len(names) == 1 && len(re.userFunctions("", name)) == 0:
		sig, ok = citus[name]
	}
	if !ok || len(sel.FromClause) > 0 && len(sig.returns) == 0 {
		return 0, false
	}
	re.a.out.Exact = true
	re.a.out.Writes = true
	call := &plan.Function{Name: sig.name, Args: map[string]plan.Arg{}, Column: name, Returns: sig.returns}
	if label != "" {
		call.Column = label
	}
	if !re.arguments(call, sig, names, f) {
		return plan.Refused, true
	}
	if dry, given := call.Args["dry_run"]; given && len(sig.plans) > 0 {
		if dry.Param > 0 {
			re.a.unsupported("Write dry_run => true or dry_run => false.", "dry_run of %s is a parameter, and decides which columns there are", strings.Join(names, "."))
			return plan.Refused, true
		}
		if dry.Text == "true" {
			call.Returns = sig.plans
		}
	}
	for param, text := range sig.with {
		call.Args[param] = plan.Arg{Text: text}
	}
	if c, ok := call.Args["columns"]; ok && len(names) == 1 && c.Param == 0 && c.Text != strings.ToLower(c.Text) && !strings.ContainsAny(c.Text, `,"`) {
		c.Text = `"` + c.Text + `"` // Citus takes the name as it is
		call.Args["columns"] = c
	}
	re.a.out.Function = call
	return plan.Call, true
}

// arguments binds the arguments of a call to its parameters.
func (re reach) arguments(call *plan.Function, sig signature, names []string, f *pg.FuncCall) bool {
	if f.AggStar || f.AggDistinct || f.FuncVariadic || f.Over != nil || f.AggFilter != nil || len(f.AggOrder) > 0 {
		re.noFunction(names, f)
		return false
	}
	for i, n := range f.Args {
		param := ""
		if named := n.GetNamedArgExpr(); named != nil {
			param, n = named.Name, named.Arg
			if at := slices.Index(sig.alias, param); at >= 0 {
				param = sig.params[at]
			} else if !slices.Contains(sig.params, param) && !sig.open || slices.Contains(sig.params[:len(sig.alias)], param) {
				re.noFunction(names, f)
				return false
			}
		} else if i < len(sig.params) {
			param = sig.params[i]
		} else {
			re.noFunction(names, f)
			return false
		}
		arg, ok := argument(n)
		if !ok {
			re.a.unsupported("Give constants or parameters.", "an argument of %s is neither a constant nor a parameter", strings.Join(names, "."))
			return false
		}
		if _, twice := call.Args[param]; twice {
			re.noFunction(names, f)
			return false
		}
		call.Args[param] = arg
		if arg.Param > 0 {
			u := re.a.params.at(arg.Param - 1)
			u.uses++
		}
	}
	for _, p := range sig.params[:sig.needed] {
		if _, ok := call.Args[p]; !ok {
			re.noFunction(names, f)
			return false
		}
	}
	return true
}

// argument returns the constant or parameter that a node is, with casts or without.
func argument(n *pg.Node) (plan.Arg, bool) {
	for n.GetTypeCast() != nil {
		n = n.GetTypeCast().Arg
	}
	if p := n.GetParamRef(); p != nil && p.Number >= 1 && p.Number <= maxParams {
		return plan.Arg{Param: int(p.Number)}, true
	}
	c := n.GetAConst()
	if c == nil {
		return plan.Arg{}, false
	}
	if c.Isnull {
		return plan.Arg{Null: true}, true
	}
	switch v := c.Val.(type) {
	case *pg.A_Const_Sval:
		return plan.Arg{Text: v.Sval.GetSval()}, true
	case *pg.A_Const_Ival:
		return plan.Arg{Text: strconv.Itoa(int(v.Ival.GetIval()))}, true
	case *pg.A_Const_Fval:
		return plan.Arg{Text: v.Fval.GetFval()}, true
	case *pg.A_Const_Boolval:
		return plan.Arg{Text: strconv.FormatBool(v.Boolval.GetBoolval())}, true
	}
	return plan.Arg{}, false
}

// noFunction refuses a call as PostgreSQL does.
func (re reach) noFunction(names []string, f *pg.FuncCall) {
	var args []string
	for _, n := range f.Args {
		prefix := ""
		if named := n.GetNamedArgExpr(); named != nil {
			prefix, n = named.Name+" => ", named.Arg
		}
		args = append(args, prefix+argumentType(n))
	}
	re.a.refuse(pgerr.UndefinedFunction, "No function matches the given name and argument types. You might need to add explicit type casts.",
		"%s", fmt.Sprintf("function %s(%s) does not exist", strings.Join(names, "."), strings.Join(args, ", ")))
}

func argumentType(n *pg.Node) string {
	if c := n.GetTypeCast(); c != nil {
		names := nameList(c.TypeName.GetNames())
		if len(names) > 0 {
			return names[len(names)-1]
		}
	}
	switch n.GetAConst().GetVal().(type) {
	case *pg.A_Const_Ival:
		return "integer"
	case *pg.A_Const_Fval:
		return "numeric"
	case *pg.A_Const_Boolval:
		return "boolean"
	}
	return "unknown"
}
