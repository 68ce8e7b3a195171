package planner

import (
	"slices"
	"strings"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
)

// The bodies of DO, functions and procedures may contain DDL. Each command is planned as if it came
// by itself. If all commands go to every shard, and the rest of the body does the same wherever it
// runs (control flow, questions to the catalogs, messages), every shard runs the body. If all
// commands belong to the home shard, the home shard runs the body. A body with both kinds is
// refused. A body of PL/pgSQL that reads or writes sharded tables, and has no command for every shard, is a program: weft runs its statements one by one.

// do is the route of DO.
func (re reach) do(n *pg.DoStmt) plan.Route {
	re.a.out.Writes, re.a.out.Exact = true, true
	language, body := "plpgsql", ""
	for _, arg := range n.Args {
		if s := arg.GetDefElem().GetArg().GetString_(); s != nil && arg.GetDefElem().Defname == "as" {
			body = s.Sval
		} else if s != nil {
			language = s.Sval
		}
	}
	node := &pg.Node{Node: &pg.Node_DoStmt{DoStmt: n}}
	program := strings.EqualFold(language, "plpgsql")
	if r, ok := re.doCommands(language, node, body); ok {
		return r
	}
	switch r := re.reached(re.a.commands().bodyReach(language, node, body)); {
	case r.sharded == "" && r.copied == "" && !r.opaque:
		return plan.Home
	case program:
		return plan.Program
	case r.sharded != "":
		re.a.unsupported("Write it in PL/pgSQL, or send its statements one by one.", "DO mentions sharded table %q, and would see one shard", r.sharded)
	case r.copied != "":
		re.a.unsupported("Write it in PL/pgSQL, or send its statements one by one.", "DO may write reference table %q, and would change one copy of it", r.copied)
	default:
		re.a.unsupported("Write it in PL/pgSQL, or send its statements one by one.", "DO runs SQL that cannot be looked into, and would see one shard")
	}
	return plan.Refused
}

// doCommands returns the route of a DO that contains commands for other shards than home. It
// reports false for any other DO.
func (re reach) doCommands(language string, node *pg.Node, body string) (plan.Route, bool) {
	if re.a.env.Schema == nil || re.a.env.Tables.Empty() && !re.a.env.SharedRoles {
		return 0, false
	}
	sql, err := parser.Deparse(node)
	var b *catalog.Body
	ok := false
	if err == nil {
		b, ok = catalog.ParseBody(strings.ToLower(language), sql, body)
	}
	if !ok {
		if !catalog.MayCommand(body) || re.a.env.Tables.Empty() {
			return 0, false
		}
		re.a.unsupported("Send its statements one by one.", "DO may change what all shards have, and cannot be looked into")
		return plan.Refused, true
	}
	c := &bodyCommands{a: re.a, what: "DO"}
	c.dynamic(b.Dynamic)
	c.texts(b.Texts)
	if c.passwords > 0 {
		if list, err := parser.RolePasswords(sql, parser.Options{}); err != nil || len(list) != c.passwords {
			c.besides("a password that is put together")
		}
	}
	if c.gathers && c.every == "" && strings.EqualFold(language, "plpgsql") {
		return plan.Program, true
	}
	return c.route()
}

// commandCall returns the route of a statement that only calls a function with commands for other
// shards than home. It reports false for any other statement.
func (re reach) commandCall(f *pg.FuncCall, verb string) (plan.Route, bool) {
	names := nameList(f.GetFuncname())
	if len(names) == 0 || re.a.env.Schema == nil || re.a.env.Tables.Empty() && !re.a.env.SharedRoles {
		return 0, false
	}
	schema := ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	list := re.userFunctions(schema, names[len(names)-1])
	if !slices.ContainsFunc(list, func(f *catalog.Function) bool { return f.Reach.DDL }) {
		return 0, false
	}
	c := &bodyCommands{a: re.a, what: verb + " of " + names[len(names)-1] + "()"}
	for _, f := range list {
		c.function(f)
	}
	for _, arg := range f.Args {
		c.expression(arg)
		parser.Walk(arg, func(m any) bool {
			if _, ok := m.(*pg.ParamRef); ok && c.beside == "" {
				c.beside = "parameters"
			}
			return true
		})
	}
	return c.route()
}

