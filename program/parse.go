package program

import (
	"strings"

	"weft/pgerr"
)

// reader reads the body of a program, by recursive descent. Its rules are those of PostgreSQL's pl_gram.y: a piece of
// SQL ends at the first of some tokens that is outside brackets.
type reader struct {
	text  string
	toks  []token
	pos   int
	scope *scope
	vars  []*Var
	set   bool // a function that returns a set
	// conflict is how a name is read that is a variable and a column.
	conflict Conflict
	cases    int
	// lines is how many lines end before from.
	lines, from int
}

// Conflict is #variable_conflict.
type Conflict uint8

// The values of Conflict.
const (
	ConflictError Conflict = iota
	UseVariable
	UseColumn
)

func (r *reader) peek() token { return r.toks[r.pos] }

func (r *reader) ahead(n int) token { return r.toks[min(r.pos+n, len(r.toks)-1)] }

func (r *reader) next() token {
	t := r.toks[r.pos]
	if r.pos < len(r.toks)-1 {
		r.pos++
	}
	return t
}

// accept takes a token if it is s.
func (r *reader) accept(s string) bool {
	if r.peek().is(s) {
		r.next()
		return true
	}
	return false
}

// expect takes a token that must be s.
func (r *reader) expect(s string) {
	if !r.accept(s) {
		r.fail()
	}
}

// words takes keywords that must follow each other.
func (r *reader) words(list ...string) {
	for _, w := range list {
		r.expect(w)
	}
}

// name takes a name.
func (r *reader) name() string {
	t := r.next()
	if !t.isName() {
		r.pos--
		r.fail()
	}
	return t.word
}

// fail ends the reading at a token that cannot stand there.
func (r *reader) fail() {
	t := r.peek()
	if t.kind == 0 {
		panic(syntax("syntax error at end of input"))
	}
	panic(syntax(`syntax error at or near "%s"`, t.text))
}

func syntax(format string, args ...any) *pgerr.Error {
	return pgerr.New(pgerr.SyntaxError, format, args...)
}

// line is the number of the line of an offset.
func (r *reader) line(offset int) int {
	if offset < r.from {
		r.lines, r.from = 0, 0
	}
	r.lines += strings.Count(r.text[r.from:offset], "\n")
	r.from = offset
	return r.lines + 1
}

func (r *reader) here(kind string) place { return place{Line: r.line(r.peek().start), Kind: kind} }

// push opens a level of names.
func (r *reader) push(label string, loop bool) {
	r.scope = &scope{prev: r.scope, name: label, loop: loop}
}

// pop closes the innermost level of names.
func (r *reader) pop() {
	for r.scope.v != nil {
		r.scope = r.scope.prev
	}
	r.scope = r.scope.prev
}

// add makes a variable known by a name.
func (r *reader) add(name string, v *Var) { r.scope = &scope{prev: r.scope, name: name, v: v} }

// declare makes a variable.
func (r *reader) declare(v *Var) *Var {
	v.index = len(r.vars)
	r.vars = append(r.vars, v)
	r.add(v.Name, v)
	return v
}

// options reads the # lines before a body.
func (r *reader) options() {
	for r.peek().text == "#" {
		r.next()
		switch r.name() {
		case "variable_conflict":
			switch w := r.next(); w.word {
			case "error":
				r.conflict = ConflictError
			case "use_variable":
				r.conflict = UseVariable
			case "use_column":
				r.conflict = UseColumn
			default:
				r.pos--
				r.fail()
			}
		case "print_strict_params":
			r.next()
			panic(refuse("#print_strict_params"))
		default:
			panic(refuse("this # option"))
		}
	}
}

// label takes <<name>>, or nothing.
func (r *reader) label() string {
	if r.peek().text != "<<" {
		return ""
	}
	r.next()
	name := r.name()
	r.expect(">>")
	return name
}

// endLabel takes the label behind END, which must be that of the block or loop.
func (r *reader) endLabel(label string) {
	if t := r.peek(); t.isName() {
		r.next()
		if label == "" {
			panic(syntax(`end label "%s" specified for unlabeled block`, t.word))
		}
		if label != t.word {
			panic(syntax(`end label "%s" differs from block's label "%s"`, t.word, label))
		}
	}
}

