package program

import (
	"context"
	"slices"
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
)

// sql runs a statement of SQL.
func (f *frame) sql(ctx context.Context, s *SQL) error {
	n := s.Query.tree.node
	if err := unsupported(n); err != nil {
		return err
	}
	p, err := f.plan(ctx, s.Query, false)
	if err != nil {
		return f.within(s.Query, err, false)
	}
	if s.Into != nil && p.prepared.Columns == nil {
		return syntax("INTO used with a command that cannot return data")
	}
	isSelect := n.GetSelectStmt() != nil
	modifies := n.GetInsertStmt() != nil || n.GetUpdateStmt() != nil || n.GetDeleteStmt() != nil || n.GetMergeStmt() != nil
	limit := 0
	if s.Into != nil {
		limit = 1
		if s.Strict || modifies {
			limit = 2
		}
	}
	first, count, err := f.runLimited(ctx, p.prepared, f.arguments(p), limit)
	if err != nil {
		return f.within(s.Query, err, false)
	}
	f.rowCount = count
	if isSelect || modifies {
		f.setFound(count > 0)
	}
	if s.Into == nil {
		if p.prepared.Columns == nil {
			return nil
		}
		e := syntax("query has no destination for result data")
		if isSelect {
			e = e.WithHint("If you want to discard the results of a SELECT, use PERFORM instead.")
		}
		return e
	}
	return f.intoFirst(ctx, s.Into, p.prepared.Columns, first, count, s.Strict, s.Strict || modifies)
}

// intoFirst assigns the first row of a result.
func (f *frame) intoFirst(ctx context.Context, in *Into, cols []Column, first []Value, count int64, strict, single bool) error {
	if count == 0 && strict {
		return pgerr.New("P0002", "query returned no rows")
	}
	if count > 1 && single {
		return pgerr.New("P0003", "query returned more than one row").
			WithHint("Make sure the query returns a single row, or use LIMIT 1.")
	}
	return f.putRow(ctx, in, cols, first)
}

// runLimited runs a statement and keeps the first row of its result. It counts the rows, or what the command tag says.
func (f *frame) runLimited(ctx context.Context, p *Prepared, args []Value, limit int) (first []Value, count int64, err error) {
	tag, err := f.env.Executor.Execute(ctx, p, args, limit, func(row []Value) error {
		if count++; count == 1 {
			first = row
		}
		return nil
	})
	if err != nil {
		return nil, 0, err
	}
	if p.Columns == nil {
		count = tagCount(tag)
	}
	return first, count, nil
}

