package importer

import (
	"fmt"
	"slices"
	"strings"
)

// Survey is what Judge has to know of the source.
type Survey struct {
	Database          string
	Version           int // as server_version_num
	Encoding, Collate string
	WALLevel          string
	Slots, MaxSlots   int
	Senders           int // walsenders that run
	MaxSenders        int
	KeepSize          string // max_slot_wal_keep_size
	Replicates        bool   // the user may use slots
	Owns              bool   // the user may publish the tables and read them
	Tables            []Table
	Sequences         []Sequence
	Materialized      []string // views, in the order of their dependencies
	Foreign           []string // foreign tables
	LargeObjects      int64
	Prepared          int // transactions
	Extensions        []string
	Roles             []string // that own something or have rights
	Collations        []string // of columns, that are not in every installation
	Links             []Link
}

// Sequence is one, with what nextval has come to.
type Sequence struct {
	Schema, Name string
	Last         int64
	Called       bool
}

// Link is a foreign key: From references To, both as Table.name.
type Link struct{ From, To string }

// Prospect is what Judge has to know of the target.
type Prospect struct {
	Version           int
	Encoding, Collate string
	Superuser         bool
	Tables            []Table
	Declared          map[string]Declared // by Table.name
	Extensions        []string            // that could be created
	Roles             []string
	Collations        []string
	Occupied          []string // tables with rows, of those that would be imported
}

// Declared is how weft holds a table.
type Declared struct {
	Reference bool
	Columns   []string
	Active    bool
}

// Level is how bad a Finding is.
type Level string

// The levels. An import does not start while there is an error.
const (
	Warning Level = "warning"
	Error   Level = "error"
)

// Finding is something that the operator should know before an import.
type Finding struct {
	Level Level
	Text  string
	Hint  string
}

// Wish is what the operator has said.
type Wish struct {
	Declarations []Declaration
	Exclude      []string // tables that stay behind, as Table.name
	NoSchema     bool     // the target has the tables already
	NoOwner      bool     // owners and rights stay behind
	NoObjects    bool     // large objects stay behind
}

// Judge says what stands in the way of an import, errors first.
func Judge(s *Survey, p *Prospect, w *Wish) []Finding {
	j := &judge{s: s, p: p, w: w}
	j.servers()
	j.rights()
	j.objects()
	for i := range s.Tables {
		if !w.excludes(&s.Tables[i]) {
			j.table(&s.Tables[i])
		}
	}
	j.wishes()
	slices.SortStableFunc(j.out, func(a, b Finding) int { return strings.Compare(string(a.Level), string(b.Level)) })
	return j.out
}

// excludes reports whether a table stays behind.
func (w *Wish) excludes(t *Table) bool { return slices.Contains(w.Exclude, t.name()) }

// declaration returns what is wished for a table, or nil.
func (w *Wish) declaration(t *Table) *Declaration {
	for i := range w.Declarations {
		if d := &w.Declarations[i]; d.Schema == t.Schema && d.Name == t.Name {
			return d
		}
	}
	return nil
}

type judge struct {
	s   *Survey
	p   *Prospect
	w   *Wish
	out []Finding
}

func (j *judge) add(level Level, hint, format string, args ...any) {
	j.out = append(j.out, Finding{level, fmt.Sprintf(format, args...), hint})
}

// minVersion is the oldest source: publications of partitioned tables came with it.
const minVersion = 130000

func (j *judge) servers() {
	s, p := j.s, j.p
	if s.Version < minVersion {
		j.add(Error, "Upgrade it first, or dump and restore.", "the source is PostgreSQL %d; at least %d is needed", s.Version/10000, minVersion/10000)
	}
	if s.Version/10000 > p.Version/10000 {
		j.add(Warning, "Statements of its dump may be refused. Make the schema by hand and give --no-schema.", "the source is PostgreSQL %d, the shards are %d", s.Version/10000, p.Version/10000)
	}
	if s.WALLevel != "logical" {
		j.add(Error, "ALTER SYSTEM SET wal_level = logical, and restart the source.", "wal_level of the source is %s", s.WALLevel)
	}
	if s.Slots+3 > s.MaxSlots {
		j.add(Error, "Three are needed, two of them while tables are copied or compared: raise max_replication_slots, or drop slots.", "%d of max_replication_slots = %d of the source are in use", s.Slots, s.MaxSlots)
	}
	if s.Senders+3 > s.MaxSenders {
		j.add(Error, "Three are needed: raise max_wal_senders.", "%d of max_wal_senders = %d of the source are in use", s.Senders, s.MaxSenders)
	}
	if s.KeepSize == "-1" {
		j.add(Warning, "While nothing follows, the source keeps its WAL: watch its disk, or set max_slot_wal_keep_size. weft import abort drops the slot.", "max_slot_wal_keep_size of the source has no limit")
	}
	if s.Encoding != p.Encoding {
		j.add(Error, "Make the database in weft with the same encoding.", "the source's encoding is %s, the target's %s", s.Encoding, p.Encoding)
	}
	if s.Collate != p.Collate {
		j.add(Warning, "Text will sort, and compare in ranges, in another way.", "the source's collation is %s, the target's %s", s.Collate, p.Collate)
	}
}