// programCall returns the route of a statement that only calls a function or a procedure in PL/pgSQL or SQL over sharded tables: weft runs it, and asks
// PostgreSQL which one of several a call means. It reports false for any other statement.
func (re reach) programCall(f *pg.FuncCall, kind byte) (plan.Route, bool) {
	if re.a.env.Schema == nil || re.a.env.Tables.Empty() || f.AggStar || f.AggDistinct || f.Over != nil || f.AggFilter != nil || len(f.AggOrder) > 0 {
		return 0, false
	}
	names := nameList(f.GetFuncname())
	touches, users := false, re.userFunctions(schemaOf(f.GetFuncname()), names[len(names)-1])
	for _, u := range users {
		if re.a.commands().placed(u) != nil {
			return 0, false
		}
		if u.Program && u.Kind == kind {
			r := re.reached(&u.Reach)
			touches = touches || r.sharded != "" || r.copied != "" || r.opaque
		}
	}
	if !touches || re.keepsProgram(users, f) {
		return 0, false
	}
	for _, arg := range f.Args {
		parser.Walk(arg, func(m any) bool {
			if p, ok := m.(*pg.ParamRef); ok && p.Number >= 1 && p.Number <= maxParams {
				re.a.params.at(int(p.Number)-1).uses++
			}
			return true
		})
	}
	re.a.out.Writes, re.a.out.Described = true, true
	return plan.Program, true
}

// commandsAll reports whether a function contains commands for other shards than home.
func (re reach) commandsAll(f *catalog.Function) bool {
	if re.a.env.Tables.Empty() && !re.a.env.SharedRoles {
		return false
	}
	c := &bodyCommands{a: re.a}
	c.function(f)
	return c.every != "" || c.refused != nil
}

// bodyCommands collects what the bodies that a statement runs do.
type bodyCommands struct {
	a    *analysis
	what string
	// every is the first command that goes to every shard, home the first command of the home shard
	// alone, and beside the first other action that must not run on every shard, for messages.
	every, home, beside string
	searchPath          bool       // beside is a SET of search_path
	refused             *plan.Plan // the plan of a command that is refused
	change              plan.Change
	passwords           int  // how many commands set a password
	gathers             bool // a command takes rows of several shards
	seen                []*catalog.Function
	// mentions are the tables that the function at hand names, in whatever schema.
	mentions []catalog.Name
	inside   bool // in the body of a function
}

func (c *bodyCommands) dynamic(is bool) {
	if is {
		c.besides("EXECUTE of a text that is not constant")
	}
}

func (c *bodyCommands) besides(what string) {
	if c.beside == "" {
		c.beside = what
	}
}

// function looks at the body of a function.
func (c *bodyCommands) function(f *catalog.Function) {
	if slices.Contains(c.seen, f) {
		return
	}
	c.seen = append(c.seen, f)
	switch {
	case f.Parsed:
		c.body(f)
	case f.Reach.DDL && !f.Opaque:
		c.every = f.Name.Name // the function may contain a command for every shard
		c.besides("function " + f.Name.Name + ", which cannot be looked into")
	case f.Opaque || f.Volatility == 'v' || len(f.Mentions) > 0:
		c.body(f)
		c.besides("function " + f.Name.Name)
	}
}

// body looks at those parts of a function's body that can be read.
func (c *bodyCommands) body(f *catalog.Function) {
	outer, inside := c.mentions, c.inside
	c.mentions, c.inside = f.Mentions, true
	c.texts(f.Texts)
	c.mentions, c.inside = outer, inside
}

func (c *bodyCommands) texts(list []string) {
	for _, text := range list {
		tree, err := parser.ParseTree(text, parser.Options{})
		if err != nil {
			c.besides("a statement that cannot be read")
			continue
		}
		for _, s := range tree.Statements {
			c.statement(s.Stmt, text)
		}
	}
}

