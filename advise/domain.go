package advise

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"weft/catalog"
	"weft/datum"
	"weft/recording"
)

const (
	// noticed is the share of the work from which on a comparison counts.
	noticed = 0.01
	// maxCandidates bounds how many domains are tried.
	maxCandidates = 24
)

// domain is columns of tables that hold the same kind of values.
type domain struct {
	refs   []Ref
	root   Ref     // the column that the others are named after
	weight float64 // share of the work that compares one of the columns with something
}

// tables returns the columns of the domain by table, in the order of their use.
func (d *domain) tables() map[catalog.Name][]string {
	out := map[catalog.Name][]string{}
	for _, r := range d.refs {
		out[r.Table] = append(out[r.Table], r.Column)
	}
	return out
}

// domains finds the candidates.
func (w *work) domains() []*domain {
	f := &finder{w: w, parent: map[Ref]Ref{}, used: map[Ref]float64{}, forced: map[Ref]bool{}}
	f.foreignKeys()
	f.comparisons()
	f.names()
	f.recorded()
	f.keys()
	return f.candidates()
}

// finder puts columns together, as a union-find structure.
type finder struct {
	w      *work
	parent map[Ref]Ref
	used   map[Ref]float64 // share of the work that compares the column
	roots  map[Ref]int     // how many foreign keys reference the column, and none is on it
	forced map[Ref]bool    // candidates though no statement compares them
}

func (f *finder) find(r Ref) Ref {
	for {
		p, ok := f.parent[r]
		if !ok || p == r {
			return r
		}
		r = p
	}
}

// unite puts two columns into one domain, if equal values of them would be on one shard.
func (f *finder) unite(a, b Ref) {
	if k := f.w.kind(a); k == 0 || k != f.w.kind(b) {
		return
	}
	f.add(a)
	f.add(b)
	if x, y := f.find(a), f.find(b); x != y {
		f.parent[x] = y
	}
}

func (f *finder) add(r Ref) {
	if _, ok := f.parent[r]; !ok && f.w.kind(r) != 0 {
		f.parent[r] = r
	}
}

// kind returns the same for columns whose equal values hash alike, and 0 for a column that cannot be
// a shard key.
func (w *work) kind(r Ref) datum.Type {
	rel := w.in.Schema.Relation(r.Table)
	if rel == nil {
		return 0
	}
	c := rel.Column(r.Column)
	if c == nil || c.Enum || c.Nondeterministic || c.Generated || !datum.Keyed(datum.Type(c.Base)) {
		return 0
	}
	switch t := datum.Type(c.Base); t {
	case datum.Int2, datum.Int4, datum.Int8:
		return datum.Int8
	case datum.Text, datum.Varchar:
		return datum.Text
	default:
		return t
	}
}

func (f *finder) foreignKeys() {
	f.roots = map[Ref]int{}
	for _, rel := range f.w.tables {
		for _, fk := range rel.ForeignKeys {
			for i := range fk.Columns {
				from, to := Ref{rel.Name, fk.Columns[i]}, Ref{fk.References, fk.RefColumns[i]}
				f.unite(from, to)
				f.roots[to]++
			}
		}
	}
	for _, rel := range f.w.tables {
		for _, fk := range rel.ForeignKeys {
			for _, column := range fk.Columns {
				delete(f.roots, Ref{rel.Name, column})
			}
		}
	}
}

// comparisons unites columns that enough of the work compares with each other, and counts how much
// work compares each column.
func (f *finder) comparisons() {
	pairs := map[[2]Ref]float64{}
	for i := range f.w.statements {
		s := &f.w.statements[i]
		seen := map[Ref]bool{}
		use := func(r Ref) {
			if !seen[r] {
				seen[r] = true
				f.used[r] += s.weight
			}
		}
		for _, r := range s.sight.values {
			use(r)
		}
		for _, j := range s.sight.joins {
			use(j[0])
			use(j[1])
			if j[0].compare(j[1]) > 0 {
				j[0], j[1] = j[1], j[0]
			}
			pairs[j] += s.weight
		}
	}
	for j, weight := range pairs {
		if weight >= noticed {
			f.unite(j[0], j[1])
		}
	}
	for r := range f.used {
		f.add(r)
	}
}

// names unites columns of one name that looks like that of a key: an application without foreign keys
// compares tenant_id with a value in each statement, and seldom with another column.
func (f *finder) names() {
	first := map[string]Ref{}
	for _, rel := range f.w.tables {
		for i := range rel.Columns {
			name := rel.Columns[i].Name
			if r := (Ref{rel.Name, name}); looksLikeKey(name) && f.w.kind(r) != 0 {
				key := name + " " + f.w.kind(r).String()
				if other, ok := first[key]; ok {
					f.unite(other, r)
				} else {
					first[key] = r
				}
			}
		}
	}
}