func (j *judge) rights() {
	s, p := j.s, j.p
	if !s.Replicates {
		j.add(Error, "ALTER ROLE … REPLICATION, or the service's own role for it.", "the user may not use replication slots on the source")
	}
	if !s.Owns {
		j.add(Error, "Connect as a superuser, or as the owner of the database and all tables.", "the user does not own all tables of the source, and cannot publish them")
	}
	if !p.Superuser {
		j.add(Error, "Triggers and foreign keys must be silent while rows come in.", "the user is no superuser in weft")
	}
	if missing := without(s.Roles, p.Roles); len(missing) > 0 && !j.w.NoOwner && !j.w.NoSchema {
		j.add(Error, "Create them, or give --no-owner.", "roles are missing in weft: %s", strings.Join(missing, ", "))
	}
	if missing := without(s.Extensions, p.Extensions); len(missing) > 0 {
		j.add(Error, "Install their packages on every shard.", "extensions cannot be created on the shards: %s", strings.Join(missing, ", "))
	}
	if missing := without(s.Collations, p.Collations); len(missing) > 0 {
		j.add(Error, "Install their locales on every shard, and pg_import_system_collations.", "collations are missing on the shards: %s", strings.Join(missing, ", "))
	}
}

func (j *judge) objects() {
	s := j.s
	if s.LargeObjects > 0 && !j.w.NoObjects {
		j.add(Error, "weft has none: keep their bytes in a bytea column, or give --without-large-objects.", "the source has %d large objects", s.LargeObjects)
	}
	if s.Prepared > 0 {
		j.add(Warning, "The slot waits for them before anything is copied, and the cut-over refuses to run beside them.", "the source has %d prepared transactions", s.Prepared)
	}
	if len(s.Foreign) > 0 {
		j.add(Warning, "Their definitions are copied, and rows they do not have.", "foreign tables: %s", strings.Join(s.Foreign, ", "))
	}
	if len(s.Materialized) > 0 {
		j.add(Warning, "They are empty until the cut-over refreshes them.", "materialized views: %s", strings.Join(s.Materialized, ", "))
	}
}

func (j *judge) table(t *Table) {
	name := t.name()
	if t.Unlogged {
		j.add(Error, fmt.Sprintf("ALTER TABLE %s SET LOGGED, or give --exclude %s.", name, name), "%s is unlogged: its changes cannot be followed", name)
		return
	}
	switch {
	case t.Identity == NoIdentity:
		j.add(Error, fmt.Sprintf("ALTER TABLE %s REPLICA IDENTITY FULL, or a primary key, or --exclude %s.", name, name), "%s has no key: once it is published the source would refuse to update and delete its rows", name)
	case t.Mixed:
		j.add(Error, "Give them the same.", "partitions of %s have another replica identity than the table", name)
	case len(t.Key) == 0:
		j.add(Warning, "Each of them is a scan on one shard or all.", "%s has no key: rows that change are found by comparing all columns", name)
	default:
		shard := j.p.Declared[name].Columns
		if d := j.w.declaration(t); d != nil {
			shard = d.Columns
		}
		if len(without(shard, t.Key)) > 0 {
			j.add(Warning, "A unique index over both, NOT NULL, as REPLICA IDENTITY USING INDEX avoids that.", "the key of %s does not have its shard key: deleted rows are looked for on all shards", name)
		}
	}
	there := find(j.p.Tables, t.Schema, t.Name)
	switch {
	case j.w.NoSchema && there == nil:
		j.add(Error, "Make it, leave --no-schema out, or exclude it.", "%s is not in weft", name)
	case j.w.NoSchema && there.definition() != t.definition():
		j.add(Error, "Make them the same.", "%s has other columns in weft\n  source: %s\n  target: %s", name, t.definition(), there.definition())
	case j.w.NoSchema && slices.Contains(j.p.Occupied, name):
		j.add(Error, "TRUNCATE it.", "%s has rows in weft", name)
	case !j.w.NoSchema && there != nil:
		j.add(Error, "Drop it, or give --no-schema if weft has the whole schema.", "%s is in weft already", name)
	}
}

func (j *judge) wishes() {
	for i := range j.w.Declarations {
		d := &j.w.Declarations[i]
		if find(j.s.Tables, d.Schema, d.Name) == nil {
			j.add(Error, "", "%s is to be %s, and the source has no such table", Name(d.Schema, d.Name), d.Says)
		}
	}
	for _, name := range j.w.Exclude {
		if !slices.ContainsFunc(j.s.Tables, func(t Table) bool { return t.name() == name }) {
			j.add(Error, "", "%s is to stay behind, and the source has no such table", name)
		}
	}
	for _, l := range j.s.Links {
		if !j.w.NoSchema && slices.Contains(j.w.Exclude, l.To) && !slices.Contains(j.w.Exclude, l.From) {
			j.add(Error, "Import both, or none; or make the schema by hand and give --no-schema.", "%s references %s, which stays behind", l.From, l.To)
		}
	}
}

// without returns those of list that are not in have.
func without(list, have []string) []string {
	var out []string
	for _, s := range list {
		if !slices.Contains(have, s) {
			out = append(out, s)
		}
	}
	return out
}

// Order puts declarations into the order in which tables can be declared: a referenced table before those that
// reference it, as far as there is such an order.
func Order(list []Declaration, links []Link) []Declaration {
	rank := map[string]int{}
	for range list { // as many passes as the longest chain can have links
		for _, l := range links {
			if l.From != l.To && rank[l.From] <= rank[l.To] && rank[l.To] < len(list) {
				rank[l.From] = rank[l.To] + 1
			}
		}
	}
	out := slices.Clone(list)
	slices.SortStableFunc(out, func(a, b Declaration) int {
		return rank[Name(a.Schema, a.Name)] - rank[Name(b.Schema, b.Name)]
	})
	return out
}
