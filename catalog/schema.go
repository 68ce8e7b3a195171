package catalog

// Schema is one database's schema at one version, as the home shard has it.
// It is immutable.
type Schema struct {
	// Version is the directory's schema version of the database that this was
	// loaded under.
	Version int64

	// CustomEquality: somebody defined an operator = between built-in types,
	// so what equality means depends on search_path. Nothing is routed by it.
	CustomEquality bool

	relations map[Name]*Relation
	functions map[string][]*Function // by name without schema
}

// Name is a schema-qualified name.
type Name struct{ Schema, Name string }

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
	// Definition is a view's query.
	Definition string
	// Columns in the order of the table, without dropped ones. Not loaded for
	// system relations.
	Columns []Column
	Unique  []Unique
	// ForeignKeys are those this table has on others, Referenced those others
	// have on it.
	ForeignKeys []ForeignKey
	Referenced  []ForeignKey
	// Triggers are the names of the functions of user triggers.
	Triggers []Trigger
	// Parent is the partitioned or inherited table, Children the other way.
	Parent    *Relation
	Children  []*Relation
	Inherited bool // Parent by INHERITS and not as a partition
	// OwnedBy is the table whose column owns this sequence, or the table of this index.
	OwnedBy Name
	// Rules: it has rewrite rules other than a view's own.
	Rules bool
	// RowSecurity: policies apply.
	RowSecurity bool
}

// Column is one column of a relation.
type Column struct {
	Name     string
	Num      int16
	Type     uint32 // OID on the home shard
	Base     uint32 // the type below a domain, else Type
	TypeName string // format_type
	Mod      int32
	NotNull  bool
	// Default is the expression's text, also of a generated column.
	Default string
	// Sequence is what Default or the identity draws from.
	Sequence  Name
	Identity  byte // 'a' always, 'd' by default, 0 none
	Generated bool
	Enum      bool
	// Nondeterministic collation.
	Nondeterministic bool
}

// Unique is a unique index or constraint.
type Unique struct {
	Name    string
	Columns []string // empty strings stand for expressions
	Primary bool
	Partial bool
	// Exclusion: an exclusion constraint, not a unique one.
	Exclusion bool
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
}

// Function is a user's function.
type Function struct {
	Name
	Volatility byte // i, s, v
	// Mentions are words in its body, and in those of the functions it calls,
	// that are names of relations: what it may read or write.
	Mentions []Name
	// Opaque: what it reads cannot be told (language C and the like, dynamic SQL).
	Opaque bool
}

// Relation returns the relation of that very name, or nil.
func (s *Schema) Relation(n Name) *Relation { return s.relations[n] }

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