const (
	// together is how many recorded transactions must have values of two columns, and alike the share of
	// them in which the values are equal, so that the columns count as one domain.
	together, alike = 20, 0.5
)

// recorded unites columns that have equal values in most of the recorded transactions that have both:
// an application that takes the number of a user from one table to the next needs no join.
func (f *finder) recorded() {
	both, equal := map[[2]Ref]int{}, map[[2]Ref]int{}
	for _, t := range f.w.in.Transactions {
		values := map[Ref]recording.Value{}
		for i := range t {
			at, ok := f.w.index[t[i].ID]
			if !ok {
				continue
			}
			for p, r := range f.w.statements[at].sight.params {
				if p < len(t[i].Values) && len(t[i].Values[p]) > 0 {
					values[r] = append(values[r], t[i].Values[p]...)
				}
			}
		}
		for a, x := range values {
			for b, y := range values {
				if a.Table == b.Table || a.compare(b) > 0 || f.w.kind(a) == 0 || f.w.kind(a) != f.w.kind(b) {
					continue
				}
				pair := [2]Ref{a, b}
				both[pair]++
				if slices.ContainsFunc(x, func(v uint64) bool { return slices.Contains(y, v) }) {
					equal[pair]++
				}
			}
		}
	}
	pairs := slices.SortedFunc(maps.Keys(both), func(a, b [2]Ref) int { return cmp.Or(a[0].compare(b[0]), a[1].compare(b[1])) })
	for _, pair := range pairs {
		if n := both[pair]; n >= together && float64(equal[pair]) >= alike*float64(n) && !f.overlap(pair[0], pair[1]) {
			f.unite(pair[0], pair[1])
		}
	}
}

// overlap reports whether the domains of two columns have columns of one table. Two columns of a table
// hold different things, unless a foreign key says otherwise.
func (f *finder) overlap(a, b Ref) bool {
	tables := map[catalog.Name]bool{a.Table: true}
	for r := range f.parent {
		if f.find(r) == f.find(a) {
			tables[r.Table] = true
		}
	}
	if tables[b.Table] {
		return true
	}
	for r := range f.parent {
		if f.find(r) == f.find(b) && tables[r.Table] {
			return true
		}
	}
	return false
}

func looksLikeKey(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, "_id") || strings.HasSuffix(name, "_uuid") || len(name) > 3 && strings.HasSuffix(name, "id") && !strings.Contains(name, "_")
}

// keys adds primary keys of tables with work: a table that is only written has no comparisons.
func (f *finder) keys() {
	for _, rel := range f.w.tables {
		if f.w.usage[rel.Name].weight < noticed {
			continue
		}
		for _, u := range rel.Unique {
			if u.Primary && u.Columns[0] != "" {
				r := Ref{rel.Name, u.Columns[0]}
				f.add(r)
				f.forced[f.find(r)] = true
			}
		}
	}
}

// candidates returns the domains that enough of the work is about, the most used first.
func (f *finder) candidates() []*domain {
	sets := map[Ref]*domain{}
	for r := range f.parent {
		root := f.find(r)
		if sets[root] == nil {
			sets[root] = &domain{}
		}
		sets[root].refs = append(sets[root].refs, r)
	}
	var out []*domain
	for root, d := range sets {
		slices.SortFunc(d.refs, func(a, b Ref) int {
			return cmp.Or(cmp.Compare(f.used[b], f.used[a]), a.compare(b))
		})
		d.root = d.refs[0]
		for _, r := range d.refs {
			d.weight += f.used[r]
			if f.roots[r] > f.roots[d.root] {
				d.root = r
			}
		}
		if f.used[d.refs[0]] >= noticed || f.forced[root] || f.forced[f.find(root)] {
			out = append(out, d)
		}
	}
	slices.SortFunc(out, func(a, b *domain) int {
		return cmp.Or(cmp.Compare(b.weight, a.weight), a.root.compare(b.root))
	})
	return out[:min(len(out), maxCandidates)]
}

// name is what people call the domain: customers.id = *.customer_id.
func (d *domain) name() string {
	var others []string
	for _, r := range d.refs {
		if r != d.root {
			others = appendNew(others, r.Column)
		}
	}
	slices.Sort(others)
	switch {
	case len(others) == 0:
		return d.root.String()
	case len(others) == 1 && others[0] == d.root.Column:
		return "*." + others[0]
	}
	more := ""
	if len(others) > 2 {
		others, more = others[:2], ", …"
	}
	return d.root.String() + " = *." + strings.Join(others, ", *.") + more
}
