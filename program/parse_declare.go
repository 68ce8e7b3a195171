package program

import (
	"strings"

	"weft/pgerr"
)

// declarations reads what stands between DECLARE and BEGIN.
func (r *reader) declarations(b *Block) {
	for !r.peek().is("begin") {
		if r.accept("declare") { // DECLARE may be repeated
			continue
		}
		if r.peek().text == "<<" {
			panic(syntax("block label must be placed before DECLARE, not after"))
		}
		line := r.line(r.peek().start)
		name := r.name()
		if r.scope.local(name) {
			panic(syntax("duplicate declaration"))
		}
		switch {
		case r.peek().is("alias"):
			r.next()
			r.expect("for")
			r.add(name, r.aliased())
			r.expect(";")
		case r.peek().is("cursor") || (r.peek().is("scroll") || r.peek().is("no") && r.ahead(1).is("scroll")):
			b.Vars = append(b.Vars, r.cursor(name, line))
		default:
			b.Vars = append(b.Vars, r.variable(name, line))
		}
	}
}

// aliased reads the variable that an alias is for.
func (r *reader) aliased() *Var {
	t := r.next()
	names := []string{t.word}
	if t.word == "" {
		names[0] = t.text
	}
	for r.accept(".") {
		names = append(names, r.name())
	}
	v, n := r.scope.find(names, mayBeRecord)
	if v == nil || n != len(names) {
		panic(pgerr.New(pgerr.UndefinedColumn, `variable "%s" does not exist`, strings.Join(names, ".")))
	}
	return v
}

// variable reads a declaration of a variable.
func (r *reader) variable(name string, line int) *Var {
	v := &Var{Name: name, Line: line}
	v.Constant = r.accept("constant")
	v.Type = r.typeName(";", ":=", "=", "default", "not", "collate")
	if r.peek().is("collate") {
		panic(refuse("a variable with COLLATE"))
	}
	if r.accept("not") {
		r.expect("null")
		v.NotNull = true
	}
	switch {
	case r.accept(";"):
	case r.accept(":="), r.accept("="), r.accept("default"):
		v.Default = r.expr(Expression, ";")
		r.expect(";")
	default:
		r.fail()
	}
	if v.NotNull && v.Default == nil {
		panic(pgerr.New("22004", `variable "%s" must have a default value, since it's declared NOT NULL`, name))
	}
	return r.declare(v)
}

// typeName reads a type up to one of some tokens.
func (r *reader) typeName(until ...string) TypeName {
	start, depth := r.pos, 0
	for {
		t := r.peek()
		if t.kind == 0 || depth == 0 && isOneOf(t, until) {
			break
		}
		if t.is("(") || t.is("[") {
			depth++
		} else if t.is(")") || t.is("]") {
			depth--
		}
		r.next()
	}
	if r.pos == start {
		panic(syntax("missing data type declaration"))
	}
	toks := r.toks[start:r.pos]
	return r.typeOf(strings.TrimSpace(r.text[toks[0].start:r.toks[r.pos-1].end]), toks)
}

// typeOf makes a type of its tokens.
func (r *reader) typeOf(text string, toks []token) TypeName {
	n := len(toks)
	if n >= 3 && toks[n-2].is("%") && (toks[n-1].is("type") || toks[n-1].is("rowtype")) {
		var names []string
		for i := 0; i < n-2; i += 2 {
			names = append(names, toks[i].word)
		}
		t := TypeName{Text: text, Like: names, RowType: toks[n-1].is("rowtype")}
		if v, used := r.scope.find(names, mayBeRecord); v != nil && used == len(names) {
			t.Same = v
		}
		return t
	}
	if strings.Contains(text, "%") {
		panic(refuse("an array of a %TYPE"))
	}
	return TypeName{Text: text}
}

func isOneOf(t token, list []string) bool {
	for _, s := range list {
		if t.is(s) {
			return true
		}
	}
	return false
}

// cursor reads a declaration of a bound cursor.
func (r *reader) cursor(name string, line int) *Var {
	c := &Cursor{}
	switch {
	case r.accept("no"):
		r.expect("scroll")
		c.Options = "NO SCROLL"
	case r.accept("scroll"):
		c.Options = "SCROLL"
	}
	r.expect("cursor")
	r.push("", false)
	if r.accept("(") {
		for {
			arg := &Var{Name: r.name(), Line: line}
			arg.Type = r.typeName(",", ")")
			c.Args = append(c.Args, r.declare(arg))
			if !r.accept(",") {
				break
			}
		}
		r.expect(")")
	}
	if !r.accept("is") {
		r.expect("for")
	}
	c.Query = r.expr(Statement, ";")
	r.expect(";")
	r.pop()
	return r.declare(&Var{Name: name, Line: line, Type: TypeName{Text: "refcursor"}, Cursor: c})
}
