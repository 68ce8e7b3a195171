package program

import (
	"strings"

	"weft/pgerr"
)

// statement reads one statement with the semicolon behind it.
func (r *reader) statement() Stmt {
	if r.assigns() {
		return r.assign()
	}
	if label := r.label(); label != "" {
		return r.labelled(label)
	}
	t := r.peek()
	if t.quoted {
		return r.other()
	}
	switch t.word {
	case "declare", "begin", "loop", "while", "for", "foreach":
		return r.labelled("")
	case "if":
		return r.ifStmt()
	case "case":
		return r.caseStmt()
	case "exit", "continue":
		return r.exit()
	case "return":
		return r.returnStmt()
	case "raise":
		return r.raise()
	case "assert":
		return r.assert()
	case "execute":
		return r.execute()
	case "perform":
		return r.perform()
	case "call", "do":
		return r.call()
	case "get":
		return r.diagnostics()
	case "open":
		return r.open()
	case "fetch", "move":
		return r.fetch()
	case "close":
		s := &Close{place: r.here("CLOSE")}
		r.next()
		s.Cursor = r.cursorVar()
		r.expect(";")
		return s
	case "commit", "rollback":
		return r.end()
	case "null":
		r.next()
		r.expect(";")
		return nil
	}
	return r.other()
}

// labelled reads a block or loop.
func (r *reader) labelled(label string) Stmt {
	switch {
	case r.peek().is("declare"), r.peek().is("begin"):
		b := r.block(label)
		r.expect(";")
		return b
	case r.peek().is("loop"):
		return r.loop(label, nil)
	case r.peek().is("while"):
		return r.loop(label, func() *Expr {
			r.next()
			return r.expr(Expression, "loop")
		})
	case r.peek().is("for"):
		return r.forStmt(label)
	case r.peek().is("foreach"):
		return r.foreach(label)
	}
	r.fail()
	return nil
}

// other reads an assignment or a statement of SQL.
func (r *reader) other() Stmt {
	t := r.peek()
	if t.isName() && !t.quoted && t.word != "insert" && t.word != "merge" || t.quoted {
		i := 1
		for r.ahead(i).is(".") {
			i += 2
		}
		if n := r.ahead(i); n.is(":=") || n.is("=") || n.is("[") {
			return r.assign()
		}
	}
	return r.sql()
}

// target reads what is assigned to, up to one of some tokens. An error names it.
func (r *reader) target() *Target {
	t := &Target{scope: r.scope}
	tok := r.next()
	if tok.word == "" && strings.HasPrefix(tok.text, "$") {
		t.Names = []string{tok.text}
	} else {
		r.pos--
		t.Names = []string{r.name()}
	}
	for r.accept(".") {
		t.Names = append(t.Names, r.name())
	}
	v, n := r.scope.find(t.Names, mayBeRecord)
	if v == nil || n < len(t.Names)-1 {
		panic(syntax(`"%s" is not a known variable`, strings.Join(t.Names, ".")))
	}
	if v.Constant {
		panic(pgerr.New("22005", `variable "%s" is declared CONSTANT`, v.Name))
	}
	return t
}

// assign reads target := expr;
func (r *reader) assign() Stmt {
	s := &Assign{place: r.here("assignment")}
	start := r.peek().start
	s.Target = r.target()
	for r.accept("[") {
		sub := r.expr(Expression, "]", ":")
		if r.peek().is(":") {
			panic(refuse("an assignment to a slice of an array"))
		}
		r.expect("]")
		s.Target.Subscripts = append(s.Target.Subscripts, sub)
	}
	if r.peek().is(".") {
		panic(refuse("an assignment to a field of an element"))
	}
	if !r.accept(":=") {
		r.expect("=")
	}
	s.Expr = r.expr(Assignment, ";")
	s.Expr.Shown = strings.TrimRight(r.text[start:r.peek().start], " \t\n\r\f\v")
	r.expect(";")
	return s
}

// ifStmt reads IF.
func (r *reader) ifStmt() Stmt {
	s := &If{place: r.here("IF")}
	for {
		arm := Arm{Line: r.line(r.next().start)} // IF, ELSIF or ELSEIF
		arm.Cond = r.expr(Expression, "then")
		r.next()
		arm.Body = r.body("elsif", "elseif", "else", "end")
		s.Arms = append(s.Arms, arm)
		if !r.peek().is("elsif") && !r.peek().is("elseif") {
			break
		}
	}
	if r.accept("else") {
		s.Else = r.body("end")
	}
	r.words("end", "if", ";")
	return s
}

// caseStmt reads CASE.
func (r *reader) caseStmt() Stmt {
	s := &Case{place: r.here("CASE")}
	r.next()
	scope := r.scope
	if !r.peek().is("when") {
		s.Test = r.expr(Expression, "when")
		// The variable has a name that no other has, as in PostgreSQL.
		r.cases++
		s.Var = &Var{Name: "__Case__Variable_" + strings.Repeat("_", r.cases), Type: TypeName{Text: "integer"}, Line: s.Line}
		s.Var.index = len(r.vars)
		r.vars = append(r.vars, s.Var)
	}
	for r.accept("when") {
		arm := Arm{Line: r.line(r.toks[r.pos-1].start)}
		if s.Test == nil {
			arm.Cond = r.expr(Expression, "then")
		} else {
			start := r.peek().start
			for depth := 0; depth > 0 || !r.peek().is("then"); {
				t := r.next()
				if t.kind == 0 {
					r.fail()
				}
				if t.is("(") || t.is("[") {
					depth++
				} else if t.is(")") || t.is("]") {
					depth--
				}
			}
			list := strings.TrimSpace(r.text[start:r.peek().start])
			r.add(s.Var.Name, s.Var)
			arm.Cond = r.parsed(&Expr{Text: `"` + s.Var.Name + `" IN (` + list + `)`, Line: r.line(start), scope: r.scope})
			r.scope = scope
		}
		r.expect("then")
		arm.Body = r.body("when", "else", "end")
		s.Arms = append(s.Arms, arm)
	}
	if len(s.Arms) == 0 {
		r.fail()
	}
	if r.accept("else") {
		s.HasElse = true
		s.Else = r.body("end")
	}
	r.words("end", "case", ";")
	return s
}

