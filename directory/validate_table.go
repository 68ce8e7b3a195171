package directory

import (
	"regexp"
	"slices"
)

// lookupName keeps names of lookups usable in a key of the store.
var lookupName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_$.-]{0,62}$`)

// place names the declaration in a Problem.
func (t *Table) place() string {
	return "tables[" + t.Database + "." + t.Schema + "." + t.Name + "]"
}

func (s *Snapshot) validateTables(known *Snapshot, bad func(place, format string, args ...any)) {
	if known != nil && len(known.Tables) == len(s.Tables) && (len(s.Tables) == 0 || &known.Tables[0] == &s.Tables[0]) {
		return // the same declaration
	}
	lookups := map[string]*Table{}
	for i := range s.Tables {
		t := &s.Tables[i]
		if i > 0 {
			prev := &s.Tables[i-1]
			if c := prev.compare(t.Database, t.Schema, t.Name); c == 0 {
				bad(t.place(), "is declared twice")
			} else if c > 0 {
				bad(t.place(), "is out of order: it comes after %s", prev.place())
			}
		}
		var same *Table
		if known != nil {
			same = known.Table(t.Database, t.Schema, t.Name)
		}
		if same == nil || !same.Equal(t) {
			t.validate(s.BucketCount, bad)
		}
		if !t.Vindex.Lookup() || len(t.Columns) != 1 || t.Vindex.Name == "" {
			continue
		}
		// Entries are kept by the text of the key: the same text may be different values of two
		// types.
		first := lookups[t.Vindex.Name]
		if first == nil {
			lookups[t.Vindex.Name] = t
		} else if a, b := &first.Columns[0], &t.Columns[0]; first.Vindex.Kind != t.Vindex.Kind || a.Type != b.Type {
			bad(t.place()+".vindex.name", "%q is a %s of %s for %s: it cannot be a %s of %s here",
				t.Vindex.Name, first.Vindex.Kind, a.TypeName, first.place(), t.Vindex.Kind, b.TypeName)
		}
	}
}

func (t *Table) validate(buckets int, bad func(place, format string, args ...any)) {
	place := t.place()
	if t.Database == "" || t.Schema == "" || t.Name == "" {
		bad(place, "database, schema and name are all needed")
	}
	switch t.State {
	case Active, Declaring, Undeclaring:
	default:
		bad(place+".state", "%q is unknown; known are %q and %q", t.State, Declaring, Undeclaring)
	}
	switch t.Kind {
	case Reference:
		if len(t.Columns) > 0 || t.Vindex.Kind != "" || t.Vindex.Name != "" || len(t.Vindex.Params) > 0 {
			bad(place, "a reference table has neither key columns nor a vindex")
		}
	case Sharded:
		t.validateVindex(place, buckets, bad)
	default:
		bad(place+".kind", "%q is unknown; known are %q and %q", t.Kind, Sharded, Reference)
	}
	if t.IDs != (RoutedIDs{}) {
		t.validateIDs(place+".ids", buckets, bad)
	}
}

func (t *Table) validateVindex(place string, buckets int, bad func(place, format string, args ...any)) {
	if len(t.Columns) == 0 {
		bad(place+".columns", "a sharded table needs at least one")
		return
	}
	if n := t.Vindex.Buckets; n != 0 && !isPart(n, buckets) {
		bad(place+".vindex.buckets", "%d is not a number that %d buckets can have become of", n, buckets)
		return
	}
	if _, err := t.NewVindex(buckets); err != nil {
		bad(place+".vindex", "%v", err)
		return
	}
	switch name := t.Vindex.Name; {
	case t.Vindex.Lookup() && name == "":
		bad(place+".vindex.name", "is empty: a %s needs a name to keep its entries under", t.Vindex.Kind)
	case t.Vindex.Lookup() && !lookupName.MatchString(name):
		bad(place+".vindex.name", "%q must start with a letter and hold only letters, digits and _ $ . - (63 at most)", name)
	case !t.Vindex.Lookup() && name != "":
		bad(place+".vindex.name", "%q: only lookups have a name, and this is a %s", name, t.Vindex.Kind)
	}
}

func (t *Table) validateIDs(place string, buckets int, bad func(place, format string, args ...any)) {
	if n := t.IDs.Buckets; n != 0 && !isPart(n, buckets) {
		bad(place+".buckets", "%d is not a number that %d buckets can have become of", n, buckets)
		return
	}
	buckets = t.IDs.Of(buckets)
	isKey := func(c Column) bool { return c.Name == t.IDs.Column }
	switch {
	case t.Kind != Sharded || t.Vindex.Lookup():
		bad(place, "only a table whose vindex is computed has routed ids")
	case t.IDs.Column == "" || slices.ContainsFunc(t.Columns, isKey):
		bad(place+".column", "%q must be a column that is not part of the key", t.IDs.Column)
	case t.IDs.From <= 0 || t.IDs.From != NoID && t.IDs.From%int64(buckets) != 0 || t.IDs.Base < 0:
		bad(place, "from %d and base %d do not fit %d buckets", t.IDs.From, t.IDs.Base, buckets)
	}
}

// isPart reports whether a cluster with that many buckets can have had n.
func isPart(n, buckets int) bool { return n > 0 && n <= buckets && buckets%n == 0 && n&(n-1) == 0 }
