package program

import (
	"strconv"
	"strings"

	pg_query "github.com/pganalyze/pg_query_go/v6"

	"weft/pgerr"
)

// returnStmt reads the kinds of RETURN.
func (r *reader) returnStmt() Stmt {
	where := r.here("RETURN")
	r.next()
	switch {
	case r.peek().is("next") && r.set:
		r.next()
		where.Kind = "RETURN NEXT"
		s := &ReturnNext{place: where}
		if !r.peek().is(";") {
			s.Expr = r.expr(Expression, ";")
		}
		r.expect(";")
		return s
	case r.peek().is("query") && r.set:
		r.next()
		where.Kind = "RETURN QUERY"
		s := &ReturnQuery{place: where}
		if r.accept("execute") {
			s.Dynamic = r.expr(Expression, ";", "using")
			if r.accept("using") {
				s.Using = r.list(";")
			}
		} else {
			s.Query = r.expr(Statement, ";")
		}
		r.expect(";")
		return s
	case (r.peek().is("next") || r.peek().is("query")) && !r.ahead(1).is(";"):
		panic(pgerr.New("42804", "cannot use RETURN %s in a non-SETOF function", strings.ToUpper(r.peek().word)))
	}
	s := &Return{place: where}
	if !r.peek().is(";") {
		if r.set {
			panic(pgerr.New("42804", "RETURN cannot have a parameter in function returning set").
				WithHint("Use RETURN NEXT or RETURN QUERY."))
		}
		s.Expr = r.expr(Expression, ";")
	}
	r.expect(";")
	return s
}

// raise reads RAISE.
func (r *reader) raise() Stmt {
	s := &Raise{place: r.here("RAISE"), Level: "ERROR"}
	r.next()
	if r.accept(";") {
		s.Again = true
		return s
	}
	switch t := r.peek(); {
	case t.is("exception"):
		r.next()
	case t.is("warning"), t.is("notice"), t.is("info"), t.is("log"), t.is("debug"):
		s.Level = strings.ToUpper(r.next().word)
	}
	switch t := r.peek(); {
	case t.is(";"):
		r.fail()
	case t.kind == pg_query.Token_SCONST:
		s.Message, s.HasText = r.stringLiteral(), true
		for r.accept(",") {
			s.Params = append(s.Params, r.expr(Expression, ",", ";", "using"))
		}
	case t.is("using"):
	case t.is("sqlstate"):
		r.next()
		if s.Code = r.stringLiteral(); !validCode(s.Code) {
			panic(syntax("invalid SQLSTATE code"))
		}
		s.Cond = s.Code
	default:
		s.Cond = r.name()
		codes := conditionCodes(s.Cond)
		if codes == nil {
			panic(pgerr.New(pgerr.UndefinedObject, `unrecognized exception condition "%s"`, s.Cond))
		}
		s.Code = codes[0]
	}
	if r.accept("using") {
		for {
			o := RaiseOption{Name: strings.ToUpper(r.next().word)}
			switch o.Name {
			case "ERRCODE", "MESSAGE", "DETAIL", "HINT", "COLUMN", "CONSTRAINT", "DATATYPE", "TABLE", "SCHEMA":
			default:
				panic(syntax("unrecognized RAISE statement option"))
			}
			if !r.accept("=") {
				r.expect(":=")
			}
			o.Expr = r.expr(Expression, ",", ";")
			s.Options = append(s.Options, o)
			if !r.accept(",") {
				break
			}
		}
	}
	r.expect(";")
	if s.HasText {
		switch n := strings.Count(strings.ReplaceAll(s.Message, "%%", ""), "%"); {
		case n > len(s.Params):
			panic(syntax("too few parameters specified for RAISE"))
		case n < len(s.Params):
			panic(syntax("too many parameters specified for RAISE"))
		}
	}
	return s
}

// assert reads ASSERT.
func (r *reader) assert() Stmt {
	s := &Assert{place: r.here("ASSERT")}
	r.next()
	s.Cond = r.expr(Expression, ",", ";")
	if r.accept(",") {
		s.Message = r.expr(Expression, ";")
	}
	r.expect(";")
	return s
}

// diagnosticsItems are the items of GET DIAGNOSTICS, and whether they are of GET STACKED DIAGNOSTICS.
var diagnosticsItems = map[string]bool{
	"ROW_COUNT": false, "PG_CONTEXT": false, "RETURNED_SQLSTATE": true, "MESSAGE_TEXT": true, "PG_EXCEPTION_DETAIL": true,
	"PG_EXCEPTION_HINT": true, "PG_EXCEPTION_CONTEXT": true, "COLUMN_NAME": true, "CONSTRAINT_NAME": true,
	"PG_DATATYPE_NAME": true, "TABLE_NAME": true, "SCHEMA_NAME": true,
}

