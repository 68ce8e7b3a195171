package catalog

import "weft/quote"

// Schema is one database's schema at one version, as the home shard has it.
// It is immutable.
type Schema struct {
	// Version is the directory's schema version of the database that this was
	// loaded under.
	Version int64

	// CustomEquality: somebody defined an operator = between built-in types,
	// so what equality means depends on search_path. Nothing is routed by it.
	CustomEquality bool

	// Incomplete: some definitions could not be read without waiting, because
	// a transaction under way is changing what they name. The relations are
	// Busy. Load again when it may have ended.
	Incomplete bool

	// Bytewise: the database's default collation compares bytes.
	Bytewise bool
	// Encoding is the server's, in which those bytes are.
	Encoding string
	// Server is the major version of the server, 0 if that is not known.
	Server int
	// Live: it was read from a server, which tells what weft has made there too.
	Live bool

	relations map[Name]*Relation
	// statistics are the tables of extended statistics, by their names.
	statistics map[Name]Name
	functions  map[string][]*Function // by name without schema
	builtins   map[string]Traits
	lookedUp   []*Relation
	// operators and reaching are the operators and types that are not pure.
	operators, reaching map[string][]*Named
	casts               []*Cast
	connection          *connection // for texts that are not in the schema
	events              []*Named
}

// Name is a schema-qualified name.
type Name struct{ Schema, Name string }

// SQL returns the name as statements have it: with its schema, both in quotes.
func (n Name) SQL() string { return quote.Name(n.Schema, n.Name) }

// RelationKind is pg_class.relkind.
type RelationKind byte

// The kinds that matter here.
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
	// Definition is a view's query, all names in it qualified but for those of
	// pg_catalog. Empty if Busy.
	Definition string
	// Busy: see Schema.Incomplete.
	Busy bool
	// Columns in the order of the table, without dropped ones. Not loaded for
	// system relations.
	Columns []Column
	// Unique has the primary key first, then the others by name.
	Unique []Unique
	// ForeignKeys are those this table has on others, Referenced those others
	// have on it. What PostgreSQL repeats for each partition is told of the
	// partitioned table alone.
	ForeignKeys []ForeignKey
	Referenced  []ForeignKey
	// Triggers are the user's triggers, those of the partitioned tables above
	// included.
	Triggers []Trigger
	guards   int
	// Parent is the partitioned or inherited table, the first if there are
	// several; Children the other way, all of them.
	Parent    *Relation
	Children  []*Relation
	Inherited bool // Parent by INHERITS and not as a partition
	// OwnedBy is the table whose column owns this sequence, or the table of this index.
	OwnedBy Name
	// OwnedColumn is the column of OwnedBy that owns this sequence.
	OwnedColumn string
	// Lookups say which keyspace IDs a value of these columns has rows in.
	Lookups []Lookup
	// Rules: it has rewrite rules other than a view's own.
	Rules bool
	// RuleTables are the other relations that these rules name, RuleFunctions the
	// users' functions that they call.
	RuleTables, RuleFunctions []Name
	// Runs are what runs when rows are stored, but for what is pure.
	Runs []Run
	// RowSecurity: policies apply, to the owner if ForceSecurity.
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
	Base     uint32 // the type below a domain, else Type
	TypeName string // format_type, without the schema only if that is pg_catalog
	// Mod is the modifier of Base, -1 for none: that of a domain counts.
	Mod int32
	// NotNull: the column or its domain says so.
	NotNull bool
	// DomainNotNull: its domain says so, or one below that. So a value of this
	// type that is NULL is an error wherever it is made.
	DomainNotNull bool
	// Default is the expression's text, also of a generated column, and that
	// of the column's domain if the column has none.
	Default string
	// Sequence is what the column draws from: it is an identity, or Default is
	// nextval of that sequence and nothing more.
	Sequence  Name
	Identity  byte // 'a' always, 'd' by default, 0 none
	Generated bool
	Enum      bool // Base is an enum
	// Collation is empty for the database's default and for types without.
	Collation        Name
	Nondeterministic bool // the Collation is
	// Bytewise: its collation, be it the database's default, orders strings as
	// memcmp orders their bytes in the server's encoding. Only what PostgreSQL
	// itself takes for C is: that another locale of the C library (C.UTF-8) does
	// the same cannot be told from its name. False for types without collation.
	Bytewise bool
}

