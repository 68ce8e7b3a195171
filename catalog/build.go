package catalog

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// New makes a schema of its parts and owns them from then on. New makes Referenced from
// ForeignKeys. It adds to Children each table whose Parent lacks it there; the caller
// needs to set Children only for the second and further parents of a table.
func New(version int64, customEquality bool, relations []*Relation, functions []*Function) *Schema {
	s := &Schema{
		Version:        version,
		CustomEquality: customEquality,
		relations:      make(map[Name]*Relation, len(relations)),
		functions:      make(map[string][]*Function, len(functions)),
		builtins:       builtinFunctions(),
		connection:     newConnection(nil, nil),
	}
	for _, r := range relations {
		s.relations[r.Name] = r
		s.Incomplete = s.Incomplete || r.Busy
		if len(r.Lookups) > 0 {
			s.lookedUp = append(s.lookedUp, r)
		}
		r.Referenced = nil
	}
	for _, r := range relations {
		if p := r.Parent; p != nil && !slices.Contains(p.Children, r) {
			p.Children = append(p.Children, r)
		}
		slices.SortFunc(r.Unique, func(a, b Unique) int {
			if a.Primary != b.Primary {
				return cmp.Compare(rank(b.Primary), rank(a.Primary))
			}
			return strings.Compare(a.Name, b.Name)
		})
		slices.SortFunc(r.Triggers, func(a, b Trigger) int { return strings.Compare(a.Name, b.Name) })
		slices.SortFunc(r.ForeignKeys, func(a, b ForeignKey) int { return strings.Compare(a.Name, b.Name) })
		for _, fk := range r.ForeignKeys {
			if to := s.relations[fk.References]; to != nil {
				to.Referenced = append(to.Referenced, fk)
			}
		}
	}
	for _, r := range relations {
		slices.SortFunc(r.Referenced, func(a, b ForeignKey) int {
			return cmp.Or(a.Table.compare(b.Table), strings.Compare(a.Name, b.Name))
		})
		slices.SortFunc(r.Children, func(a, b *Relation) int { return a.Name.compare(b.Name) })
	}
	for _, r := range relations {
		if r.Parent == nil {
			s.handDown(r)
		}
	}
	for _, f := range functions {
		s.functions[f.Name.Name] = append(s.functions[f.Name.Name], f)
	}
	return s
}

// handDown gives partitions the triggers of the partitioned tables above them.
// PostgreSQL clones only row triggers. Partitions here also list the statement
// triggers above, with no events in Trigger.Statement.
func (s *Schema) handDown(r *Relation) {
	for _, c := range r.Children {
		if c.Inherited || c.Parent != r {
			continue
		}
		for _, t := range r.Triggers {
			t.Statement = 0
			if !slices.ContainsFunc(c.Triggers, func(o Trigger) bool { o.Statement = 0; return o == t }) {
				c.Triggers = append(c.Triggers, t)
			}
		}
		s.handDown(c)
	}
}

func rank(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (n Name) compare(m Name) int {
	return cmp.Or(strings.Compare(n.Schema, m.Schema), strings.Compare(n.Name, m.Name))
}

// Relations goes over all relations, system ones included, in no order.
func (s *Schema) Relations() iter.Seq[*Relation] {
	return func(yield func(*Relation) bool) {
		for _, r := range s.relations {
			if !yield(r) {
				return
			}
		}
	}
}

// Column returns the column of that name, or nil.
func (r *Relation) Column(name string) *Column {
	for i := range r.Columns {
		if r.Columns[i].Name == name {
			return &r.Columns[i]
		}
	}
	return nil
}

// System reports whether the relation belongs to PostgreSQL. Columns, constraints and triggers of
// such a relation are not loaded.
func (r *Relation) System() bool { return systemSchema(r.Schema) }

func systemSchema(name string) bool { return name == "pg_catalog" || name == "information_schema" }

// AllFunctions goes over all functions of the user, in no order.
func (s *Schema) AllFunctions() iter.Seq[*Function] {
	return func(yield func(*Function) bool) {
		for _, named := range s.functions {
			for _, f := range named {
				if !yield(f) {
					return
				}
			}
		}
	}
}