// diagnostics reads GET DIAGNOSTICS.
func (r *reader) diagnostics() Stmt {
	s := &Diagnostics{place: r.here("GET DIAGNOSTICS")}
	r.next()
	if r.accept("stacked") {
		s.Stacked = true
		s.Kind = "GET STACKED DIAGNOSTICS"
	} else {
		r.accept("current")
	}
	r.expect("diagnostics")
	for {
		item := DiagnosticsItem{Target: r.target()}
		if !r.accept("=") {
			r.expect(":=")
		}
		item.Kind = strings.ToUpper(r.next().word)
		stacked, known := diagnosticsItems[item.Kind]
		switch {
		case item.Kind == "PG_ROUTINE_OID":
			panic(refuse("PG_ROUTINE_OID"))
		case !known:
			panic(syntax("unrecognized GET DIAGNOSTICS item"))
		case stacked && !s.Stacked:
			panic(syntax("diagnostics item %s is not allowed in GET CURRENT DIAGNOSTICS", item.Kind))
		case !stacked && s.Stacked:
			panic(syntax("diagnostics item %s is not allowed in GET STACKED DIAGNOSTICS", item.Kind))
		}
		s.Items = append(s.Items, item)
		if !r.accept(",") {
			break
		}
	}
	r.expect(";")
	return s
}

// open reads OPEN.
func (r *reader) open() Stmt {
	s := &Open{place: r.here("OPEN")}
	r.next()
	s.Cursor = r.cursorVar()
	if s.Cursor.Cursor != nil {
		s.Args = r.cursorArgs(s.Cursor)
		r.expect(";")
		return s
	}
	switch {
	case r.accept("scroll"):
		s.Options = "SCROLL"
	case r.accept("no"):
		r.expect("scroll")
		s.Options = "NO SCROLL"
	}
	r.expect("for")
	if r.accept("execute") {
		s.Dynamic = r.expr(Expression, ";", "using")
		if r.accept("using") {
			s.Using = r.list(";")
		}
	} else {
		s.Query = r.expr(Statement, ";")
	}
	r.expect(";")
	return s
}

// cursorArgs reads the values of the arguments of a bound cursor.
func (r *reader) cursorArgs(v *Var) []CursorArg {
	if !r.peek().is("(") {
		if len(v.Cursor.Args) > 0 {
			panic(syntax(`cursor "%s" has arguments`, v.Name))
		}
		return nil
	}
	if len(v.Cursor.Args) == 0 {
		panic(syntax(`cursor "%s" has no arguments`, v.Name))
	}
	r.next()
	args := make([]CursorArg, len(v.Cursor.Args))
	for i := range args {
		at := i
		if t := r.peek(); t.isName() && (r.ahead(1).is(":=") || r.ahead(1).is("=>")) {
			r.next()
			r.next()
			at = -1
			for j, a := range v.Cursor.Args {
				if a.Name == t.word {
					at = j
				}
			}
			if at < 0 {
				panic(syntax(`cursor "%s" has no argument named "%s"`, v.Name, t.word))
			}
		}
		if args[at].Expr != nil {
			panic(syntax(`value for parameter "%s" of cursor "%s" specified more than once`, v.Cursor.Args[at].Name, v.Name))
		}
		args[at] = CursorArg{Name: v.Cursor.Args[at].Name, Expr: r.expr(Expression, ",", ")")}
		if i == len(args)-1 {
			break
		}
		if !r.accept(",") {
			panic(syntax(`not enough arguments for cursor "%s"`, v.Name))
		}
	}
	if r.peek().is(",") {
		panic(syntax(`too many arguments for cursor "%s"`, v.Name))
	}
	r.expect(")")
	return args
}

// fetch reads FETCH and MOVE.
func (r *reader) fetch() Stmt {
	s := &Fetch{place: r.here(strings.ToUpper(r.peek().word))}
	move := r.next().is("move")
	many := false
	count := func(format string, until ...string) {
		s.Direction = format
		s.Count = r.expr(Expression, until...)
	}
	s.Direction = "NEXT"
	switch t := r.peek(); {
	case t.is("next"), t.is("prior"), t.is("first"), t.is("last"):
		s.Direction = strings.ToUpper(r.next().word)
	case t.is("absolute"), t.is("relative"):
		count(strings.ToUpper(r.next().word)+" %s", "from", "in")
	case t.is("all"):
		r.next()
		s.Direction, many = "ALL", true
	case t.is("forward"), t.is("backward"):
		word := strings.ToUpper(r.next().word)
		switch {
		case r.peek().is("from"), r.peek().is("in"):
			s.Direction = word
		case r.accept("all"):
			s.Direction, many = word+" ALL", true
		default:
			count(word+" %s", "from", "in")
			many = true
		}
	case t.is("from"), t.is("in"):
	default:
		// The name of a cursor, or a number of rows.
		if v, n := r.scope.find([]string{t.word}, mayBeRecord); v == nil || n != 1 || !isCursor(v) {
			count("FORWARD %s", "from", "in")
			many = true
		}
	}
	if !r.accept("from") {
		r.accept("in")
	}
	s.Cursor = r.cursorVar()
	if move {
		r.expect(";")
		return s
	}
	if many {
		panic(syntax("FETCH statement cannot return multiple rows"))
	}
	r.expect("into")
	s.Into = r.into()
	r.expect(";")
	return s
}

func atoi(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1
	}
	return n
}

// unquote returns the value of a string literal.
func unquote(text string) (string, bool) {
	res, err := pg_query.Parse("SELECT " + text)
	if err != nil || len(res.Stmts) != 1 {
		return "", false
	}
	list := res.Stmts[0].Stmt.GetSelectStmt().GetTargetList()
	if len(list) != 1 {
		return "", false
	}
	c := list[0].GetResTarget().GetVal().GetAConst()
	if c == nil || c.GetSval() == nil {
		return "", false
	}
	return c.GetSval().Sval, true
}
