package directory

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weft/datum"
	"weft/vindex"
)

// TableKind says on which shards a declared table's rows are. An undeclared table is on the home
// shard only.
type TableKind string

// The kinds of declared tables.
const (
	Sharded   TableKind = "sharded"   // each row is on the shard of its key
	Reference TableKind = "reference" // every row is on every shard
)

// TableState says whether a declaration is in force.
type TableState string

// The states of a declaration.
const (
	Active TableState = ""
	// Declaring says that rows are on their way from the home shard. Statements that name the
	// table wait.
	Declaring TableState = "declaring"
	// Undeclaring says that rows are on their way back to the home shard.
	Undeclaring TableState = "undeclaring"
)

// Table declares where the rows of one table are.
type Table struct {
	Database string     `json:"database"`
	Schema   string     `json:"schema"`
	Name     string     `json:"name"`
	Kind     TableKind  `json:"kind"`
	State    TableState `json:"state,omitempty"`

	// Columns are the key columns, in the order of the vindex. Empty for a
	// reference table.
	Columns []Column `json:"columns,omitempty"`
	Vindex  Vindex   `json:"vindex,omitzero"`

	// Group names the tables whose rows are on their way together, apart from the database's
	// other tables: their buckets have a placement of their own. Empty for all others.
	Group string `json:"group,omitempty"`

	// IDs are the generated ids that name their rows' buckets. IDs.Column is empty for a table
	// without routed ids.
	IDs RoutedIDs `json:"ids,omitzero"`

	// Links is "shard" if the table was declared with foreign_keys => 'shard': foreign keys without the shard key get it when
	// their table is declared. Empty otherwise.
	Links string `json:"links,omitempty"`

	// Job identifies the move of the table's rows, while State is not Active.
	Job Job `json:"job,omitzero"`

	// ForeignKeys are constraints of home tables that reference this table and were dropped when
	// its rows moved away. They are added again when the home table is declared too; until then
	// neither table takes writes that could break them.
	ForeignKeys []ForeignKey `json:"foreign_keys,omitempty"`
}

// Column is a key column with all that a vindex needs to know of it, so that routing needs only
// the snapshot.
type Column struct {
	Name string `json:"name"`
	// Type is the OID of the built-in type, below any domain.
	Type     uint32 `json:"type"`
	TypeName string `json:"type_name"`
	Mod      int32  `json:"mod"`
}

// RoutedIDs are generated ids that carry the bucket of their row in their low bits, as many as a
// bucket's number has. The bits above are Base plus a number drawn from the column's sequence.
type RoutedIDs struct {
	Column string `json:"column,omitempty"`
	// From is the least id whose row is certainly in the bucket that the id names. A constraint on
	// every shard guarantees that. Rows of smaller ids may be anywhere.
	From int64 `json:"from,omitempty"`
	Base int64 `json:"base,omitempty"`
	// Raised says that From has been raised, and that the constraint of a shard may still be the
	// stricter one from before.
	Raised bool `json:"raised,omitempty"`
	// Buckets is how many buckets the ids tell apart, 0 for as many as the cluster has. See Grow.
	Buckets int `json:"buckets,omitempty"`
}

// IDConstraint is the name of the constraint that guarantees RoutedIDs.From.
const IDConstraint = "weft_routed_ids"

// NoID is RoutedIDs.From if no id is known to name its bucket.
const NoID = math.MaxInt64

// Vindex says how a key becomes a place. Tables with equal vindexes and key
// types are colocated.
type Vindex struct {
	// Name is set for lookups, whose entries are kept under it.
	Name   string         `json:"name,omitempty"`
	Kind   string         `json:"kind"`
	Params map[string]any `json:"params,omitempty"`
	// Buckets is the count that numbers of buckets in Params refer to, 0 for that of the cluster. See
	// Grow.
	Buckets int `json:"buckets,omitempty"`
}

