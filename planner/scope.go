package planner

import (
	"slices"

	"weft/catalog"
	"weft/datum"
	"weft/plan"
)

// A scope holds the facts of conditions that are true together: for every
// combination of rows that the scope lets through, all of them hold.
//
// The tree of scopes follows the joins. The conditions of WHERE and of inner
// joins are in one scope. The nullable side of an outer join is a child: its
// conditions (ON, and what is inside that side) hold only for combinations in
// which that side has a row. A FULL join has two children, and its ON is a fact
// for neither. A subquery is pulled up into the scope in which it stands, or is
// a child where grouping, set operations or the like forbid that; then what its
// conditions say of the columns it yields is repeated outside (outward).
//
// What is claimed for an instance X: let F be the facts of X's scope and of all
// scopes above, P a condition on X's key that follows from F by logic alone.
// Then rows of X that do not satisfy P can be taken away without changing the
// statement's result.
//
// Proof. Let x be a row without P.
//
// (1) No combination with x reaches the result: it would satisfy all of F, by
// what a scope is, and so P.
//
// (2) Taking x away adds nothing. New combinations can only arise at an outer
// join on whose nullable side X is: some row l of the other side matched x, and
// now stands there with NULLs. Suppose that combination, with some rows r of
// joins further out, satisfied the facts of the scopes above. All of these are
// strict: a comparison with a NULL is not true. So none of them names a column
// of the nullable side, and they hold for (l, r) alone. The facts of the scopes
// from X's up to that join hold for (l, x), because x matched. So all of F holds
// for (l, x, r), hence P for x: a contradiction. (IS NULL is the one fact that
// is not strict; it is used only for rows of the scope it stands in, and not
// for those of a nullable side: see solve.)
//
// (3) A correlated subquery: let l be a row of the level above, and x a row that
// the subquery's own conditions let through beside l. If any result of the
// subquery could let l through the facts above, these and the subquery's would
// hold together for (l, x), and so P for x. So whatever the subquery yields for
// l, l is not in the result. This holds for every form of subquery (aggregates,
// LIMIT, NOT EXISTS): the subquery's scope may always have the scope it stands in
// above it, as long as the columns it yields are not taken for its own rows'.
//
// The facts are conditions of the text, not of the data, so all instances may be
// restricted at once: after one is, the text and so the facts are the same.
type scope struct {
	parent *scope
	// nullable is set if the scope's rows may be missing where the parent's are there.
	nullable bool
	equal    [][2]*column
	among    []among
	bounds   []bound
	// same are pairs of columns with the same value, NULL included: one is the other as an arm of a
	// set operation yields it. No condition says so, hence a pair does not imply that there is a
	// value. In the proof a pair takes part only beside a condition on the yielded column, and that
	// is strict.
	same [][2]*column
}

// among is the fact that a column has one of some values.
type among struct {
	column *column
	set    plan.Set
	null   bool // the set has NULL: the fact is not strict
}

// bound is the fact that a column is not below a value, or not above it. It is
// strict.
type bound struct {
	column *column
	source plan.Source
	low    bool
}

func (s *scope) child(nullable bool) *scope { return &scope{parent: s, nullable: nullable} }

// present returns the outermost scope whose combinations all have a row here.
func (s *scope) present() *scope {
	for s.parent != nil && !s.nullable {
		s = s.parent
	}
	return s
}

// column is a column of one appearance of a table, or an output column of a subquery that is not
// simply such a column.
type column struct {
	name string
	typ  datum.Type // below any domain; 0 if unknown
	// declared is the declared type, which may be a domain.
	declared datum.Type
	apart    bool            // equal values may be different keys
	stored   *catalog.Column // the column in its table, or nil
	instance *instance
	// of is the table in FROM that has the column, base its name there. Nil where conditions on the
	// column are not conditions on rows of that table.
	of   *appearance
	base string
	// inside is the subquery column that this one copies, if conditions on this column cannot be
	// pushed down to it.
	inside *column
}

// class returns the group of types in which equal values have the same key.
func (c *column) class() datum.Type {
	if c.apart {
		return 0
	}
	return class(c.typ)
}

func class(t datum.Type) datum.Type {
	switch t {
	case datum.Int2, datum.Int4, datum.Int8:
		return datum.Int8
	case datum.Text, datum.Varchar:
		return datum.Text
	case datum.Bpchar, datum.UUID, datum.Date, datum.Timestamp, datum.Timestamptz, datum.Numeric:
		return t
	}
	return 0
}

func newColumn(c *catalog.Column, x *instance) *column {
	return &column{
		name: c.Name, typ: datum.Type(c.Base), declared: datum.Type(c.Type), instance: x,
		apart: c.Enum || c.Nondeterministic, stored: c,
	}
}

