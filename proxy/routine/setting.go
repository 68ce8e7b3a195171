package routine

import (
	"encoding/json"
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
	"weft/quote"
)

// A routine with SET clauses runs with these settings: set_config gives them to all shards of the transaction, those that join it later included, and
// gives them their values back when the routine has returned. If it fails, the transaction or the savepoint around it is rolled back, and the
// settings with it.

// clause is a SET clause of a routine that runs.
type clause struct {
	name string
	// before is the value outside of the routine, inside the one that the clause gives.
	before, inside string
}

// settable reports whether weft may set a parameter while a routine runs: it changes neither the text of values, nor rights, nor the transaction.
func settable(name string) bool {
	if strings.Contains(name, ".") {
		return !strings.HasPrefix(name, parser.OptionPrefix)
	}
	switch name {
	case "search_path", "work_mem", "hash_mem_multiplier", "maintenance_work_mem", "effective_cache_size", "random_page_cost", "seq_page_cost",
		"cpu_tuple_cost", "cpu_index_tuple_cost", "cpu_operator_cost", "plan_cache_mode", "from_collapse_limit", "join_collapse_limit", "constraint_exclusion",
		"max_parallel_workers_per_gather", "default_statistics_target", "check_function_bodies", "jit", "geqo", "xmloption":
		return true
	}
	return strings.HasPrefix(name, "enable_") || strings.HasPrefix(name, "jit_")
}

// enter gives a routine the settings of its SET clauses. The caller calls leave when the routine has returned.
func (r *Run) enter(c *call, k *candidate) error {
	var list []string
	if k.settings == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(k.settings), &list); err != nil {
		return err
	}
	for _, s := range list {
		name, value, _ := strings.Cut(s, "=")
		if name = strings.ToLower(name); !settable(name) {
			return refuse("Leave SET out of its definition, and SET it before the call.", "function %q touches sharded tables, and sets %s while it runs", c.name, name)
		}
		before, err := r.setting(name)
		if err != nil {
			return err
		}
		if err := r.set(name, value); err != nil {
			return err
		}
		inside, err := r.setting(name)
		if err != nil {
			return err
		}
		r.clauses = append(r.clauses, clause{name, before, inside})
		r.d.room.held = append(r.d.room.held, name)
	}
	return r.prepare()
}

// leave gives settings the values back that they had before enter.
func (r *Run) leave(c *call) error {
	for _, s := range slices.Backward(r.clauses) {
		switch now, err := r.setting(s.name); {
		case err != nil:
			return err
		case now != s.inside && !r.d.room.locally[s.name]:
			return refuse("Let it SET LOCAL the parameter.", "function %q has a SET clause for %s, and something that it calls has set the parameter too", c.name, s.name)
		}
		if err := r.set(s.name, s.before); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) setting(name string) (string, error) {
	rows, err := r.ask("SELECT pg_catalog.current_setting($1, true)", name)
	if err != nil {
		return "", err
	}
	return rows[0][0].Text, nil
}

// set sets a parameter until the transaction ends.
func (r *Run) set(name, value string) error {
	return r.d.run("SELECT pg_catalog.set_config(" + quote.Literal(name) + ", " + quote.Literal(value) + ", true)")
}

// guard looks at a statement of a program that runs with SET clauses, or with SECURITY DEFINER.
func (d *Dialogue) guard(sql string) error {
	if len(d.room.held) == 0 && d.room.definers == 0 {
		return nil
	}
	tree, err := parser.Parse(sql)
	if err != nil {
		return nil // a server says what is wrong
	}
	for _, s := range tree.Stmts {
		parser.Walk(s.Stmt, func(m any) bool {
			switch m := m.(type) {
			case *pg_query.VariableSetStmt:
				name := strings.ToLower(m.Name)
				if m.Kind == pg_query.VariableSetKind_VAR_RESET_ALL {
					name = ""
				}
				err = d.sets(name, m.IsLocal)
			case *pg_query.FuncCall:
				if m.Funcname[len(m.Funcname)-1].GetString_().GetSval() == "set_config" && len(m.Args) == 3 {
					err = d.sets(strings.ToLower(m.Args[0].GetAConst().GetSval().GetSval()), m.Args[2].GetAConst().GetBoolval().GetBoolval())
				}
			}
			return err == nil
		})
	}
	return err
}

// sets judges a statement that sets a parameter. An empty name is an unknown one.
func (d *Dialogue) sets(name string, local bool) error {
	if d.room.definers > 0 && (name == "role" || name == "session_authorization") {
		return pgerr.New(pgerr.InsufficientPrivilege, "cannot set parameter %q within security-definer function", name)
	}
	switch held := slices.Contains(d.room.held, name); {
	case name == "" && !local || held && !local:
		return refuse("Use SET LOCAL, or leave SET out of the definition of the function.", "a function with SET clauses sets parameters for the time after it")
	case held:
		d.room.locally[name] = true
	case name == "":
		for _, s := range d.room.held {
			d.room.locally[s] = true
		}
	}
	return nil
}