// tagCount is the number at the end of a command tag.
func tagCount(tag string) int64 {
	n, err := strconv.ParseInt(tag[strings.LastIndexByte(tag, ' ')+1:], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// unsupported returns the error of commands that PL/pgSQL does not run either, and of those that weft does not.
func unsupported(n *pg_query.Node) error {
	switch {
	case n.GetTransactionStmt() != nil:
		return native("unsupported transaction command in PL/pgSQL")
	case n.GetCopyStmt() != nil && n.GetCopyStmt().Filename == "":
		return native("cannot COPY to/from client in PL/pgSQL")
	case n.GetVariableSetStmt() != nil:
		switch lower(n.GetVariableSetStmt().Name) {
		case "datestyle", "intervalstyle", "extra_float_digits", "bytea_output", "lc_monetary", "xmlbinary", "standard_conforming_strings":
			return refuse("SET " + n.GetVariableSetStmt().Name).WithHint("Set it before the program is called.")
		}
	}
	return nil
}

// perform runs PERFORM.
func (f *frame) perform(ctx context.Context, s *Perform) error {
	p, err := f.plan(ctx, s.Query, false)
	if err != nil {
		return f.within(s.Query, err, false)
	}
	_, count, err := f.runLimited(ctx, p.prepared, f.arguments(p), 0)
	if err != nil {
		return f.within(s.Query, err, false)
	}
	f.rowCount = count
	f.setFound(count > 0)
	return nil
}

// dynamic evaluates the text of an EXECUTE and its parameters.
func (f *frame) dynamic(ctx context.Context, e *Expr, using []*Expr) (sql *Expr, args []Value, types []uint32, err error) {
	v, _, err := f.eval(ctx, e)
	if err != nil {
		return nil, nil, nil, err
	}
	if !v.Valid {
		return nil, nil, nil, pgerr.New("22004", "query string argument of EXECUTE is null")
	}
	for _, u := range using {
		v, col, err := f.eval(ctx, u)
		if err != nil {
			return nil, nil, nil, err
		}
		if col.OID == oidRecord {
			return nil, nil, nil, refuse("a record of no named type in USING")
		}
		args, types = append(args, v), append(types, col.OID)
	}
	return &Expr{Text: v.Text, Mode: Statement, tree: &tree{}}, args, types, nil
}

// execute runs EXECUTE.
func (f *frame) execute(ctx context.Context, s *Execute) error {
	sql, args, types, err := f.dynamic(ctx, s.Query, s.Using)
	if err != nil {
		return err
	}
	if res, err := parser.Parse(sql.Text); err == nil {
		if len(res.Stmts) != 1 {
			return refuse("EXECUTE of several statements")
		}
		n := res.Stmts[0].Stmt
		if n.GetTransactionStmt() != nil {
			return native("EXECUTE of transaction commands is not implemented")
		}
		if sel := n.GetSelectStmt(); sel != nil && sel.IntoClause != nil {
			return pgerr.New(pgerr.FeatureNotSupported, "EXECUTE of SELECT ... INTO is not implemented").
				WithHint("You might want to use EXECUTE ... INTO or EXECUTE CREATE TABLE ... AS instead.")
		}
		if err := unsupported(n); err != nil {
			return err
		}
	}
	p, err := f.env.Executor.Prepare(ctx, sql.Text, types)
	if err != nil {
		return f.within(sql, err, false)
	}
	first, count, err := f.runLimited(ctx, p, args, 0)
	if err != nil {
		return f.within(sql, err, false)
	}
	f.rowCount = count
	if s.Into == nil {
		return nil
	}
	if p.Columns == nil {
		return syntax("INTO used with a command that cannot return data")
	}
	err = f.intoFirst(ctx, s.Into, p.Columns, first, count, s.Strict, s.Strict)
	if e, ok := err.(*pgerr.Error); ok && e.Code == "P0003" {
		e.Hint = ""
	}
	return err
}

// query runs a query and keeps its rows.
func (f *frame) query(ctx context.Context, query, dynamic *Expr, using []*Expr) ([]Column, [][]Value, error) {
	var p *Prepared
	var args []Value
	shown := query
	if query != nil {
		pl, err := f.plan(ctx, query, false)
		if err != nil {
			return nil, nil, f.within(query, err, false)
		}
		p, args = pl.prepared, f.arguments(pl)
	} else {
		sql, values, types, err := f.dynamic(ctx, dynamic, using)
		if err != nil {
			return nil, nil, err
		}
		shown, args = sql, values
		if p, err = f.env.Executor.Prepare(ctx, sql.Text, types); err != nil {
			return nil, nil, f.within(sql, err, false)
		}
	}
	if p.Columns == nil {
		return nil, nil, refuse("a command that returns no rows in place of a query")
	}
	rows, err := f.collect(ctx, p, args)
	if err != nil {
		return nil, nil, f.within(shown, err, false)
	}
	return p.Columns, rows, nil
}

// collect keeps the rows of a result, up to a limit of memory.
func (f *frame) collect(ctx context.Context, p *Prepared, args []Value) (rows [][]Value, err error) {
	left := f.env.MaxBytes
	if left == 0 {
		left = 64 << 20
	}
	_, err = f.env.Executor.Execute(ctx, p, args, 0, func(row []Value) error {
		for _, v := range row {
			left -= len(v.Text) + 24
		}
		if left < 0 {
			return pgerr.New(pgerr.ConfigurationLimitExceeded, "a query of a program returns more rows than weft keeps in memory").
				WithHint("Let the query return fewer rows, or read them with a cursor.").WithCause(errOurs)
		}
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// call runs CALL, and assigns the OUT arguments of the procedure.
func (f *frame) call(ctx context.Context, s *Call) error {
	p, err := f.plan(ctx, s.Query, false)
	if err != nil {
		return f.within(s.Query, err, false)
	}
	targets, err := f.callTargets(ctx, s, p.prepared.Columns)
	if err != nil {
		return err
	}
	first, _, err := f.runLimited(ctx, p.prepared, f.arguments(p), 0)
	if err != nil {
		return f.within(s.Query, err, false)
	}
	for i, t := range targets {
		if err := f.put(ctx, t, first[i], p.prepared.Columns[i]); err != nil {
			return err
		}
	}
	return nil
}

// callTargets returns the variables that get the OUT arguments of a procedure. They must have the types of the arguments.
func (f *frame) callTargets(ctx context.Context, s *Call, cols []Column) ([]*Target, error) {
	if len(cols) == 0 {
		return nil, nil
	}
	call := s.Query.tree.node.GetCallStmt().Funccall
	outs, err := f.callOuts(ctx, call, len(cols))
	if err != nil {
		return nil, err
	}
	var targets []*Target
	for i, at := range outs {
		name := `"` + cols[i].Name + `"`
		if name == `""` {
			name = itoa(at + 1)
		}
		unwritable := syntax("procedure parameter %s is an output parameter but corresponding argument is not writable", name)
		arg := call.Args[at]
		if named := arg.GetNamedArgExpr(); named != nil {
			arg = named.Arg
		}
		c := arg.GetColumnRef()
		if c == nil {
			return nil, unwritable
		}
		t := &Target{scope: s.Query.scope}
		t.Names, _ = namesOf(c)
		u, err := f.resolve(t)
		if err != nil {
			return nil, unwritable
		}
		switch typ, err := f.typeOf(u); {
		case err != nil:
			return nil, err
		case typ.OID != cols[i].OID:
			return nil, unwritable
		case u.v.Constant:
			return nil, pgerr.New("22005", `variable "%s" is declared CONSTANT`, u.v.Name)
		}
		targets = append(targets, t)
	}
	return targets, nil
}

// callOuts finds which arguments of a CALL are OUT or INOUT, in the order of the procedure's arguments.
func (f *frame) callOuts(ctx context.Context, c *pg_query.FuncCall, n int) ([]int, error) {
	schema, name := "", ""
	for _, s := range c.Funcname {
		schema, name = name, s.GetString_().GetSval()
	}
	rows, err := f.env.Cache.ask(ctx, f.env.Executor, `SELECT p.oid, a.weft_mode, coalesce(a.weft_name, '')
 FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
  CROSS JOIN LATERAL ROWS FROM (pg_catalog.unnest(p.proargmodes), pg_catalog.unnest(p.proargnames)) WITH ORDINALITY a (weft_mode, weft_name, weft_n)
 WHERE p.proname = $1 AND p.prokind = 'p' AND p.proargmodes IS NOT NULL
  AND CASE WHEN $2 = '' THEN pg_catalog.pg_function_is_visible(p.oid) ELSE n.nspname = $2 END ORDER BY p.oid, a.weft_n`, name, schema)
	if err != nil {
		return nil, err
	}
	var found []int
	for len(rows) > 0 {
		end := 1
		for end < len(rows) && rows[end][0] == rows[0][0] {
			end++
		}
		outs, ok := writable(c, rows[:end])
		rows = rows[end:]
		switch {
		case !ok || len(outs) != n:
		case found != nil && !slices.Equal(found, outs):
			return nil, refuse("CALL of a procedure with OUT arguments that has namesakes")
		default:
			found = outs
		}
	}
	if found == nil {
		return nil, refuse("CALL of this procedure")
	}
	return found, nil
}

// writable returns which arguments of a CALL are OUT or INOUT by modes and names of the procedure's. ok is false if they do not fit, or one is missing.
func writable(c *pg_query.FuncCall, declared [][]Value) (outs []int, ok bool) {
	given := map[int]int{}
	for i, a := range c.Args {
		at := i
		if named := a.GetNamedArgExpr(); named != nil {
			at = slices.IndexFunc(declared, func(d []Value) bool { return d[2].Text == named.Name })
		}
		if _, twice := given[at]; at < 0 || twice || at >= len(declared) && declared[len(declared)-1][1].Text != "v" {
			return nil, false
		}
		given[at] = i
	}
	for at, d := range declared {
		if d[1].Text == "o" || d[1].Text == "b" {
			i, has := given[at]
			if !has {
				return nil, false
			}
			outs = append(outs, i)
		}
	}
	return outs, true
}

// end runs COMMIT and ROLLBACK.
func (f *frame) end(ctx context.Context, s *End) error {
	if f.env.Atomic {
		return pgerr.New("2D000", "invalid transaction termination")
	}
	if f.subs > 0 {
		what := "commit"
		if s.Rollback {
			what = "roll back"
		}
		return pgerr.New("2D000", "cannot %s while a subtransaction is active", what)
	}
	return f.env.Transaction.End(ctx, !s.Rollback, s.Chain)
}
