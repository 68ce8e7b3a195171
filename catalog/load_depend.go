package catalog

import (
	"slices"
	"strconv"
)

// named has the names and traits that rows of other objects refer to by OID, as text.
type named struct {
	schemas    map[string]string
	extensions map[string]string
	relations  map[string]Name   // temporary ones, too
	rowTypes   map[string]string // relation → its row type
	partition  map[string]bool
	rules      map[*Relation][]string
}

func newNamed() named {
	return named{
		schemas: map[string]string{}, extensions: map[string]string{}, relations: map[string]Name{},
		rowTypes: map[string]string{}, partition: map[string]bool{}, rules: map[*Relation][]string{},
	}
}

// depend enters, once all rows are read, what objects use: the sequences of columns and
// domains, the relations and functions of rules, the extensions of functions.
func (l *loader) depend() {
	for _, i := range l.reaching.items {
		switch i.kind {
		case "d":
			for _, u := range l.reaching.uses[object{classDefault, i.oid}] {
				if l.sequence(u.of) {
					l.draws(l.relations[i.subject], i.more, u.of.oid)
				}
			}
		case "F":
			if s := l.functions[i.oid]; s != nil {
				s.runs, s.notifies, s.locks = has(i.flags, 'o'), has(i.flags, 'n'), has(i.flags, 'l')
			}
		}
	}
	for _, from := range l.reaching.users {
		uses := l.reaching.uses[from]
		switch from.class {
		case classType:
			if t := l.types[from.oid]; t != nil {
				if i := slices.IndexFunc(uses, func(u use) bool { return l.sequence(u.of) }); i >= 0 {
					t.sequence = uses[i].of.oid
				}
			}
		case classRelation:
			if l.sequence(from) {
				l.owned(l.relations[from.oid], uses)
			}
		}
	}
	for rel, rules := range l.named.rules {
		l.ruled(rel, rules)
	}
	l.narrowFunctions()
}

// sequence reports whether an object is a sequence.
func (l *loader) sequence(o object) bool {
	rel := l.relations[o.oid]
	return o.class == classRelation && rel != nil && rel.Kind == Sequence
}

// owned notes the column that owns a sequence.
func (l *loader) owned(seq *Relation, uses []use) {
	for _, u := range uses {
		if u.of.class != classRelation || u.ofColumn == "0" || u.dependency != "a" && u.dependency != "i" {
			continue
		}
		rel := l.relations[u.of.oid]
		c := l.columnAt(rel, u.of.oid, u.ofColumn)
		if c == nil {
			continue
		}
		seq.OwnedBy, seq.OwnedColumn = rel.Name, c.Name
		if u.dependency == "i" {
			c.Sequence = seq.Name
		}
	}
}

// ruled notes the relations and functions that a relation's rules name.
func (l *loader) ruled(rel *Relation, rules []string) {
	for _, oid := range rules {
		for _, u := range l.reaching.uses[object{classRule, oid}] {
			switch u.of.class {
			case classRelation:
				if n := l.named.relations[u.of.oid]; n.Name != "" && u.of.oid != strconv.FormatUint(uint64(rel.OID), 10) {
					rel.RuleTables = append(rel.RuleTables, n)
				}
			case classFunction:
				if f := l.functions[u.of.oid]; f != nil {
					rel.RuleFunctions = append(rel.RuleFunctions, f.function.Name)
				}
			}
		}
	}
	for _, names := range []*[]Name{&rel.RuleTables, &rel.RuleFunctions} {
		slices.SortFunc(*names, Name.compare)
		*names = slices.Compact(*names)
	}
}

// narrowFunctions notes the extensions of functions, and forgets the functions that came
// with a range type.
func (l *loader) narrowFunctions() {
	gone := map[*source]bool{}
	for oid, s := range l.functions {
		for _, u := range l.reaching.uses[object{classFunction, oid}] {
			switch {
			case u.of.class == classExtension:
				s.extension = l.named.extensions[u.of.oid]
			case u.of.class == classType && u.dependency == "i":
				gone[s] = true
				delete(l.functions, oid)
			}
		}
	}
	l.sources = slices.DeleteFunc(l.sources, func(s *source) bool { return gone[s] })
}

// edges returns the items of storedQuery with what they use: a row for each object, or
// one without an object. The name of an operator or type is its schema, \x01 and its
// name.
func (l *loader) edges() []storedEdge {
	var out []storedEdge
	for _, i := range l.reaching.items {
		e := storedEdge{kind: i.kind, subject: i.subject, item: i.oid, name: i.name, flags: i.flags}
		switch i.kind {
		case "F":
			continue
		case "C", "E":
			e.class, e.uses = classFunction, i.more
			out = append(out, e)
			continue
		case "d":
			if c := l.columnAt(l.relations[i.subject], i.subject, i.more); c != nil {
				e.name = c.Name
				if c.Generated {
					e.kind = "g"
				}
			}
		case "x":
			if i.name == "" {
				e.name = l.named.relations[i.oid].Name
			}
		case "w":
			trigger := e
			trigger.kind = "t"
			out = l.addEdges(out, trigger, i)
		case "O":
			e.name = l.named.schemas[i.more] + "\x01" + i.name
		case "T", "A":
			if i.class != classType {
				break // a constraint of a domain
			}
			e.kind, e.subject, e.name = "T", i.oid, l.named.schemas[i.more]+"\x01"+i.name
			if elem, _ := strconv.ParseUint(i.subject, 10, 32); elem >= 16384 {
				array := e
				array.class, array.uses, array.flags = classType, i.subject, ""
				out = append(out, array)
			}
			if i.kind == "A" {
				continue
			}
		}
		out = l.addEdges(out, e, i)
	}
	return l.addColumns(out)
}

// addEdges appends an edge for each object that an item uses, or one without an object.
func (l *loader) addEdges(out []storedEdge, e storedEdge, i storedItem) []storedEdge {
	n := len(out)
	for _, u := range l.reaching.uses[object{i.class, i.oid}] {
		switch {
		case u.dependency != "n" || u.of.class == classExtension:
			continue
		case e.kind == "w" && u.of == (object{classFunction, i.more}):
			continue // the trigger's function, which the condition does not call
		case u.of.class == classRelation && (e.kind == "x" || u.of.oid == e.subject && !(e.kind == "p" && u.ofColumn == "0")):
			continue // its own table
		}
		e.class, e.uses = u.of.class, u.of.oid
		out = append(out, e)
	}
	if len(out) == n {
		out = append(out, e)
	}
	return out
}

// addColumns appends the edges of columns whose type is a user's. Such a column matters
// to the relation, and to the type of the relation's rows.
func (l *loader) addColumns(out []storedEdge) []storedEdge {
	for _, from := range l.reaching.users {
		row := l.named.rowTypes[from.oid]
		if from.class != classRelation || row == "" || row == "0" {
			continue
		}
		name := l.named.relations[from.oid]
		for _, u := range l.reaching.uses[from] {
			if u.column == "0" || u.of.class != classType {
				continue
			}
			out = append(out, storedEdge{kind: "T", subject: row, item: row, name: name.Schema + "\x01" + name.Name, class: classType, uses: u.of.oid})
			column := ""
			if c := l.columnAt(l.relations[from.oid], from.oid, u.column); c != nil {
				column = c.Name
			}
			out = append(out, storedEdge{kind: "y", subject: from.oid, item: from.oid + "." + u.column, name: column, class: classType, uses: u.of.oid})
		}
	}
	return out
}

// has reports whether flags have one.
func has(flags string, flag rune) bool {
	for _, f := range flags {
		if f == flag {
			return true
		}
	}
	return false
}
