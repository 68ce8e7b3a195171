package planner

import (
	"slices"

	pg "github.com/pganalyze/pg_query_go/v6"

	"weft/catalog"
)

// A dotted name may be a call: PostgreSQL reads r.total as total(r) where r has no
// column of that name, and t.count as an aggregate. What such a name calls is judged
// like any other call.

// dotted notes the calls that the dotted names in a node may be.
func (l *level) dotted(m any) {
	if l.a.env.Schema == nil || l.a.env.Tables.Empty() {
		return
	}
	switch m := m.(type) {
	case *pg.ColumnRef:
		if names := nameList(m.Fields); len(names) == len(m.Fields) && len(names) > 1 {
			l.field(names[:len(names)-1], names[len(names)-1])
		}
	case *pg.A_Indirection:
		var row []string
		if ref := m.Arg.GetColumnRef(); ref != nil && len(ref.Fields) == 1 {
			row = nameList(ref.Fields)
		}
		for _, name := range nameList(m.Indirection) {
			l.field(row, name)
			row = nil // a field of something that is not a name
		}
	}
}

// field notes the call that a field of a row may be. row is the name of an item of FROM, or nil for
// a row about which nothing is known.
func (l *level) field(row []string, name string) {
	it := l.named(row)
	if it != nil && (systemColumns[name] || slices.ContainsFunc(it.cols, func(o output) bool { return o.name == name })) {
		return
	}
	users := l.a.reach().userFunctions("", name)
	if it == nil || it.opaque { // the field may be a column
		for _, f := range users {
			if !f.Reach.Pure() {
				l.a.functions = append(l.a.functions, f)
				l.a.notes.calls('v')
			}
		}
		return
	}
	if len(users) == 0 && !l.a.env.Schema.Builtin(name).Known {
		return // no such column
	}
	call := &pg.FuncCall{Funcname: []*pg.Node{pg.MakeStrNode(name)}, Args: []*pg.Node{pg.MakeColumnRefNode([]*pg.Node{pg.MakeStrNode(it.name)}, 0)}}
	if l.aggregates(call) || slices.ContainsFunc(users, func(f *catalog.Function) bool { return f.SetReturning }) {
		l.a.unsupported("Write it as a call: "+name+"("+it.name+").", "%s.%s calls a function", it.name, name)
		return
	}
	l.call(call)
}

// named finds an item of FROM, also of an outer level.
func (l *level) named(names []string) *item {
	if len(names) == 0 {
		return nil
	}
	for ; l != nil; l = l.parent {
		switch it, ambiguous := l.item(names); {
		case it != nil:
			return it
		case ambiguous:
			return nil
		}
	}
	return nil
}