// Of returns how many buckets the ids tell apart in a cluster with that many.
func (ids *RoutedIDs) Of(buckets int) int {
	if ids.Buckets > 0 {
		return ids.Buckets
	}
	return buckets
}

// Job identifies the proxy that moves rows, so that others can finish or undo the move when that
// proxy is gone.
type Job struct {
	ID    string `json:"id"`
	Proxy string `json:"proxy"`
	// User is the user that the shards are dialled as, also to finish or undo the move.
	User string `json:"user,omitempty"`
	// Phase is how far the move has come.
	Phase JobPhase `json:"phase,omitempty"`
}

// JobPhase says what a move may have left besides the directory's entry.
type JobPhase string

// The phases of a job.
const (
	// Begun says that no shard holds anything of the move but open transactions.
	Begun JobPhase = ""
	// Filled says that other shards may hold tables of the move. The home shard tells whether
	// these tables count.
	Filled JobPhase = "filled"
	// Moved says that the home shard has committed, and that the rest is to be finished.
	Moved JobPhase = "moved"
)

// ForeignKey is a constraint that waits for its table to be declared.
type ForeignKey struct {
	Schema     string `json:"schema"`
	Table      string `json:"table"`
	Name       string `json:"name"`
	Definition string `json:"definition"`
}

// clone copies what t shares with the table it was copied from.
func (t *Table) clone() {
	t.Columns = slices.Clone(t.Columns)
	t.Vindex.Params = cloneParams(t.Vindex.Params)
	t.ForeignKeys = slices.Clone(t.ForeignKeys)
}

func cloneParams(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	c := make(map[string]any, len(m))
	for k, v := range m {
		c[k] = cloneParam(v)
	}
	return c
}

func cloneParam(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneParams(v)
	case []any:
		c := make([]any, len(v))
		for i := range v {
			c[i] = cloneParam(v[i])
		}
		return c
	}
	return v
}

// compare orders tables by database, schema and name.
func (t *Table) compare(database, schema, name string) int {
	// cmp.Or would compare all three each time.
	if t.Database != database {
		return strings.Compare(t.Database, database)
	}
	if t.Schema != schema {
		return strings.Compare(t.Schema, schema)
	}
	return strings.Compare(t.Name, name)
}

// search returns the index of the table in Tables, or where it would be.
func (s *Snapshot) search(database, schema, name string) (int, bool) {
	low, high := 0, len(s.Tables)
	for low < high {
		mid := int(uint(low+high) >> 1)
		switch c := s.Tables[mid].compare(database, schema, name); {
		case c == 0:
			return mid, true
		case c < 0:
			low = mid + 1
		default:
			high = mid
		}
	}
	return low, false
}

// Table returns the declaration of a table, or nil if there is none. The result shares memory with
// the snapshot and is read only.
func (s *Snapshot) Table(database, schema, name string) *Table {
	if i, ok := s.search(database, schema, name); ok {
		return &s.Tables[i]
	}
	return nil
}

// Declared returns the declared tables of a database. The result shares memory with the snapshot
// and is read only.
func (s *Snapshot) Declared(database string) []Table {
	first, _ := s.search(database, "", "")
	last, high := first, len(s.Tables)
	for last < high {
		if mid := int(uint(last+high) >> 1); s.Tables[mid].Database == database {
			last = mid + 1
		} else {
			high = mid
		}
	}
	return s.Tables[first:last:last]
}