// Unique is a unique index or constraint.
type Unique struct {
	Name    string
	Columns []string // empty strings stand for expressions
	Primary bool
	// Partial: rows are not in it that have values in its columns. WHERE c IS NOT NULL
	// of its own columns leaves out none of them.
	Partial bool
	// Deferrable: it may be broken until the transaction ends.
	Deferrable bool
	// NullsNotDistinct: NULL is equal to NULL.
	NullsNotDistinct bool
	// Exclusion: an exclusion constraint, not a unique one.
	Exclusion bool
}

// Lookup is a table of weft's own that tells where the rows are that have a
// value in some columns of another table.
type Lookup struct {
	Name    string // also of the table, in schema weft
	Columns []string
	// Unique: no two rows have the same values, on whichever shard they are.
	Unique bool
	// Index is the unique index of the table that it stands for, empty for none.
	Index string
	// Public: all rows are in it. Before, it is kept up but not asked.
	Public bool
	// Dropping: it is on its way out.
	Dropping bool
	// Job is the proxy that is making or dropping it.
	Job string
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
	Truncate bool // TRUNCATE sets it off
	// Changes: it runs for each row before the row is stored, and can change it.
	Changes bool
	// Statement are the events that set it off once for a whole statement: none if it
	// runs for each row, is disabled, or is that of a partitioned table above, whose
	// own statements alone set it off.
	Statement Events
	// Of are the numbers of the columns that UPDATE must set for that, with spaces
	// between them. Empty for any.
	Of string
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

// Guarded reports whether the table's own server sees to it that triggers do not
// change a shard key: package schema has the other half (schema/sql/guard.sql).
func (r *Relation) Guarded() bool { return r.guards == 2 }

// Function is a user's function.
type Function struct {
	Name
	Volatility byte // i, s, v
	Kind       byte // pg_proc.prokind: f, a, w, p
	// SetReturning: it returns rows.
	SetReturning bool
	// Mentions are the relations that its body names, and the bodies of the
	// functions it calls, be it by an operator or a type: what it may read or write.
	// In a body that cannot be parsed every word may be a name. What views, policies
	// and triggers do behind those names is not in it, but in Reach.
	Mentions []Name
	// Writes are those of them that it is known to write.
	Writes []Name
	// Parsed: its own body could be parsed, and Texts are the statements in it,
	// Assigns what is assigned to (new.total).
	Parsed         bool
	Texts, Assigns []string
	// Assignments are these with what is assigned, Body is its text.
	Assignments []Assignment
	// Set are variables, and fields of records, that it gives values by other means than
	// an assignment to that name: INTO, FOR, FETCH, CALL, an alias.
	Set  []string
	Body string
	// Calls: it calls other functions of the user.
	Calls bool
	// Changes: it, or a function it calls, may change rows of what it mentions.
	Changes bool
	// Opaque: what it reads cannot be told (language C and the like, dynamic
	// SQL). C functions of extensions are taken for harmless, but for those
	// extensions that are known to run SQL.
	Opaque bool
	// Reach is all that happens when it runs, to the end.
	Reach Reach
}

// Assignment is one in PL/pgSQL: SQL is SELECT with the value.
type Assignment struct{ Target, SQL string }

// Relation returns the relation of that very name, or nil.
func (s *Schema) Relation(n Name) *Relation { return s.relations[n] }

// Statistics returns the table that extended statistics of that name are about.
func (s *Schema) Statistics(n Name) (table Name, ok bool) {
	table, ok = s.statistics[n]
	return table, ok
}

// LookedUp returns the tables that have lookups.
func (s *Schema) LookedUp() []*Relation { return s.lookedUp }

// Functions returns the user's functions of that name, in whatever schema.
func (s *Schema) Functions(name string) []*Function { return s.functions[name] }

// Resolve finds what an unqualified name means under a search path, which
// names schemas in order, implicit ones included.
func (s *Schema) Resolve(path []string, name string) *Relation {
	for _, schema := range path {
		if r := s.relations[Name{schema, name}]; r != nil {
			return r
		}
	}
	return nil
}
