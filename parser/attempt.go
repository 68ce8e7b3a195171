package parser

import (
	"slices"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/quote"
)

// Attempt is a text that tries an INSERT and tells by a row how it went, as ORMs write it:
//
//	CREATE FUNCTION pg_temp.f(OUT response "users", OUT trouble text) RETURNS RECORD AS $$ BEGIN
//	  INSERT INTO "users" … RETURNING * INTO response;
//	  EXCEPTION WHEN unique_violation THEN GET STACKED DIAGNOSTICS trouble = PG_EXCEPTION_DETAIL; END $$ LANGUAGE plpgsql;
//	SELECT (f.response)."id", f.trouble FROM pg_temp.f();
//	DROP FUNCTION pg_temp.f();
//
// A function runs on one shard. The INSERT alone can run where it belongs, and the SELECT over what came of it.
type Attempt struct {
	// Insert is the INSERT without its INTO.
	Insert string
	// Whole is the parameter that gets the row as one value, Into are those that get a column each. Without either,
	// nothing is returned.
	Whole string
	Into  []string
	// Caught are the SQLSTATEs that the function survives: whole ones, or classes of two characters. Told is what it then
	// tells, by parameter: the field of the error.
	Caught []string
	Told   map[string]byte

	function   string
	parameters []attemptParameter
	query      string // the SELECT
	start, end int    // of the call in it
	aliased    bool
}

type attemptParameter struct{ name, null string } // null is NULL of its type

// Catches reports whether the function survives an error.
func (a *Attempt) Catches(code string) bool {
	return slices.ContainsFunc(a.Caught, func(c string) bool { return strings.HasPrefix(code, c) })
}

// Answer is the SELECT over the values of the parameters, which are given as literals. Those that are not are NULL.
func (a *Attempt) Answer(values map[string]string) string {
	var b strings.Builder
	b.WriteString(a.query[:a.start])
	b.WriteString("(SELECT ")
	for i, p := range a.parameters {
		if i > 0 {
			b.WriteString(", ")
		}
		value, ok := values[p.name]
		if !ok {
			value = "NULL"
		}
		b.WriteString(value + strings.TrimPrefix(p.null, "NULL") + " AS " + quote.Ident(p.name))
	}
	b.WriteByte(')')
	if !a.aliased {
		b.WriteString(" AS " + quote.Ident(a.function))
	}
	b.WriteString(a.query[a.end:])
	return b.String()
}

// ReadAttempt reads such a text. It reports false for all others.
func ReadAttempt(text string, opt Options) (*Attempt, bool) {
	if opt.NonStandardStrings {
		return nil, false
	}
	r, tree, _, err := newIdentityRewriter(text, Identity{Options: opt})
	if err != nil || len(tree.Stmts) != 3 {
		return nil, false
	}
	a := &Attempt{Told: map[string]byte{}}
	body, ok := a.definition(tree.Stmts[0].Stmt.GetCreateFunctionStmt())
	if !ok || !a.dropped(tree.Stmts[2].Stmt.GetDropStmt()) || !a.called(r, tree.Stmts[1]) {
		return nil, false
	}
	scan, err := pg_query.Scan(body)
	if err != nil {
		return nil, false
	}
	read := attemptReader{Attempt: a, text: body, tokens: significantTokens(scan.Tokens)}
	return a, read.block()
}

