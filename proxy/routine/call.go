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
	f         *pg_query.FuncCall
	args      []callArg
}

// callArg is an argument of a call.
type callArg struct {
	name string // empty for an argument that is given by its place
	node *pg_query.Node
	sql  string
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
	k, err := r.resolve(c, q.Types, d.params)
	if err != nil {
		return nil, err
	}
	if err := k.mayRun(c); err != nil {
		return nil, err
	}
	args, err := r.arguments(c, k, d.params, values)
	if err != nil {
		return nil, err
	}
	if err := r.enter(c, k); err != nil {
		return nil, err
	}
	p, err := r.routine(k)
	if err != nil {
		return nil, err
	}
	if p.SecurityDefiner || len(p.Settings) > 0 {
		r.cfg.Loose, r.d.room.loose = false, false
	}
	if p.SecurityDefiner {
		r.d.room.definers++
	}
	r.d.readOnly = !p.Volatile
	res, err := r.run(ctx, p, args)
	r.d.readOnly = false
	if err == nil {
		err = r.leave(c)
	}
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
	c.f = f
	for _, n := range f.Funcname {
		c.schema, c.name = c.name, n.GetString_().GetSval()
	}
	for _, n := range f.Args {
		a := callArg{node: n}
		if named := n.GetNamedArgExpr(); named != nil {
			a = callArg{name: named.Name, node: named.Arg}
		}
		if a.sql, err = parser.Deparse(selectOf(a.node)); err != nil {
			return nil, err
		}
		a.sql = strings.TrimPrefix(a.sql, "SELECT ")
		c.args = append(c.args, a)
	}
	return c, nil
}

// selectOf is SELECT of some expressions.
func selectOf(items ...*pg_query.Node) *pg_query.Node {
	sel := &pg_query.SelectStmt{LimitOption: pg_query.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg_query.SetOperation_SETOP_NONE}
	for _, n := range items {
		sel.TargetList = append(sel.TargetList, pg_query.MakeResTargetNodeWithVal(n, 0))
	}
	return &pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: sel}}
}

// mayRun returns the reason why weft does not run a routine, or nil.
func (k *candidate) mayRun(c *call) error {
	switch {
	case k.language != "plpgsql" && k.language != "sql" || k.kind != "f" && k.kind != "p":
		return refuse("Write it in PL/pgSQL or SQL, or send its statements themselves.", "function %q touches sharded tables, and is written in %s", c.name, k.language)
	case !k.allowed:
		what := "function"
		if c.procedure {
			what = "procedure"
		}
		return pgerr.New(pgerr.InsufficientPrivilege, "permission denied for %s %s", what, c.name)
	case k.another:
		return refuse("Let its owner call it, make it SECURITY INVOKER, or let it run on the shard of an argument: SELECT weft.distribute_function('"+c.name+"', 'argument').",
			"function %q touches sharded tables, and would run with the rights of its owner", c.name)
	}
	return nil
}

// routine compiles the routine of a call, whose SET clauses hold. The catalog is asked each time: other sessions may have replaced the routine.
func (r *Run) routine(k *candidate) (*program.Program, error) {
	rows, err := r.ask("SELECT pg_catalog.pg_get_functiondef($1::pg_catalog.oid), pg_catalog.pg_function_is_visible($1::pg_catalog.oid)", k.oid)
	if err != nil {
		return nil, err
	}
	text, visible := rows[0][0].Text, rows[0][1].Text == "t"
	return r.d.room.compile(fmt.Sprint(r.conflict, visible, text), func() (program.Source, error) {
		src, err := program.FromText(text)
		if src.Conflict = r.conflict; visible {
			src.Schema = ""
		}
		return src, err
	})
}

func refuse(hint, format string, args ...any) error {
	return &refusal{pgerr.New(pgerr.FeatureNotSupported, format, args...).WithHint("%s", hint)}
}

// arguments lets PostgreSQL evaluate the arguments and cast them to the types that the routine declares. values are those of the parameters, as
// they stand in a Bind.
func (r *Run) arguments(c *call, k *candidate, types []uint32, values []byte) ([]program.Value, error) {
	items, wanted := k.values(c)
	out := make([]program.Value, len(k.inputs))
	if len(items) == 0 {
		return out, nil
	}
	var got [][]program.Value
	q := &program.Prepared{SQL: "SELECT " + strings.Join(items, ", "), Types: types, Handle: r.d.room.name("v")}
	_, err := r.d.execute(q, append(append([]byte(nil), values...), 0, 0), 0, func(body []byte) { got = append(got, valuesOf(body)) })
	if err != nil {
		return nil, err
	}
	if len(got) != 1 {
		return nil, refuse("Call it once for each.", "function %q touches sharded tables, and is called for a set of values", c.name)
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
