package catalog

import (
	"slices"
	"strings"

	"weft/quote"
)

// Schema is one database's schema at one version, as the home shard has it.
// It is immutable.
type Schema struct {
	// Version is the directory's schema version of the database at the time of
	// loading.
	Version int64

	// CustomEquality: a user has defined an operator = between built-in types, so
	// the meaning of = depends on search_path. No statement is routed by equality then.
	CustomEquality bool

	// Incomplete: some definitions could not be read without waiting, because
	// another transaction is changing a relation that they name. Relations with such
	// a definition are Busy. Load again when that transaction may have ended.
	Incomplete bool

	// Bytewise: the database's default collation compares bytes.
	Bytewise bool
	// Encoding is the server's encoding.
	Encoding string
	// Server is the major version of the server, 0 if it is not known.
	Server int
	// Live: the schema was read from a server, so it shows what weft has made there too.
	Live bool

	relations map[Name]*Relation
	// statistics has the table of each extended statistics object.
	statistics map[Name]Name
	functions  map[string][]*Function // by name without schema
	builtins   map[string]Traits
	lookedUp   []*Relation
	// operators and reaching are the operators and types that are not pure.
	operators, reaching map[string][]*Named
	casts               []*Cast
	connection          *connection // the graph, for bodies that are not in the schema
	events              []*Named
}

// Name is a schema-qualified name.
type Name struct{ Schema, Name string }

// SQL returns the name for use in a statement: schema and name, both in quotes.
func (n Name) SQL() string { return quote.Name(n.Schema, n.Name) }

// RelationKind is pg_class.relkind.
type RelationKind byte

// The kinds of relations.
const (
	Table            RelationKind = 'r'
	PartitionedTable RelationKind = 'p'
	View             RelationKind = 'v'
	MaterializedView RelationKind = 'm'
	Sequence         RelationKind = 'S'
	ForeignTable     RelationKind = 'f'
	Composite        RelationKind = 'c'
	Index            RelationKind = 'i'
	PartitionedIndex RelationKind = 'I'
)

// Relation is a table or something like one.
type Relation struct {
	Name
	OID   uint32
	Kind  RelationKind
	Owner string
	// Definition is a view's query. All names in it are qualified, except names of
	// pg_catalog. Empty if Busy.
	Definition string
	// Busy: a definition could not be read without waiting (Schema.Incomplete).
	Busy bool
	// Columns are the columns in the order of the table, without dropped columns. Not
	// loaded for system relations.
	Columns []Column
	// Unique has the primary key first, then the other constraints by name.
	Unique []Unique
	// ForeignKeys are the foreign keys of this table. Referenced are the foreign keys
	// that reference this table. A foreign key of a partitioned table is not repeated
	// for its partitions.
	ForeignKeys []ForeignKey
	Referenced  []ForeignKey
	// Triggers are the user's triggers, including those of the partitioned tables above.
	Triggers []Trigger
	guards   int // weft's guard triggers that are enabled ALWAYS
	// Parent is the table that this table is a partition of or inherits from; the
	// first of several. Children are all partitions and inheriting tables.
	Parent    *Relation
	Children  []*Relation
	Inherited bool // the table has its Parent by INHERITS, not as a partition
	// OwnedBy is the table whose column owns this sequence, or the table of this index.
	OwnedBy Name
	// OwnedColumn is the column of OwnedBy that owns this sequence.
	OwnedColumn string
	// Lookups are the lookups on columns of this table.
	Lookups []Lookup
	// Rules: the relation has rewrite rules, beyond the rule that makes a view.
	Rules bool
	// RuleTables are the other relations that the rules name. RuleFunctions are the
	// user's functions that the rules call.
	RuleTables, RuleFunctions []Name
	// Runs is the code that runs when the relation is written, without pure code.
	Runs []Run
	// RowSecurity: policies apply. ForceSecurity: they also apply to the owner.
	RowSecurity, ForceSecurity bool
	Policies                   []Policy
	// SecurityBarrier and SecurityInvoker are a view's options.
	SecurityBarrier, SecurityInvoker bool
}