// definition takes CREATE FUNCTION and returns its body.
func (a *Attempt) definition(f *pg_query.CreateFunctionStmt) (body string, ok bool) {
	if f == nil || f.IsProcedure || f.SqlBody != nil || len(f.Parameters) < 2 {
		return "", false
	}
	if a.function, ok = temporaryFunction(f.Funcname); !ok {
		return "", false
	}
	for _, n := range f.Parameters {
		p := n.GetFunctionParameter()
		null, ok := nullOf(p.GetArgType())
		if p.GetMode() != pg_query.FunctionParameterMode_FUNC_PARAM_OUT || p.Name == "" || !ok {
			return "", false
		}
		a.parameters = append(a.parameters, attemptParameter{p.Name, null})
	}
	language := ""
	for _, n := range f.Options {
		o := n.GetDefElem()
		switch o.GetDefname() {
		case "language":
			language = o.Arg.GetString_().GetSval()
		case "as":
			if items := o.Arg.GetList().GetItems(); len(items) == 1 {
				body = items[0].GetString_().GetSval()
			}
		default:
			return "", false // it may run as somebody else, or under other settings
		}
	}
	return body, language == "plpgsql" && body != ""
}

// nullOf writes NULL as a value of a type.
func nullOf(t *pg_query.TypeName) (string, bool) {
	if t == nil || t.PctType || t.Setof {
		return "", false
	}
	null := &pg_query.Node{Node: &pg_query.Node_AConst{AConst: &pg_query.A_Const{Isnull: true}}}
	target := &pg_query.Node{Node: &pg_query.Node_ResTarget{ResTarget: &pg_query.ResTarget{
		Val: &pg_query.Node{Node: &pg_query.Node_TypeCast{TypeCast: &pg_query.TypeCast{Arg: null, TypeName: t}}},
	}}}
	text, err := Deparse(&pg_query.Node{Node: &pg_query.Node_SelectStmt{SelectStmt: &pg_query.SelectStmt{
		TargetList: []*pg_query.Node{target}, LimitOption: pg_query.LimitOption_LIMIT_OPTION_DEFAULT, Op: pg_query.SetOperation_SETOP_NONE,
	}}})
	cast, ok := strings.CutPrefix(text, "SELECT ")
	return cast, err == nil && ok && strings.HasPrefix(cast, "NULL::")
}

// temporaryFunction returns the name of a function of pg_temp.
func temporaryFunction(names []*pg_query.Node) (string, bool) {
	if len(names) != 2 || !isTempSchema(names[0].GetString_().GetSval()) {
		return "", false
	}
	return names[1].GetString_().GetSval(), true
}

func (a *Attempt) dropped(d *pg_query.DropStmt) bool {
	if d.GetRemoveType() != pg_query.ObjectType_OBJECT_FUNCTION || len(d.Objects) != 1 {
		return false
	}
	o := d.Objects[0].GetObjectWithArgs()
	name, ok := temporaryFunction(o.GetObjname())
	return ok && name == a.function && len(o.Objargs) == 0
}

// called takes the SELECT, whose rows are those of the function.
func (a *Attempt) called(r *identityRewriter, raw *pg_query.RawStmt) bool {
	s := raw.Stmt.GetSelectStmt()
	if s == nil || len(s.FromClause) != 1 {
		return false
	}
	from := s.FromClause[0].GetRangeFunction()
	if from == nil || from.Lateral || from.Ordinality || from.IsRowsfrom || len(from.Coldeflist) > 0 || len(from.Functions) != 1 {
		return false
	}
	var call *pg_query.FuncCall
	if items := from.Functions[0].GetList().GetItems(); len(items) > 0 {
		call = items[0].GetFuncCall()
	}
	name, ok := temporaryFunction(call.GetFuncname())
	if !ok || name != a.function || len(call.Args) > 0 {
		return false
	}
	calls := 0
	walk(raw.Stmt, func(m any) bool {
		if f, ok := m.(*pg_query.FuncCall); ok && len(f.Funcname) > 0 && f.Funcname[len(f.Funcname)-1].GetString_().GetSval() == name {
			calls++
		}
		return true
	})
	start, end, _ := r.call(call)
	if r.err != nil || calls != 1 {
		return false
	}
	first := int(raw.StmtLocation)
	a.query = r.text[first : first+int(raw.StmtLen)]
	a.start, a.end, a.aliased = start-first, end-first, from.Alias != nil
	return true
}