// into reads the variables that a row goes to.
func (r *reader) into() *Into {
	in := &Into{}
	for {
		in.Targets = append(in.Targets, r.target())
		if !r.accept(",") {
			return in
		}
	}
}

// exit reads EXIT and CONTINUE.
func (r *reader) exit() Stmt {
	s := &Exit{place: r.here(strings.ToUpper(r.peek().word)), Continue: r.peek().is("continue")}
	r.next()
	if r.peek().isName() {
		s.Label = r.name()
	}
	found := r.scope.label(s.Label)
	if s.Label == "" {
		for found = r.scope; found != nil && !found.loop; {
			found = found.prev
		}
	}
	switch {
	case s.Label == "" && found == nil && s.Continue:
		panic(syntax("CONTINUE cannot be used outside a loop"))
	case s.Label == "" && found == nil:
		panic(syntax("EXIT cannot be used outside a loop, unless it has a label"))
	case found == nil:
		panic(syntax(`there is no label "%s" attached to any block or loop enclosing this statement`, s.Label))
	case s.Continue && !found.loop:
		panic(syntax(`block label "%s" cannot be used in CONTINUE`, s.Label))
	}
	if r.accept("when") {
		s.When = r.expr(Expression, ";")
	}
	r.expect(";")
	return s
}

// perform reads PERFORM, which is a SELECT whose rows are dropped.
func (r *reader) perform() Stmt {
	s := &Perform{place: r.here("PERFORM")}
	r.next()
	start := r.peek().start
	r.skip()
	text := "SELECT " + strings.TrimRight(r.text[start:r.peek().start], " \t\n\r\f\v")
	s.Query = r.parsed(&Expr{Text: text, Mode: Statement, Line: s.Line, scope: r.scope})
	r.expect(";")
	return s
}

// skip goes to the semicolon of a statement.
func (r *reader) skip() {
	for !r.peek().is(";") {
		if r.next().kind == 0 {
			panic(syntax("unexpected end of function definition"))
		}
	}
}

// sql reads a statement of SQL, and takes INTO out of it.
func (r *reader) sql() Stmt {
	s := &SQL{place: r.here("SQL statement")}
	first := r.peek()
	start, intoStart, intoEnd := first.start, -1, -1
	if first.word == "" || first.is("end") {
		r.fail()
	}
	for prev := (token{}); !r.peek().is(";"); {
		t := r.next()
		if t.kind == 0 {
			panic(syntax("unexpected end of function definition"))
		}
		if t.is("into") && !prev.is("insert") && !prev.is("merge") && !first.is("import") {
			if s.Into != nil {
				panic(syntax("INTO specified more than once"))
			}
			intoStart = t.start
			s.Strict = r.accept("strict")
			s.Into = r.into()
			intoEnd = r.peek().start
		}
		prev = t
	}
	text := r.text[start:r.peek().start]
	if s.Into != nil {
		text = r.text[start:intoStart] + strings.Repeat(" ", intoEnd-intoStart) + r.text[intoEnd:r.peek().start]
	}
	s.Query = r.parsed(&Expr{Text: strings.TrimRight(text, " \t\n\r\f\v"), Mode: Statement, Line: s.Line, scope: r.scope})
	r.expect(";")
	return s
}

// execute reads EXECUTE; INTO and USING come in any order.
func (r *reader) execute() Stmt {
	s := &Execute{place: r.here("EXECUTE")}
	r.next()
	s.Query = r.expr(Expression, "into", "using", ";")
	for {
		switch {
		case r.accept(";"):
			return s
		case s.Into == nil && r.accept("into"):
			s.Strict = r.accept("strict")
			s.Into = r.into()
		case s.Using == nil && r.accept("using"):
			s.Using = r.list(";", "into")
		default:
			r.fail()
		}
	}
}

// call reads CALL and DO.
func (r *reader) call() Stmt {
	s := &Call{place: r.here(strings.ToUpper(r.peek().word))}
	start := r.peek().start
	if r.peek().is("do") {
		panic(refuse("DO inside a program"))
	}
	r.skip()
	s.Query = r.piece(Statement, start, r.peek().start)
	r.expect(";")
	return s
}

// end reads COMMIT and ROLLBACK.
func (r *reader) end() Stmt {
	s := &End{place: r.here(strings.ToUpper(r.peek().word)), Rollback: r.peek().is("rollback")}
	r.next()
	if r.accept("and") {
		s.Chain = !r.accept("no")
		r.expect("chain")
	}
	r.expect(";")
	return s
}

// cursorVar reads a variable that holds a cursor.
func (r *reader) cursorVar() *Var {
	t := r.next()
	v, n := r.scope.find([]string{t.word}, mayBeRecord)
	if v == nil || n != 1 || r.peek().is(".") {
		panic(syntax("cursor variable must be a simple variable"))
	}
	if !isCursor(v) {
		panic(pgerr.New("42804", `variable "%s" must be of type cursor or refcursor`, v.Name))
	}
	return v
}
