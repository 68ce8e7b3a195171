package catalog

import (
	"cmp"
	"slices"
	"strings"
)

// connection makes a graph of the code that a database stores. Stored trees name
// objects by OID. Texts name objects by words, and a word means every object of that
// name.
type connection struct {
	*graph
	relations []*Relation
	words     *vocabulary
	functions map[*source]*vertex
	sources   []*source
	// operators and types have the users' operators and types by name, without schema.
	operators, types map[string][]*vertex
	// oddTypes are the names of types that are not plain words.
	oddTypes []string

	fired    []firedTrigger
	runs     []loadedRun
	casts    []loadedCast
	events   []loadedCast
	policies []policyOf
	// plainCast: a cast between two built-in types is among casts. plainOperators are the names of
	// operators for values of built-in types.
	plainCast      bool
	plainOperators map[string]bool
}

// loadedRun is a Run whose Reach finish computes.
type loadedRun struct {
	table *Relation
	run   Run
	v     *vertex
}

// loadedCast is a cast, a support function or an event trigger.
type loadedCast struct {
	what string
	v    *vertex
}

type policyOf struct {
	table  *Relation
	policy *Policy
	v      *vertex
}

func newConnection(sources []*source, relations []*Relation) *connection {
	c := &connection{
		graph: newGraph(), relations: relations, sources: sources, words: newVocabulary(sources, relations),
		functions: make(map[*source]*vertex, len(sources)), operators: map[string][]*vertex{}, types: map[string][]*vertex{},
		plainOperators: map[string]bool{},
	}
	for _, s := range sources {
		c.functions[s] = &vertex{}
	}
	return c
}

// item makes the vertex of an item of storedQuery and puts it into the graph. For an
// operator, a type or a constraint of a domain it returns the vertex that identity
// returns.
func (c *connection) item(e storedEdge, rel *Relation, identity func() *vertex) *vertex {
	if e.kind == "T" || e.kind == "O" {
		v := identity()
		schema, name, named := strings.Cut(e.name, "\x01")
		if !named { // a constraint of a domain
			return v
		}
		v.schema = schema
		if e.kind == "T" {
			if c.types[name] == nil && !plainWord(name) {
				c.oddTypes = append(c.oddTypes, name)
			}
			c.types[name] = append(c.types[name], v)
		} else {
			name, plain := strings.CutSuffix(name, plainOperator)
			c.plainOperators[name] = c.plainOperators[name] || plain
			c.operators[name] = append(c.operators[name], v)
		}
		return v
	}
	v := &vertex{}
	switch e.kind {
	case "C":
		c.casts = append(c.casts, loadedCast{e.name, v})
		c.plainCast = c.plainCast || e.subject == plainCast
	case "E":
		c.events = append(c.events, loadedCast{e.name, v})
	case "p":
	case "v":
		if rel != nil {
			r := at(c.reading, rel.Name)
			r.next = append(r.next, v)
		}
	default:
		if rel != nil {
			c.run(rel, Run{Kind: RunKind(e.kind[0]), Name: e.name}, v)
		}
	}
	return v
}

// run adds code that runs when a relation is written.
func (c *connection) run(rel *Relation, r Run, v *vertex) {
	w := at(c.writing, rel.Name)
	w.next = append(w.next, v)
	c.runs = append(c.runs, loadedRun{rel, r, v})
}

// policy adds a policy. v.reads are the relations that the policy's expressions read.
func (c *connection) policy(rel *Relation, p *Policy, v *vertex) {
	p.Relations = slices.Clone(v.reads)
	slices.SortFunc(p.Relations, Name.compare)
	p.Relations = slices.Compact(p.Relations)
	if rel.RowSecurity {
		r := at(c.reading, rel.Name)
		r.next = append(r.next, v)
	}
	c.policies = append(c.policies, policyOf{rel, p, v})
}

