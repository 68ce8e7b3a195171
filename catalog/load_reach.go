package catalog

import (
	"fmt"
	"strings"
)

// reachLoader keeps the rows about code that the schema stores until all rows are
// read. It names objects by their OIDs as text.
type reachLoader struct {
	items    []storedItem
	policies []*loadedPolicy
	uses     map[object][]use // what an object uses
	users    []object         // the keys of uses
}

// object is a row of a catalog.
type object struct{ class, oid string }

// use is a row of dependQuery without the object that uses another.
type use struct {
	column     string // of the object that uses the other
	of         object
	ofColumn   string
	dependency string // pg_depend.deptype
}

// storedItem is a row of storedQuery.
type storedItem struct{ kind, class, oid, subject, name, more, flags string }

// storedEdge is an item of storedQuery, and an object that it uses.
type storedEdge struct{ kind, subject, item, name, class, uses, flags string }

// loadedPolicy is a policy with its table.
type loadedPolicy struct {
	oid    string
	table  *Relation
	policy Policy
}

// Classes of objects in pg_depend: OIDs of catalogs.
const (
	classFunction  = "1255"
	classRelation  = "1259"
	classType      = "1247"
	classOperator  = "2617"
	classDefault   = "2604"
	classRule      = "2618"
	classExtension = "3079"
)

func (l *loader) storedItem(r []string) {
	l.reaching.items = append(l.reaching.items, storedItem{r[1], r[2], r[3], r[4], r[5], r[6], r[7]})
}

func (l *loader) dependency(r []string) {
	if l.reaching.uses == nil {
		l.reaching.uses = map[object][]use{}
	}
	from := object{r[1], r[2]}
	if l.reaching.uses[from] == nil {
		l.reaching.users = append(l.reaching.users, from)
	}
	l.reaching.uses[from] = append(l.reaching.uses[from], use{r[3], object{r[4], r[5]}, r[6], r[7]})
}

func (l *loader) policy(r []string) error {
	if r[4] == "" {
		return fmt.Errorf("a policy for no command")
	}
	p := &loadedPolicy{oid: r[1], table: l.relations[r[2]], policy: Policy{Name: r[3], Command: r[4][0], Using: r[7], Permissive: r[9] == "t"}}
	if r[5] != "" {
		p.policy.Roles = strings.Split(r[5], "\x01")
	}
	for _, text := range r[7:9] {
		if text != "" {
			p.policy.Expressions = append(p.policy.Expressions, text)
		}
	}
	l.incomplete = l.incomplete || r[6] == "t"
	l.reaching.policies = append(l.reaching.policies, p)
	return nil
}

// connect makes a graph of all code that the schema stores, and enters into the
// schema what each piece of code reaches.
func (l *loader) connect(s *Schema) {
	c := newConnection(l.sources, l.all)
	types, operators := map[string]*vertex{}, map[string]*vertex{}
	vertexOf := func(m map[string]*vertex, oid string) *vertex {
		if m[oid] == nil {
			m[oid] = &vertex{}
		}
		return m[oid]
	}
	use := func(v *vertex, class, oid string) {
		switch class {
		case classFunction:
			if f := l.functions[oid]; f != nil && f.function.Schema != "weft" {
				v.next = append(v.next, c.functions[f])
			}
		case classType:
			v.next = append(v.next, vertexOf(types, oid))
		case classOperator:
			v.next = append(v.next, vertexOf(operators, oid))
		case classRelation:
			if rel := l.relations[oid]; rel != nil {
				v.reads = append(v.reads, rel.Name)
			}
		}
	}
	for oid, f := range l.functions {
		v := c.functions[f]
		for _, u := range l.reaching.uses[object{classFunction, oid}] {
			if f.parsed || f.aggregate || u.of.class == classType {
				use(v, u.of.class, u.of.oid)
			}
			f.calls = append(f.calls, calledName(l.functions[u.of.oid], u.of.class)...)
		}
	}
	items := map[string]*vertex{}
	for _, e := range l.edges() {
		v := items[e.kind+e.item]
		if v == nil {
			v = c.item(e, l.relations[e.subject], func() *vertex {
				if e.kind == "T" {
					return vertexOf(types, e.subject)
				}
				return vertexOf(operators, e.subject)
			})
			items[e.kind+e.item] = v
		}
		v.notifies = v.notifies || strings.Contains(e.flags, "n")
		v.locks = v.locks || strings.Contains(e.flags, "l")
		v.opaque = v.opaque || strings.Contains(e.flags, "o")
		if rel := l.relations[e.uses]; e.class == classRelation && (e.kind == "d" || e.kind == "T") && rel != nil && rel.Kind == Sequence {
			continue // Column.Sequence says what a column draws from
		}
		if f := l.functions[e.uses]; e.kind == "t" && e.class == classFunction && f != nil && runsTextsOf(f) {
			if rel := l.relations[e.subject]; rel != nil {
				c.fired = append(c.fired, firedTrigger{rel, e.name, f, v})
				continue
			}
		}
		use(v, e.class, e.uses)
		if e.kind == "r" && e.class == classRelation {
			v.unsure = true // pg_depend does not say which of the relations a rule writes
		}
	}
	for _, p := range l.reaching.policies {
		if v := items["p"+p.oid]; v != nil && p.table != nil {
			c.policy(p.table, &p.policy, v)
		}
	}
	c.finish(s)
}

// calledName returns the name of an object that a function uses, if the object is a
// function too.
func calledName(f *source, class string) []string {
	if f == nil || class != classFunction {
		return nil
	}
	return []string{f.function.Name.Name}
}