// Column is one column of a relation.
type Column struct {
	Name     string
	Num      int16
	Type     uint32 // OID on the home shard
	Base     uint32 // the type below all domains; Type if it is not a domain
	TypeName string // the type as format_type writes it, with its schema unless that is pg_catalog
	// Mod is the modifier of Base, which may come from a domain. -1 for none.
	Mod int32
	// NotNull: the column or its domain is NOT NULL.
	NotNull bool
	// DomainNotNull: the column's domain, or a domain below it, is NOT NULL. So a NULL
	// of this type is an error wherever it is computed.
	DomainNotNull bool
	// Default is the text of the default, or of a generated column's expression. It
	// is the default of the column's domain if the column has none.
	Default string
	// Sequence is the sequence of an identity column, or of a column whose Default is
	// nextval of the sequence and nothing else.
	Sequence  Name
	Identity  byte // 'a' always, 'd' by default, 0 none
	Generated bool
	Enum      bool // Base is an enum
	// Collation is empty for the database's default collation and for types without
	// collation.
	Collation        Name
	Nondeterministic bool // Collation is nondeterministic
	// Bytewise: the column's collation, which may be the database's default, orders
	// strings as memcmp orders their bytes in the server's encoding. It is set only for
	// collations that PostgreSQL itself treats as C. The name of another locale of the C
	// library, such as C.UTF-8, does not tell how it orders. False for types without
	// collation.
	Bytewise bool
}

// Unique is a unique index or constraint.
type Unique struct {
	Name    string
	Columns []string // empty strings stand for expressions
	Primary bool
	// Partial: the index leaves out rows that have values in all its columns. An index
	// whose WHERE says only that its own columns are NOT NULL is not Partial.
	Partial bool
	// Deferrable: rows may break the constraint until the transaction ends.
	Deferrable bool
	// NullsNotDistinct: NULL is equal to NULL.
	NullsNotDistinct bool
	// Exclusion: this is an exclusion constraint, not a unique constraint.
	Exclusion bool
	// Derived is set for an index of a live schema that has more than whole columns.
	Derived *Derived
}

// Lookup is a table that weft keeps to find the rows that have given values in some
// columns of another table.
type Lookup struct {
	Name    string // the name of the lookup, and of its table in schema weft
	Columns []string
	// Shape is that of the index that the lookup is derived from, because the index has more than whole columns. Such a lookup has no
	// Columns: it keeps values unique, and finds no rows. It is empty for other lookups, as are the fields of this group.
	Shape     string
	Values    []string // the SQL of each item, with bare column names
	Condition string   // the predicate, or empty
	Items     []string // the items as PostgreSQL's messages show them
	Uses      []string // the columns that Values and Condition use
	// Expressions: some items are not columns.
	Expressions bool
	// Unique: no two rows have the same values, not even on different shards.
	Unique bool
	// Index is the unique index that the lookup makes unique over all shards. Empty
	// for none.
	Index string
	// Public: the lookup has all rows. Until then it is kept up to date but not used.
	Public bool
	// Dropping: the lookup is being dropped.
	Dropping bool
	// Job is the proxy that is making or dropping the lookup.
	Job string
}

// Key lists what the lookup keeps unique or finds rows by, as PostgreSQL's messages do.
func (l *Lookup) Key() string {
	if l.Shape != "" {
		return strings.Join(l.Items, ", ")
	}
	return QuoteIdents(l.Columns)
}

// About reports whether the lookup depends on the values of a column.
func (l *Lookup) About(column string) bool {
	return slices.Contains(l.Columns, column) || slices.Contains(l.Uses, column)
}

// ForeignKey is a foreign key constraint.
type ForeignKey struct {
	Name       string
	Table      Name
	Columns    []string
	References Name
	RefColumns []string
	Definition string // pg_get_constraintdef
}