func (c *bodyCommands) statement(n *pg.Node, text string) {
	if catalog.Command(n) {
		c.command(n, text)
		return
	}
	switch v := n.GetNode().(type) {
	case *pg.Node_SelectStmt:
		c.expression(n)
	case *pg.Node_CallStmt:
		c.expression(&pg.Node{Node: &pg.Node_FuncCall{FuncCall: v.CallStmt.Funccall}})
	case *pg.Node_VariableShowStmt, *pg.Node_ConstraintsSetStmt:
	case *pg.Node_VariableSetStmt:
		if name := strings.ToLower(v.VariableSetStmt.Name); !v.VariableSetStmt.IsLocal || name == "search_path" || name == "role" || name == "session_authorization" {
			c.searchPath = c.searchPath || c.beside == "" && name == "search_path"
			c.besides("SET " + name)
		}
	default:
		c.besides(firstWords(text))
	}
}

// command plans a command as if it came alone.
func (c *bodyCommands) command(n *pg.Node, text string) {
	p := c.planned(text, c.a.env)
	if p.Route != plan.Every && p.Route != plan.Refused && c.inside && c.meansDeclared(text) {
		// The function may have a search_path of its own.
		c.every = firstWords(text)
		c.besides("a name without its schema")
		return
	}
	switch {
	case p.Route == plan.Refused:
		if c.refused == nil {
			c.refused = p
		}
	case p.Route != plan.Every && p.Route != plan.Home && p.Route != plan.Any && p.Route != plan.AnyCopy:
		c.gathers = true
		c.refused = &plan.Plan{Refusal: pgerr.New(pgerr.FeatureNotSupported, "%s of rows on several shards cannot be part of %s", firstWords(text), c.what).
			WithHint("Send it as a statement of its own.")}
	case p.Route != plan.Every:
		c.home = firstWords(text)
	default:
		c.every = firstWords(text)
		c.merge(n, p.Change)
	}
}

func (c *bodyCommands) planned(text string, env *Env) *plan.Plan {
	var s parser.Scanner
	if !s.Scan([]byte(text), env.Options) {
		return &plan.Plan{Route: plan.Home}
	}
	return makePlan(env, text, s.Literals, nil, unlessCertain)
}

// meansDeclared reports whether a command of the home shard would concern a declared table if names
// without schemas meant other tables.
func (c *bodyCommands) meansDeclared(text string) bool {
	for _, n := range c.mentions {
		if c.a.declared(c.a.env.Schema.Relation(n)) == nil {
			continue
		}
		env := *c.a.env
		env.Path = append([]string{n.Schema}, env.Path...)
		if p := c.planned(text, &env); p.Route == plan.Every || p.Route == plan.Refused {
			return true
		}
	}
	return false
}

// merge adds what one command does to declared tables.
func (c *bodyCommands) merge(n *pg.Node, of *plan.Change) {
	if of == nil {
		return
	}
	to := &c.change
	to.Drops = append(to.Drops, of.Drops...)
	to.Renames = append(to.Renames, of.Renames...)
	to.Lookups = append(to.Lookups, of.Lookups...)
	to.Fills = append(to.Fills, of.Fills...)
	to.Adopts = append(to.Adopts, of.Adopts...)
	if of.Password {
		c.passwords++
	}
	switch {
	case of.Elsewhere != "" && n.GetDropRoleStmt() == nil && !dropsFunction(n):
		c.besides("objects of the home shard in the same command")
	case of.Timed != nil:
		c.besides("the time, which each shard would tell for itself")
	case of.Alone:
		c.besides("a command that runs in no transaction")
	case len(of.Sequences) > 0:
		c.besides("a sequence that only the home shard has")
	case len(of.Columns)+len(of.Types)+len(of.Adds)+len(of.Functions)+len(of.Adopts) > 0 || slices.ContainsFunc(of.Lookups, func(l plan.LookupChange) bool {
		return l.Kind == plan.Attached || l.Kind == plan.Detaching
	}):
		c.besides("a change of a declaration")
	case of.Password && c.inside:
		c.besides("a password, of which each shard would keep another form")
	}
}