// block reads a block behind its label.
func (r *reader) block(label string) *Block {
	r.push(label, false)
	defer r.pop()
	b := &Block{Label: label}
	if r.accept("declare") {
		r.declarations(b)
	}
	b.place = r.here("statement block")
	r.expect("begin")
	b.Body = r.body("exception", "end")
	if r.peek().is("exception") {
		line := r.line(r.next().start)
		b.SQLState = r.declare(&Var{Name: "sqlstate", Line: line, Type: TypeName{Text: "text"}, Constant: true})
		b.SQLErrm = r.declare(&Var{Name: "sqlerrm", Line: line, Type: TypeName{Text: "text"}, Constant: true})
		for r.accept("when") {
			b.Handlers = append(b.Handlers, r.handler())
		}
		if len(b.Handlers) == 0 {
			r.fail()
		}
	}
	r.expect("end")
	r.endLabel(label)
	return b
}

// handler reads one WHEN of EXCEPTION.
func (r *reader) handler() *Handler {
	h := &Handler{}
	for {
		t := r.next()
		switch {
		case t.word == "sqlstate":
			code := r.stringLiteral()
			if !validCode(code) {
				panic(syntax("invalid SQLSTATE code"))
			}
			h.Codes = append(h.Codes, code)
		case t.word == "others":
			h.Others = true
		default:
			codes := conditionCodes(t.word)
			if codes == nil {
				panic(pgerr.New(pgerr.UndefinedObject, `unrecognized exception condition "%s"`, t.word))
			}
			h.Codes = append(h.Codes, codes...)
		}
		if !r.accept("or") {
			break
		}
	}
	r.expect("then")
	h.Body = r.body("when", "end")
	return h
}

func validCode(s string) bool {
	return len(s) == 5 && strings.Trim(s, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}

// body reads statements up to one of some keywords.
func (r *reader) body(until ...string) []Stmt {
	list := []Stmt{}
	for {
		t := r.peek()
		if t.kind == 0 {
			panic(syntax("unexpected end of function definition"))
		}
		if isOneOf(t, until) && !r.assigns() {
			return list
		}
		if s := r.statement(); s != nil {
			list = append(list, s)
		}
	}
}

// assigns reports whether the word ahead is a variable that is assigned to, though it is a keyword.
func (r *reader) assigns() bool {
	t, n := r.peek(), r.ahead(1)
	if !t.isName() {
		return false
	}
	if v, _ := r.scope.find([]string{t.word}, mayBeRecord); v == nil {
		return false
	}
	return n.is(":=") || n.is("=") || n.is("[")
}

// expr reads a piece of SQL up to one of some tokens, which are left.
func (r *reader) expr(mode Mode, until ...string) *Expr {
	start, depth := r.pos, 0
	for {
		t := r.peek()
		if t.kind == 0 {
			panic(syntax("unexpected end of function definition"))
		}
		if depth == 0 && isOneOf(t, until) {
			break
		}
		if t.is("(") || t.is("[") {
			depth++
		} else if t.is(")") || t.is("]") {
			if depth--; depth < 0 {
				panic(syntax("mismatched parentheses"))
			}
		} else if t.is(";") {
			r.fail()
		}
		r.next()
	}
	if r.pos == start {
		if mode == Expression {
			panic(syntax("missing expression at or near \"%s\"", r.peek().text))
		}
		panic(syntax("missing SQL statement"))
	}
	return r.piece(mode, r.toks[start].start, r.toks[r.pos].start)
}

// piece makes an Expr of a part of the text.
func (r *reader) piece(mode Mode, start, end int) *Expr {
	e := &Expr{Text: strings.TrimRight(r.text[start:end], " \t\n\r\f\v"), Mode: mode, Line: r.line(start), scope: r.scope}
	return r.parsed(e)
}

// parsed parses the SQL of an Expr.
func (r *reader) parsed(e *Expr) *Expr {
	tree, err := parseTree(e)
	if err != nil {
		panic(err)
	}
	e.tree = tree
	return e
}

// stringLiteral takes a string and returns its value.
func (r *reader) stringLiteral() string {
	t := r.next()
	s, ok := unquote(t.text)
	if !ok {
		r.pos--
		r.fail()
	}
	return s
}
