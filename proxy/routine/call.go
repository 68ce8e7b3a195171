package routine

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/parser"
	"weft/pgerr"
	"weft/program"
	"weft/wire"
)

// Request is a CALL or a SELECT of a function, as the client has sent it.
type Request struct {
	Text string
	// Types are those of the parameters that the client declared. Bind is the part of its Bind behind the names, empty for a simple query.
	Types []uint32
	Bind  []byte
}

// call is a statement that calls a routine and does nothing else.
type call struct {
	procedure bool // CALL
	from      bool // SELECT * FROM f(…)
	schema    string
	name      string
	args      []string // as SQL
}

// Describe returns the RowDescription of a statement for a portal, empty if it returns no rows.
func (r *Run) Describe(q Request) ([]byte, error) {
	d, err := r.d.describe(&program.Prepared{SQL: q.Text, Types: q.Types, Handle: r.d.room.name("d")})
	if err != nil || d.columns == nil {
		return nil, err
	}
	_, formats, err := splitBind(q.Bind)
	return described(d.frame, formats), err
}

// Call runs a function or a procedure. PostgreSQL describes the statement, so that it finds the routine and says what is wrong.
func (r *Run) Call(ctx context.Context, q Request) (*Result, error) {
	c, err := readCall(q.Text)
	if err != nil {
		return nil, err
	}
	values, formats, err := splitBind(q.Bind)
	if err != nil {
		return nil, err
	}
	d, err := r.d.describe(&program.Prepared{SQL: q.Text, Types: q.Types, Handle: r.d.room.name("d")})
	if err != nil {
		return nil, err
	}
	if err := r.prepare(); err != nil {
		return nil, err
	}
	p, err := r.routine(c)
	if err != nil {
		return nil, err
	}
	args, err := r.arguments(c, p, d.params, values)
	if err != nil {
		return nil, err
	}
	r.d.readOnly = !p.Volatile
	res, err := r.run(ctx, p, args)
	r.d.readOnly = false
	if err != nil {
		return nil, err
	}
	return r.result(c, p, res, d, formats)
}

// readCall reads the statement.
func readCall(text string) (*call, error) {
	tree, err := parser.Parse(text)
	if err != nil || len(tree.Stmts) != 1 {
		return nil, pgerr.New(pgerr.SyntaxError, "one statement is expected")
	}
	c := &call{}
	var f *pg_query.FuncCall
	if n := tree.Stmts[0].Stmt.GetCallStmt(); n != nil {
		c.procedure, f = true, n.Funccall
	} else if sel := tree.Stmts[0].Stmt.GetSelectStmt(); sel != nil && len(sel.FromClause) == 1 {
		c.from = true
		if items := sel.FromClause[0].GetRangeFunction().GetFunctions(); len(items) == 1 {
			f = items[0].GetList().GetItems()[0].GetFuncCall()
		}
	} else if len(sel.GetTargetList()) == 1 {
		f = sel.TargetList[0].GetResTarget().GetVal().GetFuncCall()
	}
	if f == nil {
		return nil, pgerr.New(pgerr.SyntaxError, "a call is expected")
	}
	for _, n := range f.Funcname {
		c.schema, c.name = c.name, n.GetString_().GetSval()
	}
	for _, a := range f.Args {
		if a.GetNamedArgExpr() != nil {
			return nil, &refusal{pgerr.New(pgerr.FeatureNotSupported, "%s touches sharded tables, and weft does not call it with named arguments", c.name).
				WithHint("Give the arguments by their places.")}
		}
		sql, err := parser.Deparse(&pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: &pg_query.SelectStmt{
			TargetList:  []*pg_query.Node{pg_query.MakeResTargetNodeWithVal(a, 0)},
			LimitOption: pg_query.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg_query.SetOperation_SETOP_NONE,
		}}})
		if err != nil {
			return nil, err
		}
		c.args = append(c.args, strings.TrimPrefix(sql, "SELECT "))
	}
	return c, nil
}

// routineQuery returns the routines that a call may mean, with the user's right to run them.
const routineQuery = `SELECT pg_catalog.pg_get_functiondef(p.oid), l.lanname, pg_catalog.pg_function_is_visible(p.oid),
 pg_catalog.has_function_privilege(p.oid, 'EXECUTE'),
 p.prosecdef AND p.proowner <> (SELECT a.oid FROM pg_catalog.pg_roles a WHERE a.rolname = CURRENT_USER), p.provariadic <> 0
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_language l ON l.oid = p.prolang JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
WHERE p.proname = $1 AND p.prokind = $3::"char" AND CASE WHEN $2 = '' THEN pg_catalog.pg_function_is_visible(p.oid) ELSE n.nspname = $2 END`