// dropsFunction reports whether a command drops functions, which other shards may lack.
func dropsFunction(n *pg.Node) bool {
	switch n.GetDropStmt().GetRemoveType() {
	case pg.ObjectType_OBJECT_FUNCTION, pg.ObjectType_OBJECT_PROCEDURE, pg.ObjectType_OBJECT_ROUTINE, pg.ObjectType_OBJECT_AGGREGATE:
		return true
	}
	return false
}

// expression looks at what a query or an expression reads and calls.
func (c *bodyCommands) expression(n *pg.Node) {
	ctes := map[string]bool{}
	parser.Walk(n, func(m any) bool {
		if x, ok := m.(*pg.CommonTableExpr); ok {
			ctes[x.Ctename] = true
		}
		return true
	})
	parser.Walk(n, func(m any) bool {
		switch m := m.(type) {
		case *pg.InsertStmt, *pg.UpdateStmt, *pg.DeleteStmt, *pg.MergeStmt:
			c.besides("a statement that writes rows")
		case *pg.IntoClause:
			c.besides("SELECT INTO")
		case *pg.RangeVar:
			if m.Schemaname == "" && ctes[m.Relname] {
				break
			}
			if rel := c.a.find(m.Schemaname, m.Relname); rel == nil || !rel.System() || c.a.env.Temporary[m.Relname] {
				c.besides("rows of " + m.Relname)
			}
		case *pg.FuncCall:
			c.calls(m)
		}
		return true
	})
}

// calls looks at a function that is called.
func (c *bodyCommands) calls(f *pg.FuncCall) {
	names := nameList(f.Funcname)
	name, schema := names[len(names)-1], ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	users := c.a.env.Schema.Functions(name)
	if schema != "" {
		users = slices.DeleteFunc(slices.Clone(users), func(f *catalog.Function) bool { return f.Schema != schema })
	}
	for _, f := range users {
		c.function(f)
	}
	switch {
	case len(users) > 0:
	case name == "set_config":
		if len(f.Args) > 0 {
			arg, ok := argument(f.Args[0])
			if setting := strings.ToLower(arg.Text); !ok || arg.Param > 0 || setting == "search_path" || setting == "role" || setting == "session_authorization" {
				c.besides("set_config")
			}
		}
	case c.a.reach().volatility(name) == 'v' && !harmless[name], runsSQL[name]:
		c.besides(name + "()")
	}
}

// harmless are volatile built-in functions that leave nothing behind.
var harmless = set("clock_timestamp", "timeofday", "random", "gen_random_uuid", "pg_sleep")

// route returns the route of the statement. It reports false if all commands belong to the home
// shard.
func (c *bodyCommands) route() (plan.Route, bool) {
	a := c.a
	if c.refused != nil {
		a.out.Route, a.out.Refusal, a.out.Waits = plan.Refused, c.refused.Refusal, c.refused.Waits
		return plan.Refused, true
	}
	if c.every == "" {
		if c.home != "" && c.searchPath {
			a.unsupported("Write the names of tables with their schemas.", "what tables %s changes cannot be told, because it sets search_path", c.what)
			return plan.Refused, true
		}
		return 0, false
	}
	const hint = "Split it: what changes all shards in a DO of its own, the rest beside it; or send its statements one by one."
	switch {
	case c.home != "":
		a.unsupported(hint, "%s changes what all shards have (%s) and what the home shard has alone (%s)", c.what, c.every, c.home)
		return plan.Refused, true
	case c.beside != "":
		a.unsupported(hint, "%s changes what all shards have (%s), and cannot run on every shard because of %s", c.what, c.every, c.beside)
		return plan.Refused, true
	}
	r := a.commands().everywhere()
	if r == plan.Every {
		to := a.commands().change()
		to.Body = true
		to.Drops = append(to.Drops, c.change.Drops...)
		to.Renames = append(to.Renames, c.change.Renames...)
		to.Lookups = append(to.Lookups, c.change.Lookups...)
		to.Fills = append(to.Fills, c.change.Fills...)
		to.Password = to.Password || c.passwords > 0
	}
	return r, true
}

// firstWords returns the words by which messages name a command.
func firstWords(text string) string {
	words := strings.Fields(text)
	return strings.ToUpper(strings.Join(words[:min(2, len(words))], " "))
}
