package planner

import (
	pg "github.com/pganalyze/pg_query_go/v6"
)

// output is a column that an item of FROM, or a query, yields.
type output struct {
	name   string
	column *column // never nil
}

// item is a name that columns can be qualified with.
type item struct {
	name, schema string
	cols         []output
	opaque       bool // the item may have columns that are not listed
	of           *appearance
}

// source is an item of FROM: the names in it, and the columns that can be named without a
// qualifier, which are also those of *.
type source struct {
	items  []*item
	cols   []output
	opaque bool
	// nameless is set if the source can be qualified with a name that is not known here.
	nameless bool
}

// level is one query level: what names mean in it, and the facts of its rows.
type level struct {
	a       *analysis
	parent  *level // the level around, whose columns can be named too
	with    *with
	sources []*source
	scope   *scope
	// aggregated is set if a subquery contains an aggregate that belongs to this level.
	aggregated bool
}

// inner returns a level that can name l's columns.
func (l *level) inner(s *scope) *level {
	return &level{a: l.a, parent: l, with: l.with, scope: s}
}

// beside returns a level for an item of FROM that cannot name l's columns.
func (l *level) beside(s *scope) *level {
	return &level{a: l.a, parent: l.parent, with: l.with, scope: s}
}

// column returns the column that a node names, or nil if the node is not a plain column with a
// certain meaning. The server reports ambiguous and unknown names.
func (l *level) column(n *pg.Node) *column {
	ref := n.GetColumnRef()
	if ref == nil {
		return nil
	}
	names := nameList(ref.Fields)
	if len(names) != len(ref.Fields) { // t.*
		return nil
	}
	for ; l != nil; l = l.parent {
		if c, known := l.lookup(names); known {
			return c
		}
	}
	return nil
}

// lookup finds a column in this level. known is false if the name must belong to an outer level.
func (l *level) lookup(names []string) (c *column, known bool) {
	name := names[len(names)-1]
	opaque := false
	found := 0
	if len(names) == 1 {
		for _, s := range l.sources {
			opaque = opaque || s.opaque
			for _, o := range s.cols {
				if o.name == name {
					c = o.column
					found++
				}
			}
		}
	} else {
		it, ok := l.item(names[:len(names)-1])
		if it == nil {
			return nil, ok
		}
		opaque = true // the name can only mean a column of this level
		for _, o := range it.cols {
			if o.name == name {
				c = o.column
				found++
			}
		}
	}
	switch {
	case found == 1:
		return c, true
	case found > 1:
		return nil, true
	}
	return nil, opaque
}

// item finds the item that a qualifier names. ambiguous is set if there are several, or one that is
// not known.
func (l *level) item(names []string) (found *item, ambiguous bool) {
	name, schema := names[len(names)-1], ""
	if len(names) > 1 {
		schema = names[len(names)-2]
	}
	for _, s := range l.sources {
		ambiguous = ambiguous || s.nameless
		for _, it := range s.items {
			if it.name != name || schema != "" && it.schema != schema {
				continue
			}
			if found != nil {
				return nil, true
			}
			found = it
		}
	}
	return found, ambiguous
}

// star returns the columns that a * or t.* in a target list stands for, and whether there may be
// more.
func (l *level) star(fields []*pg.Node) (cols []output, opaque bool) {
	names := nameList(fields)
	if len(names) == 0 {
		for _, s := range l.sources {
			cols = append(cols, s.cols...)
			opaque = opaque || s.opaque
		}
		return cols, opaque
	}
	for ; l != nil; l = l.parent {
		it, ambiguous := l.item(names)
		if it != nil {
			return it.cols, it.opaque
		}
		if ambiguous {
			break
		}
	}
	return nil, true
}

// nameList returns the names of a dotted name, without a star.
func nameList(nodes []*pg.Node) []string {
	var out []string
	for _, n := range nodes {
		if s := n.GetString_(); s != nil {
			out = append(out, s.Sval)
		}
	}
	return out
}

// rename gives columns the names in an alias's list.
func rename(cols []output, names []*pg.Node) []output {
	list := nameList(names)
	if len(list) == 0 {
		return cols
	}
	out := append([]output(nil), cols...)
	for i := range min(len(out), len(list)) {
		out[i].name = list[i]
	}
	return out
}