// Databases returns the databases with declared tables: only these can have transactions of several
// shards.
func (s *Snapshot) Databases() []string {
	var out []string
	for i := range s.Tables {
		if d := s.Tables[i].Database; !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// PutTable adds a declaration, or replaces that of the same table. s must be a Clone.
func (s *Snapshot) PutTable(t Table) {
	i, ok := s.search(t.Database, t.Schema, t.Name)
	if ok {
		s.Tables[i] = t
		return
	}
	s.Tables = slices.Insert(s.Tables, i, t)
}

// DropTable removes a declaration, and reports whether there was one.
func (s *Snapshot) DropTable(database, schema, name string) bool {
	i, ok := s.search(database, schema, name)
	if ok {
		s.Tables = slices.Delete(s.Tables, i, i+1)
	}
	return ok
}

// DropDatabase removes all declarations of a database, and makes proxies read its schema again. s
// must be a Clone.
func (s *Snapshot) DropDatabase(database string) {
	s.Tables = slices.DeleteFunc(s.Tables, func(t Table) bool { return t.Database == database })
	s.Functions = slices.DeleteFunc(s.Functions, func(f Function) bool { return f.Database == database })
	s.Pending = slices.DeleteFunc(s.Pending, func(p Pending) bool { return p.Database == database })
	if s.Schemas == nil {
		s.Schemas = map[string]int64{}
	}
	s.Schemas[database]++
	delete(s.Vacated, database)
	for i := range slices.Backward(s.Moves) {
		if s.Moves[i].Database == database {
			s.EndMove(s.Moves[i].ID)
		}
	}
	maps.DeleteFunc(s.Placements, func(key string, _ []uint16) bool {
		return key == database || strings.HasSuffix(key, "/"+database)
	})
	own := slices.Collect(maps.Values(s.Isolated[database]))
	delete(s.Isolated, database)
	delete(s.Remapped, database)
	s.FreeBuckets(own)
}

// Vacate asks all proxies to leave a database. s must be a Clone.
func (s *Snapshot) Vacate(database string) {
	if s.Vacated == nil {
		s.Vacated = map[string]int64{}
	}
	s.Vacated[database] = s.Version
}

// NewVindex makes the vindex that a sharded table's declaration names, for a cluster with that
// many buckets.
func (t *Table) NewVindex(buckets int) (vindex.Vindex, error) {
	d := vindex.Declaration{Kind: t.Vindex.Kind, Params: t.Vindex.Params, Buckets: buckets}
	if t.Vindex.Buckets > 0 {
		d.Buckets = t.Vindex.Buckets
	}
	for _, c := range t.Columns {
		d.Columns = append(d.Columns, vindex.Column{
			Name: c.Name, Column: datum.Column{Type: datum.Type(c.Type), Mod: c.Mod}, TypeName: c.TypeName,
		})
	}
	return vindex.New(d)
}

// String prints the vindex as a person would name it.
func (v Vindex) String() string {
	out := v.Kind
	if v.Name != "" {
		out += " " + v.Name
	}
	if len(v.Params) > 0 {
		if b, err := json.Marshal(v.Params); err == nil {
			out += " " + string(b)
		}
	}
	if v.Buckets > 0 {
		out += fmt.Sprintf(" of %d buckets", v.Buckets)
	}
	return out
}

// Lookup reports whether the places of values are kept one by one, under Name.
func (v *Vindex) Lookup() bool { return v.Kind == "lookup" || v.Kind == "lookup_unique" }

// Equal reports whether two declarations say the same.
func (t *Table) Equal(o *Table) bool {
	return t.Database == o.Database && t.Schema == o.Schema && t.Name == o.Name &&
		t.Kind == o.Kind && t.State == o.State && t.Group == o.Group && t.Job == o.Job && t.IDs == o.IDs && t.Links == o.Links &&
		slices.Equal(t.Columns, o.Columns) && slices.Equal(t.ForeignKeys, o.ForeignKeys) && t.Vindex.Equal(&o.Vindex)
}

// Equal reports whether two vindexes put every key in the same place. Numbers are equal however
// they were decoded.
func (v *Vindex) Equal(o *Vindex) bool {
	if v.Name != o.Name || v.Kind != o.Kind || v.Buckets != o.Buckets || len(v.Params) != len(o.Params) {
		return false
	}
	if len(v.Params) == 0 {
		return true
	}
	a, err1 := json.Marshal(v.Params) // Marshal sorts the keys of maps
	b, err2 := json.Marshal(o.Params)
	return err1 == nil && err2 == nil && bytes.Equal(a, b)
}