// finish reads the bodies of functions, and enters into the schema what every
// function, Run, policy, operator, type, cast and event trigger reaches.
func (c *connection) finish(s *Schema) {
	s.connection = c
	for _, src := range c.sources {
		c.words.look(src)
		c.body(src, c.functions[src])
	}
	for _, t := range c.fired {
		c.fire(t)
	}
	c.follow(c.relations)
	for _, src := range c.sources {
		f := src.function
		near := c.close(c.functions[src], true)
		f.Mentions, f.Writes, f.Opaque = near.Reads, near.Writes, near.Opaque
		f.Changes = c.changes(c.functions[src])
		f.Calls = len(src.calls) > 0
		f.Reach = c.close(c.functions[src], false)
		s.functions[f.Name.Name] = append(s.functions[f.Name.Name], f)
	}
	for _, r := range c.runs {
		if r.run.Reach = c.close(r.v, false); !r.run.Pure() {
			r.table.Runs = append(r.table.Runs, r.run)
		}
	}
	for _, r := range c.relations {
		slices.SortFunc(r.Runs, func(a, b Run) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name)) })
	}
	for _, p := range c.policies {
		calls := *p.v
		calls.reads = nil
		p.policy.Calls = c.close(&calls, false)
		p.table.Policies = append(p.table.Policies, *p.policy)
	}
	for _, r := range c.relations {
		slices.SortFunc(r.Policies, func(a, b Policy) int { return cmp.Compare(a.Name, b.Name) })
	}
	s.operators, s.reaching = c.reachingOnes(c.operators), c.reachingOnes(c.types)
	for _, x := range c.casts {
		if reach := c.close(x.v, false); !reach.Pure() {
			s.casts = append(s.casts, &Cast{What: x.what, Reach: reach})
		}
	}
	for _, x := range c.events {
		s.events = append(s.events, &Named{Name{"", x.what}, c.close(x.v, false)})
	}
}

// changes reports whether a function, or a function that it calls, may change rows of
// relations that these functions mention.
func (c *connection) changes(start *vertex) bool {
	seen := map[*vertex]bool{}
	var visit func(v *vertex) bool
	visit = func(v *vertex) bool {
		if seen[v] {
			return false
		}
		seen[v] = true
		return v.changes || slices.ContainsFunc(v.next, visit)
	}
	return visit(start)
}

// reachingOnes returns the operators or types that are not pure.
func (c *connection) reachingOnes(all map[string][]*vertex) map[string][]*Named {
	out := map[string][]*Named{}
	for name, list := range all {
		for _, v := range list {
			if reach := c.close(v, false); !reach.Pure() {
				out[name] = append(out[name], &Named{Name{v.schema, name}, reach})
			}
		}
	}
	return out
}

// BodyReach returns all that may happen when the body of a function, or of DO, runs.
// create is a statement that makes a function of this body; only PL/pgSQL needs it.
func (s *Schema) BodyReach(language, create, body string) Reach {
	src := &source{function: &Function{}, language: language, create: create, body: body}
	v := &vertex{}
	s.connection.words.look(src)
	s.connection.body(src, v)
	return s.connection.close(v, false)
}

// body enters what a function's text names into the function's vertex.
func (c *connection) body(s *source, v *vertex) {
	v.reads = append(v.reads, s.mentions...)
	v.writes = append(v.writes, s.writes...)
	v.opaque = v.opaque || s.runs
	v.changes = v.changes || s.changes()
	v.unsure = v.unsure || v.changes && !s.function.Parsed
	v.notifies, v.locks, v.ddl = v.notifies || s.notifies, v.locks || s.locks, v.ddl || s.ddl
	for _, call := range s.calls {
		for _, f := range c.words.functions[call] {
			v.next = append(v.next, c.functions[f])
		}
	}
	for _, name := range s.operators {
		v.next = append(v.next, c.operators[name]...)
	}
	if len(c.types) > 0 && !s.parsed && (s.language == "sql" || s.language == "plpgsql") {
		for word := range readBody(s.body).words {
			v.next = append(v.next, c.types[word]...)
			if l := lower(word); l != word {
				v.next = append(v.next, c.types[l]...)
			}
		}
		for _, name := range c.oddTypes {
			if strings.Contains(unquoted.Replace(s.body), unquoted.Replace(name)) {
				v.next = append(v.next, c.types[name]...)
			}
		}
	}
}