// routine finds and compiles the routine of a call. The catalog is asked each time: other sessions may have replaced the routine.
func (r *Run) routine(c *call) (*program.Program, error) {
	kind := "f"
	if c.procedure {
		kind = "p"
	}
	rows, err := r.ask(routineQuery, c.name, c.schema, kind)
	if err != nil {
		return nil, err
	}
	row := rows[0]
	refuse := func(hint, format string, args ...any) error {
		return &refusal{pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", hint)}
	}
	switch {
	case len(rows) > 1:
		return nil, refuse("Give it a name of its own.", "there are several functions %q, and weft cannot tell which one is called", c.name)
	case row[1].Text != "plpgsql" && row[1].Text != "sql":
		return nil, refuse("Write it in PL/pgSQL or SQL, or send its statements themselves.", "function %q touches sharded tables, and is written in %s", c.name, row[1].Text)
	case row[3].Text != "t":
		what := "function"
		if c.procedure {
			what = "procedure"
		}
		return nil, pgerr.New(pgerr.InsufficientPrivilege, "permission denied for %s %s", what, c.name)
	case row[4].Text == "t":
		return nil, refuse("Let its owner call it, or make it SECURITY INVOKER.", "function %q touches sharded tables, and would run with the rights of its owner", c.name)
	case row[5].Text == "t":
		return nil, refuse("Let it take an array.", "function %q touches sharded tables, and is VARIADIC", c.name)
	}
	text, visible := row[0].Text, row[2].Text == "t"
	p, err := r.d.room.compile(fmt.Sprint(r.conflict, visible, text), func() (program.Source, error) {
		src, err := program.FromText(text)
		if src.Conflict = r.conflict; visible {
			src.Schema = ""
		}
		return src, err
	})
	if err != nil {
		return nil, err
	}
	if len(p.Settings) > 0 {
		return nil, refuse("Leave SET out of its definition, and SET it before the call.", "function %q touches sharded tables, and sets %s while it runs", c.name, p.Settings[0])
	}
	return p, nil
}

// arguments lets PostgreSQL evaluate the arguments and cast them to the types that the routine declares. values are those of the parameters, as
// they stand in a Bind.
func (r *Run) arguments(c *call, p *program.Program, types []uint32, values []byte) ([]program.Value, error) {
	var casts []string
	var wanted []int
	at := 0
	for _, a := range p.Args {
		takes := a.Mode == program.In || a.Mode == program.InOut
		if !takes && (a.Mode != program.Out || !c.procedure) {
			continue
		}
		if at >= len(c.args) {
			break
		}
		if takes {
			casts, wanted = append(casts, "CAST("+c.args[at]+" AS "+a.Type+")"), append(wanted, at)
		}
		at++
	}
	out := make([]program.Value, len(c.args))
	if len(casts) == 0 {
		return out, nil
	}
	var got [][]program.Value
	q := &program.Prepared{SQL: "SELECT " + strings.Join(casts, ", "), Types: types, Handle: r.d.room.name("v")}
	_, err := r.d.execute(q, append(append([]byte(nil), values...), 0, 0), 0, func(body []byte) { got = append(got, valuesOf(body)) })
	if err != nil {
		return nil, err
	}
	if len(got) != 1 {
		return nil, &refusal{pgerr.New(pgerr.FeatureNotSupported, "function %q touches sharded tables, and is called for a set of values", c.name).
			WithHint("Call it once for each.")}
	}
	for i, at := range wanted {
		out[at] = got[0][i]
	}
	return out, nil
}

// splitBind returns the parameters of a Bind, as they stand in it, and the formats that it wants rows in. An empty Bind has none of both.
func splitBind(tail []byte) (values []byte, formats []int16, err error) {
	if len(tail) == 0 {
		return []byte{0, 0, 0, 0}, nil, nil
	}
	bad := pgerr.New(pgerr.ProtocolViolation, "invalid message format")
	if len(tail) < 2 {
		return nil, nil, bad
	}
	at := 2 + 2*int(binary.BigEndian.Uint16(tail))
	if len(tail) < at+2 {
		return nil, nil, bad
	}
	n := int(binary.BigEndian.Uint16(tail[at:]))
	at += 2
	for range n {
		if len(tail) < at+4 {
			return nil, nil, bad
		}
		size := int(int32(binary.BigEndian.Uint32(tail[at:])))
		if at += 4 + max(size, 0); len(tail) < at {
			return nil, nil, bad
		}
	}
	values = tail[:at]
	if len(tail) < at+2 {
		return nil, nil, bad
	}
	for b := tail[at+2:]; len(b) >= 2; b = b[2:] {
		formats = append(formats, int16(binary.BigEndian.Uint16(b)))
	}
	return values, formats, nil
}

// described returns a RowDescription that names the formats of a portal.
func described(body []byte, formats []int16) []byte {
	body = append([]byte(nil), body...)
	at := 2
	for i := 0; at < len(body); i++ {
		_, rest, ok := wire.CString(body[at:])
		if !ok || len(rest) < 18 {
			break
		}
		at = len(body) - len(rest) + 18
		binary.BigEndian.PutUint16(body[at-2:], uint16(formatOf(formats, i)))
	}
	return wire.AppendFrame(nil, wire.RowDescription, body)
}

// formatOf returns the format of a column: one code may stand for all.
func formatOf(formats []int16, i int) int16 {
	switch {
	case len(formats) == 1:
		return formats[0]
	case i < len(formats):
		return formats[i]
	}
	return 0
}