// fact is one condition that was understood: left = right, or left in a set.
type fact struct {
	left, right *column
	set         plan.Set
	null        bool
	// bound is set if the fact only says that left is on one side of the set's only value; low is
	// set if left is not below it.
	bound, low bool
}

func (s *scope) add(facts ...fact) {
	for _, f := range facts {
		switch {
		case f.bound:
			s.bounds = append(s.bounds, bound{f.left, f.set[0], f.low})
		case f.right != nil:
			s.equal = append(s.equal, [2]*column{f.left, f.right})
		default:
			s.among = append(s.among, among{f.left, f.set, f.null})
		}
	}
}

// classes are the equality classes of columns under the facts that can be used for rows of a scope.
type classes struct {
	scope *scope
	facts []*scope
	root  map[*column]*column
	// lookups caches the lookup of each instance.
	lookups map[*instance]*plan.LookupKey
}

func newClasses(s *scope) *classes {
	c := &classes{scope: s, facts: usable(s), root: map[*column]*column{}}
	for _, s := range c.facts {
		for _, pairs := range [][][2]*column{s.equal, s.same} {
			for _, e := range pairs {
				if a, b := c.find(e[0]), c.find(e[1]); a != b {
					c.root[a] = b
				}
			}
		}
	}
	return c
}

// usable returns the scopes whose facts hold for a combination with a row of s in
// it: s, those above, and every nullable side of which one of these facts names a
// column. That fact is strict, so that side has a row, and its own facts hold: a
// LEFT JOIN b ON a.k = b.k WHERE b.x = 1 is an inner join. The proof above stands:
// in (2), a combination that satisfies the facts above has a row on that side
// too, and the facts of that side are strict like all others.
func usable(s *scope) []*scope {
	var out []*scope
	in := map[*scope]bool{}
	for ; s != nil; s = s.parent {
		out = append(out, s)
		in[s] = true
	}
	reach := func(c *column) {
		if c.instance == nil {
			return
		}
		var path []*scope
		at := c.instance.scope
		for ; at != nil && !in[at]; at = at.parent {
			path = append(path, at)
		}
		if at == nil {
			return
		}
		for _, p := range path {
			out = append(out, p)
			in[p] = true
		}
	}
	for i := 0; i < len(out); i++ {
		for _, e := range out[i].equal {
			reach(e[0])
			reach(e[1])
		}
		for _, f := range out[i].among {
			if !f.null {
				reach(f.column)
			}
		}
	}
	return out
}

func (c *classes) find(x *column) *column {
	for c.root[x] != nil {
		x = c.root[x]
	}
	return x
}

// sets returns the sets that a column's value is known to be in.
func (c *classes) sets(x *column) []plan.Set {
	var out []plan.Set
	root := c.find(x)
	for _, s := range c.facts {
		for _, f := range s.among {
			switch {
			case f.null && (f.column != x || s.present() != c.scope.present()):
				// The fact is not strict: it does not hold for a nullable side, nor for columns
				// that equal this one.
			case c.find(f.column) == root:
				set := typed(f.set, f.column, x)
				if !slices.ContainsFunc(out, func(o plan.Set) bool { return slices.Equal(o, set) }) {
					out = append(out, set)
				}
			}
		}
	}
	return out
}

// bounds returns the known bounds of a column.
func (c *classes) bounds(x *column) []plan.Bound {
	var out []plan.Bound
	root := c.find(x)
	for _, s := range c.facts {
		for _, f := range s.bounds {
			if c.find(f.column) == root {
				out = append(out, plan.Bound{Source: typed(plan.Set{f.source}, f.column, x)[0], Low: f.low})
			}
		}
	}
	return out
}

// outward returns the facts about a column as facts about another column with its value, for a
// scope outside: every row that comes out has passed all conditions inside. IS NULL is not among
// them: see sets.
func (c *classes) outward(x, as *column) []fact {
	var out []fact
	for _, s := range c.sets(x) {
		if !slices.ContainsFunc(s, func(v plan.Source) bool { return v.Kind == plan.Null }) {
			out = append(out, fact{left: as, set: typed(s, x, as)})
		}
	}
	return out
}

// typed returns the values of a set that was compared with column from, for use with column to: a
// literal without a type was read as from's type.
func typed(set plan.Set, from, to *column) plan.Set {
	if from.typ == to.typ {
		return set
	}
	out := make(plan.Set, len(set))
	for i, s := range set {
		if (s.Type == datum.Unknown || s.Type == 0) && (s.Kind == plan.Literal || s.Kind == plan.Array || s.Kind == plan.Constant) {
			s.Type = from.typ
		}
		out[i] = s
	}
	return out
}
