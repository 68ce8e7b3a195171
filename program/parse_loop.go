package program

// loop reads LOOP or WHILE.
func (r *reader) loop(label string, cond func() *Expr) Stmt {
	r.push(label, true)
	defer r.pop()
	s := &Loop{place: r.here("LOOP"), Label: label}
	if cond != nil {
		s.Kind = "WHILE"
		s.Cond = cond()
	}
	s.Body = r.loopBody(label)
	return s
}

// loopBody reads LOOP … END LOOP label;
func (r *reader) loopBody(label string) []Stmt {
	r.expect("loop")
	body := r.body("end")
	r.words("end", "loop")
	r.endLabel(label)
	r.expect(";")
	return body
}

// forStmt reads the kinds of FOR.
func (r *reader) forStmt(label string) Stmt {
	r.push(label, true)
	defer r.pop()
	where := r.here("FOR")
	r.next()
	// The name of the loop variable is read when it is clear what kind of loop it is.
	names := r.pos
	for !r.peek().is("in") {
		if t := r.next(); t.kind == 0 || t.is(";") {
			r.pos--
			r.fail()
		}
	}
	r.next()
	if r.peek().is("execute") {
		return r.forDynamic(label, where, names)
	}
	if v, n := r.scope.find([]string{r.peek().word}, mayBeRecord); v != nil && n == 1 && isCursor(v) {
		return r.forCursor(label, where, names, v)
	}
	reverse := r.peek().is("reverse")
	start := r.pos
	if reverse {
		r.next()
	}
	if r.rangeAhead() {
		return r.forInt(label, where, names, reverse)
	}
	r.pos = start
	s := &ForQuery{place: where, Label: label}
	s.Kind = "FOR over SELECT rows"
	s.Query = r.expr(Statement, "loop")
	s.Into = r.loopTarget(names)
	s.Body = r.loopBody(label)
	return s
}

// rangeAhead reports whether .. comes before LOOP.
func (r *reader) rangeAhead() bool {
	depth := 0
	for i := r.pos; i < len(r.toks); i++ {
		switch t := r.toks[i]; {
		case t.is("(") || t.is("["):
			depth++
		case t.is(")") || t.is("]"):
			depth--
		case depth == 0 && t.is(".."):
			return true
		case depth == 0 && (t.is("loop") || t.is(";")):
			return false
		}
	}
	return false
}

// loopTarget reads the variables of a loop over rows, which begin at a token.
func (r *reader) loopTarget(names int) *Into {
	behind := r.pos
	r.pos = names
	into := r.into()
	r.expect("in")
	r.pos = behind
	return into
}

func (r *reader) forInt(label string, where place, names int, reverse bool) Stmt {
	s := &ForInt{place: where, Label: label, Reverse: reverse}
	s.Kind = "FOR with integer loop variable"
	s.Lower = r.expr(Expression, "..")
	r.next()
	s.Upper = r.expr(Expression, "loop", "by")
	if r.accept("by") {
		s.Step = r.expr(Expression, "loop")
	}
	name := r.toks[names]
	if !name.isName() || !r.toks[names+1].is("in") {
		panic(syntax("integer FOR loop must have only one target variable"))
	}
	s.Var = r.declare(&Var{Name: name.word, Line: where.Line, Type: TypeName{Text: "integer"}})
	s.Body = r.loopBody(label)
	return s
}

func (r *reader) forDynamic(label string, where place, names int) Stmt {
	s := &ForQuery{place: where, Label: label}
	s.Kind = "FOR over EXECUTE statement"
	r.next()
	s.Dynamic = r.expr(Expression, "loop", "using")
	if r.accept("using") {
		s.Using = r.list("loop")
	}
	s.Into = r.loopTarget(names)
	s.Body = r.loopBody(label)
	return s
}

func (r *reader) forCursor(label string, where place, names int, v *Var) Stmt {
	s := &ForCursor{place: where, Label: label, Cursor: v}
	s.Kind = "FOR over cursor"
	r.next()
	if v.Cursor == nil {
		panic(syntax("cursor FOR loop must use a bound cursor variable"))
	}
	s.Args = r.cursorArgs(v)
	name := r.toks[names]
	if !name.isName() || !r.toks[names+1].is("in") {
		panic(syntax("cursor FOR loop must have only one target variable"))
	}
	s.Var = r.declare(&Var{Name: name.word, Line: where.Line, Type: TypeName{Text: "record"}})
	from, ends := r.pos, false
	s.Body = r.loopBody(label)
	for _, t := range r.toks[from:r.pos] {
		switch t.word {
		case "fetch", "move", "close", "current":
			s.Steps = true
		case "commit", "rollback":
			ends = true
		}
	}
	if s.Steps && ends {
		panic(refuse("a loop over a cursor that looks at cursors and ends the transaction").WithHint("Loop over the query."))
	}
	return s
}

func isCursor(v *Var) bool {
	return v.Cursor != nil || lower(v.Type.Text) == "refcursor" || lower(v.Type.Text) == "pg_catalog.refcursor"
}

// list reads expressions up to a token.
func (r *reader) list(until ...string) []*Expr {
	var out []*Expr
	for {
		out = append(out, r.expr(Expression, append([]string{","}, until...)...))
		if !r.accept(",") {
			return out
		}
	}
}

// foreach reads FOREACH.
func (r *reader) foreach(label string) Stmt {
	r.push(label, true)
	defer r.pop()
	s := &Foreach{place: r.here("FOREACH over array"), Label: label}
	r.next()
	s.Into = r.into()
	if r.accept("slice") {
		n := r.next()
		s.Slice = atoi(n.text)
		if s.Slice < 0 {
			r.pos--
			r.fail()
		}
	}
	r.words("in", "array")
	s.Array = r.expr(Expression, "loop")
	s.Body = r.loopBody(label)
	return s
}
