package custom

import "strings"

// maxPoints bounds how many savepoints are followed at a time.
const maxPoints = 16

// held is what is known of the parameter at one point of the block.
type held struct {
	value string
	set   bool // the block has set the parameter
	clear bool // value is the parameter's value
}

// point is a savepoint that is there, and what was known of the parameter then.
type point struct {
	name token
	held
}

// Value returns the value that a parameter has after the commands of a block. The name is in lower case.
// sets is how many times the commands set the parameter, by what the parser says of them. set is false if the
// parameter is as it was before the block. known is false if the value cannot be told.
func Value(commands []string, name string, sets int) (value string, set, known bool) {
	var now held
	var points [maxPoints]point
	depth, seen := 0, 0
	for _, text := range commands {
		s := scanner{text: text}
		switch first := s.next(); {
		case first.is("set"):
			if s.sets(name) {
				v, ok := s.assigned()
				now = held{value: v, set: true, clear: ok}
				seen++
			}
		case first.is("select"):
			if v, n, ok := s.configured(name); ok && n > 0 {
				now = held{value: v, set: true, clear: true}
				seen += n
			}
		case first.is("savepoint"):
			p, ok := s.only()
			if !ok || depth == maxPoints {
				return "", false, false
			}
			points[depth] = point{p, now}
			depth++
		case first.is("release"), first.is("rollback"):
			p, ok := s.pointName(first.is("rollback"))
			at := find(points[:depth], p)
			if !ok || at < 0 {
				return "", false, false
			}
			if depth = at; first.is("rollback") {
				now, depth = points[at].held, at+1
			}
		case first.kind != word:
			return "", false, false // a savepoint may be behind it
		}
	}
	if seen != sets || now.set && !now.clear {
		return "", false, false
	}
	return now.value, now.set, true
}

// find returns the index of the newest savepoint of that name, -1 if there is none.
func find(points []point, name token) int {
	for i := len(points) - 1; i >= 0; i-- {
		if points[i].name.names(name) {
			return i
		}
	}
	return -1
}

// sets reports whether SET, which has been read, is of a parameter. What follows is the value.
func (s *scanner) sets(name string) bool {
	t := s.next()
	if t.is("local") || t.is("session") {
		t = s.next()
	}
	for {
		if t.kind != word || len(name) < len(t.text) || !strings.EqualFold(name[:len(t.text)], t.text) {
			return false
		}
		if name = name[len(t.text):]; name == "" {
			return true
		}
		if name[0] != '.' || !s.next().sign('.') {
			return false
		}
		name, t = name[1:], s.next()
	}
}

// assigned reads what follows the name in a SET.
func (s *scanner) assigned() (value string, ok bool) {
	if t := s.next(); !t.sign('=') && !t.is("to") {
		return "", false
	}
	v := s.next()
	return v.text, (v.kind == str || v.kind == number) && s.ends()
}

// configured reads a list of calls of set_config behind SELECT. It returns how many of them set the parameter, and
// the value that the last one gives it. ok is false for any other list.
func (s *scanner) configured(name string) (value string, sets int, ok bool) {
	for {
		t := s.next()
		if t.is("pg_catalog") && s.next().sign('.') {
			t = s.next()
		}
		if !t.is("set_config") || !s.next().sign('(') {
			return "", 0, false
		}
		of, ok := s.value(false)
		if !ok || !s.next().sign(',') {
			return "", 0, false
		}
		v, ok := s.value(false)
		if !ok || !s.next().sign(',') {
			return "", 0, false
		}
		if _, ok := s.value(true); !ok || !s.next().sign(')') {
			return "", 0, false
		}
		if strings.EqualFold(of, name) {
			value, sets = v, sets+1
		}
		t = s.next()
		if t.is("as") {
			if t = s.next(); t.kind != word && t.kind != quoted {
				return "", 0, false
			}
			t = s.next()
		}
		switch {
		case t.kind == end, t.sign(';') && s.ends():
			return value, sets, true
		case !t.sign(','):
			return "", 0, false
		}
	}
}

// value reads a string, maybe in brackets or cast to text. A truth value may also be true, false, or cast to
// boolean.
func (s *scanner) value(truth bool) (string, bool) {
	var v string
	ok := true
	switch t := s.next(); {
	case t.kind == str:
		v = t.text
	case truth && (t.is("true") || t.is("false")):
	case t.sign('('):
		if v, ok = s.value(truth); !ok || !s.next().sign(')') {
			return "", false
		}
	case t.is("cast"):
		if !s.next().sign('(') {
			return "", false
		}
		if v, ok = s.value(truth); !ok || !s.next().is("as") || !s.typeName(truth) || !s.next().sign(')') {
			return "", false
		}
	default:
		return "", false
	}
	for s.sees("::") {
		if !s.typeName(truth) {
			return "", false
		}
	}
	return v, true
}

// typeName reads the name of a type to which a cast changes nothing.
func (s *scanner) typeName(truth bool) bool {
	t := s.next()
	if t.is("pg_catalog") && s.next().sign('.') {
		t = s.next()
	}
	if truth {
		return t.is("bool") || t.is("boolean")
	}
	return t.is("text") || t.is("varchar")
}

// only reads a name that ends the text.
func (s *scanner) only() (token, bool) {
	t := s.next()
	return t, t.isName() && s.ends()
}

// pointName reads the name of a savepoint behind RELEASE, or behind ROLLBACK and TO.
func (s *scanner) pointName(back bool) (token, bool) {
	t := s.next()
	if back {
		if t.is("work") || t.is("transaction") {
			t = s.next()
		}
		if !t.is("to") {
			return t, false
		}
		t = s.next()
	}
	if t.is("savepoint") && !s.ends() {
		return s.only()
	}
	return t, t.isName() && s.ends()
}