// Trigger is a user trigger.
type Trigger struct {
	Name     string
	Function Name
	Truncate bool // TRUNCATE sets the trigger off
	// Changes: the trigger runs for each row before the row is stored, and can change
	// the row.
	Changes bool
	// Statement are the events that set the trigger off once for a whole statement. 0 if
	// the trigger runs for each row, is disabled, or belongs to a partitioned table
	// above: only statements on that table set it off.
	Statement Events
	// Of are the numbers of the columns in UPDATE OF, separated by spaces. Empty if the
	// trigger has no UPDATE OF.
	Of string
	// Fires are all events of the trigger. EachRow: the trigger runs for each row.
	Fires   Events
	EachRow bool
	// Args are the arguments of the trigger, each ended by a zero byte.
	Args string
}

// Events are what sets triggers off, in the bits of pg_trigger.tgtype.
type Events uint8

// The events.
const (
	OnInsert   Events = 1 << 2
	OnDelete   Events = 1 << 3
	OnUpdate   Events = 1 << 4
	OnTruncate Events = 1 << 5

	onAny = OnInsert | OnDelete | OnUpdate | OnTruncate
)

// Guarded reports whether the table has both guard triggers, which keep other triggers
// from changing a shard key (schema/sql/guard.sql).
func (r *Relation) Guarded() bool { return r.guards == 2 }

// Function is a user's function.
type Function struct {
	Name
	Volatility byte // i, s, v
	Kind       byte // pg_proc.prokind: f, a, w, p
	// SetReturning: the function returns a set.
	SetReturning bool
	// Program: weft can run the function, for its language is PL/pgSQL or SQL.
	Program bool
	// Mentions are the relations that the function may read or write: those named in its
	// body and in the bodies of the functions it calls, also through operators and types.
	// In a body that cannot be parsed every word may be a name. What views, policies
	// and triggers of these relations do is in Reach only.
	Mentions []Name
	// Writes are the relations among Mentions that the function may write.
	Writes []Name
	// Parsed: the function's own body could be parsed, so Texts are the statements in the
	// body, and Assigns the names that are assigned to (new.total).
	Parsed         bool
	Texts, Assigns []string
	Body           string // the text of a PL/pgSQL body, or of another one that could be parsed
	// Create is a statement that makes a function or procedure in PL/pgSQL, under whatever name. Empty for other languages.
	Create string
	// Definer: SECURITY DEFINER. Sets: the function has SET clauses.
	Definer, Sets bool
	// Dynamic: the function's own body runs SQL that is not in its text.
	Dynamic bool
	// Calls: the function calls other functions of the user.
	Calls bool
	// Changes: the function, or a function it calls, may change rows of Mentions.
	Changes bool
	// Opaque: it is not known what the function reads: it runs dynamic SQL, or is
	// written in C or another language that weft does not read. C functions of
	// extensions count as harmless, except those of extensions known to run SQL.
	Opaque bool
	// Reach is all that may happen when the function runs.
	Reach Reach
	// SQL is the definition of a function in SQL. Nil for other languages, and for procedures.
	SQL *SQLFunction
}

// Relation returns the relation of exactly that name, or nil.
func (s *Schema) Relation(n Name) *Relation { return s.relations[n] }

// Statistics returns the table that extended statistics of that name are about.
func (s *Schema) Statistics(n Name) (table Name, ok bool) {
	table, ok = s.statistics[n]
	return table, ok
}

// LookedUp returns the tables that have lookups.
func (s *Schema) LookedUp() []*Relation { return s.lookedUp }

// Functions returns the user's functions of that name, in any schema.
func (s *Schema) Functions(name string) []*Function { return s.functions[name] }

// Resolve returns the relation that an unqualified name means, or nil. path has the
// schemas of the search path in order, including the implicit ones.
func (s *Schema) Resolve(path []string, name string) *Relation {
	for _, schema := range path {
		if r := s.relations[Name{schema, name}]; r != nil {
			return r
		}
	}
	return nil
}
