package catalog

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Load reads the schema of a database. run executes one text of several
// statements as a simple query, outside a transaction block, and returns the
// rows of all of them as text, with NULL as the empty string.
//
// Load does not wait longer than a moment for any lock. Relations that it could not
// read without waiting are marked Busy.
func Load(version int64, run func(sql string) ([][]string, error)) (*Schema, error) {
	rows, err := run(query)
	if err != nil {
		return nil, fmt.Errorf("load schema: %w", err)
	}
	l := loader{
		relations: map[string]*Relation{},
		columns:   map[string]map[string]int{},
		types:     map[string]*baseType{},
		functions: map[string]*source{},
		named:     newNamed(),

		statistics: map[Name]Name{},
	}
	for _, r := range rows {
		if err := l.row(r); err != nil {
			return nil, fmt.Errorf("load schema: row %.200q: %w", r, err)
		}
	}
	if err := l.lookups(run); err != nil {
		return nil, fmt.Errorf("load schema: %w", err)
	}
	if l.server != builtinVersion {
		if err := l.readBuiltins(run); err != nil {
			return nil, fmt.Errorf("load schema: %w", err)
		}
	}
	l.depend()
	l.finish()
	s := New(version, l.customEquality, l.all, nil)
	l.connect(s)
	s.Incomplete = s.Incomplete || l.incomplete
	s.Bytewise, s.Encoding, s.Server, s.statistics = l.bytewise, l.encoding, l.server, l.statistics
	s.Live = true
	if l.builtins != nil {
		s.builtins = l.builtins
	}
	return s, nil
}

// loader builds a Schema from rows. relations, columns, types and functions have
// OIDs as text for keys.
type loader struct {
	all       []*Relation
	relations map[string]*Relation
	columns   map[string]map[string]int // relation → attnum → index of the column
	types     map[string]*baseType
	domains   []domainColumn
	sources   []*source
	functions map[string]*source
	named     named

	reaching   reachLoader
	incomplete bool // a policy could not be read without waiting

	statistics map[Name]Name

	customEquality bool
	bytewise       bool
	server         int
	encoding       string
	byDefault      []domainColumn // columns with the database's default collation
	builtins       map[string]Traits
}

// baseType is a domain or an enum.
type baseType struct {
	kind     string // pg_type.typtype: d or e
	base     string
	mod      int32
	notNull  bool
	def      string
	sequence string
}

// domainColumn is a column that finish completes: a column of a domain or enum
// type, or with the default collation.
type domainColumn struct {
	relation *Relation
	index    int
	typ      string
}

// widths is how many columns the rows of each kind have. A row's kind is the letter
// in its first column.
var widths = map[string]int{
	"h": 3, "r": 11, "y": 7, "c": 13, "i": 11, "n": 9, "k": 7, "t": 12, "s": 4, "p": 3, "u": 3, "v": 4, "f": 19, "x": 3, "d": 8, "g": 8, "q": 10, "e": 2, "l": 4,
}

// row takes in one row of query.
func (l *loader) row(r []string) error {
	if len(r) == 0 || widths[r[0]] != len(r) || (r[0] == "r" || r[0] == "f") && r[4] == "" || r[0] == "f" && r[6] == "" {
		return fmt.Errorf("unexpected")
	}
	switch r[0] {
	case "h":
		l.named.schemas[r[1]] = r[2]
	case "r":
		return l.relation(r)
	case "y":
		mod, err := strconv.ParseInt(r[4], 10, 32)
		l.types[r[1]] = &baseType{kind: r[2], base: r[3], mod: int32(mod), notNull: r[5] == "t", def: r[6]}
		return err
	case "c":
		return l.column(r)
	case "i":
		return l.index(r)
	case "n":
		return l.derivedIndex(r)
	case "k":
		l.foreignKey(r)
	case "t":
		return l.trigger(r)
	case "p":
		l.parent(r)
	case "u":
		if rel := l.relations[r[2]]; rel != nil {
			rel.Rules = true
			l.named.rules[rel] = append(l.named.rules[rel], r[1])
		}
	case "v":
		if rel := l.relations[r[1]]; rel != nil {
			rel.Busy = rel.Busy || r[2] == "t"
			rel.Definition = cleanQuery(r[3])
		}
	case "f":
		l.function(r)
	case "x":
		l.named.extensions[r[1]] = r[2]
	case "d":
		l.dependency(r)
	case "g":
		l.storedItem(r)
	case "q":
		return l.policy(r)
	case "s":
		if rel := l.relations[r[1]]; rel != nil {
			l.statistics[Name{l.named.schemas[r[2]], r[3]}] = rel.Name
		}
	case "e":
		l.customEquality = r[1] == "t"
	case "l":
		l.bytewise, l.encoding = r[1] == "t", r[2]
		l.server, _ = strconv.Atoi(r[3])
	}
	return nil
}

func (l *loader) trigger(r []string) error {
	rel := l.relations[r[1]]
	if rel == nil {
		return nil
	}
	function := Name{l.named.schemas[r[3]], r[4]}
	if function.Schema == "weft" {
		if function.Name == "strayed" && r[7] == "A" {
			rel.guards++
		}
		return nil
	}
	events, err := strconv.ParseUint(r[8], 10, 8)
	if err != nil {
		return fmt.Errorf("events of trigger %q: %w", r[2], err)
	}
	fires, err := strconv.ParseUint(r[10], 10, 8)
	if err != nil {
		return fmt.Errorf("events of trigger %q: %w", r[2], err)
	}
	args, err := hex.DecodeString(r[11])
	if err != nil {
		return fmt.Errorf("arguments of trigger %q: %w", r[2], err)
	}
	rel.Triggers = append(rel.Triggers, Trigger{
		Name: r[2], Function: function, Truncate: r[5] == "t", Changes: r[6] == "t",
		Statement: Events(events), Of: r[9], Fires: Events(fires) & onAny, EachRow: fires&1 != 0, Args: string(args),
	})
	return nil
}

func (l *loader) function(r []string) {
	s := &source{
		function: &Function{Name: Name{l.named.schemas[r[2]], r[3]}, Volatility: r[4][0], Kind: r[6][0], SetReturning: r[9] == "t"},
		language: r[5], aggregate: r[6] == "a", body: r[7], parsed: r[8] == "t",
	}
	if s.language == "plpgsql" {
		s.create = createText(r[6], r[10], r[11], r[7])
		s.function.Create, s.function.Definer, s.function.Sets = s.create, r[13] == "t", r[14] != ""
	}
	if s.language == "sql" && r[6] == "f" {
		s.function.SQL = &SQLFunction{
			Head: "CREATE FUNCTION f(" + r[10] + ") RETURNS " + r[11] + " LANGUAGE sql", Body: r[7], Strict: r[12] == "t", Definer: r[13] == "t",
			Public: r[15] == "t", Result: oidOf(r[17]),
		}
		if s.parsed {
			s.function.SQL.Body, s.function.SQL.Standard = r[18], true
		}
		if r[14] != "" {
			s.function.SQL.Settings = strings.Split(r[14], "\x01")
		}
		for _, oid := range strings.Fields(r[16]) {
			s.function.SQL.Types = append(s.function.SQL.Types, oidOf(oid))
		}
	}
	l.functions[r[1]] = s
	l.sources = append(l.sources, s)
}

// oidOf reads an OID, or 0.
func oidOf(s string) uint32 {
	n, _ := strconv.ParseUint(s, 10, 32)
	return uint32(n)
}

// readBuiltins reads the built-in functions of a server whose version is not
// builtinVersion.
func (l *loader) readBuiltins(run func(sql string) ([][]string, error)) error {
	rows, err := run(builtinQuery)
	if err != nil {
		return err
	}
	l.builtins = map[string]Traits{}
	for _, r := range rows {
		if len(r) != 2 {
			return fmt.Errorf("row %.200q: unexpected", r)
		}
		if err := addTraits(l.builtins, r[0], r[1]); err != nil {
			return err
		}
	}
	return nil
}

// lookups reads the declarations of lookups, if the database has ever had a lookup.
func (l *loader) lookups(run func(sql string) ([][]string, error)) error {
	if !slices.ContainsFunc(l.all, func(r *Relation) bool { return r.Name == Name{"weft", "lookup"} }) {
		return nil
	}
	rows, err := run(lookupQuery)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if rel := l.relations[r[1]]; rel != nil && r[0] == "w" && len(r) == 13 {
			k := Lookup{
				Name: r[2], Columns: l.names(rel, r[1], r[3]), Unique: r[4] == "t", Index: r[5], Public: r[6] == "public",
				Dropping: strings.HasPrefix(r[6], "drop"), Job: r[7],
			}
			if r[8] != "" {
				k.Shape, k.Condition, k.Uses = r[8], r[9], l.names(rel, r[1], r[12])
				k.Values, k.Items = strings.Split(r[10], "\x01"), strings.Split(r[11], "\x01")
				k.Expressions = slices.ContainsFunc(k.Items, func(item string) bool {
					return !slices.ContainsFunc(k.Uses, func(name string) bool { return item == QuoteIdents([]string{name}) })
				})
			}
			rel.Lookups = append(rel.Lookups, k)
		}
	}
	return nil
}

// cleanQuery removes the white space and the semicolon that pg_get_viewdef puts
// around a query.
func cleanQuery(s string) string {
	return strings.TrimSuffix(strings.TrimSpace(s), ";")
}

func (l *loader) relation(r []string) error {
	oid, err := strconv.ParseUint(r[1], 10, 32)
	if err != nil {
		return err
	}
	rel := &Relation{
		Name: Name{l.named.schemas[r[2]], r[3]}, OID: uint32(oid), Kind: RelationKind(r[4][0]),
		Owner: r[5], RowSecurity: r[6] == "t", ForceSecurity: r[7] == "t", SecurityBarrier: isOn(r[8], "security_barrier"), SecurityInvoker: isOn(r[8], "security_invoker"),
	}
	l.named.relations[r[1]], l.named.rowTypes[r[1]], l.named.partition[r[1]] = rel.Name, r[10], r[9] == "t"
	switch {
	case rel.Schema == "pg_catalog" || rel.Schema == "information_schema":
		if rel.Kind == Table || rel.Kind == View {
			l.all = append(l.all, rel)
		}
	case !strings.HasPrefix(rel.Schema, "pg_"): // neither a temporary relation nor part of a table
		l.all = append(l.all, rel)
		l.relations[r[1]] = rel
		if rel.Kind == View && rel.Schema == "weft" {
			rel.Definition = "SELECT FROM weft.own" // weft's own views read what the home shard keeps, like this
		}
	}
	return nil
}

// isOn reports whether a view's options have the option and it is on.
func isOn(options, name string) bool {
	for option := range strings.SplitSeq(options, ",") {
		if value, ok := strings.CutPrefix(option, name+"="); ok {
			value = strings.ToLower(value)
			return value == "1" || value == "on" || value != "" && (strings.HasPrefix("true", value) || strings.HasPrefix("yes", value))
		}
	}
	return false
}

func (l *loader) column(r []string) error {
	rel := l.relations[r[1]]
	if rel == nil {
		return nil
	}
	num, err := strconv.ParseInt(r[3], 10, 16)
	if err != nil {
		return err
	}
	typ, err := strconv.ParseUint(r[4], 10, 32)
	if err != nil {
		return err
	}
	mod, err := strconv.ParseInt(r[6], 10, 32)
	if err != nil {
		return err
	}
	c := Column{
		Name: r[2], Num: int16(num), Type: uint32(typ), Base: uint32(typ), TypeName: r[5], Mod: int32(mod),
		NotNull: r[7] == "t", Default: r[8], Generated: r[10] != "",
	}
	if r[12] != "" { // schema, name, deterministic, bytewise
		co := strings.Split(r[12], "\x01")
		if len(co) != 4 {
			return fmt.Errorf("collation %q", r[12])
		}
		c.Collation, c.Nondeterministic, c.Bytewise = Name{l.named.schemas[co[0]], co[1]}, co[2] == "f", co[3] == "t"
	}
	if r[9] != "" {
		c.Identity = r[9][0]
	}
	if c.Generated && c.Default == "" {
		rel.Busy = true
	}
	if l.types[r[4]] != nil {
		l.domains = append(l.domains, domainColumn{rel, len(rel.Columns), r[4]})
	}
	if r[11] == "100" {
		l.byDefault = append(l.byDefault, domainColumn{rel, len(rel.Columns), ""})
	}
	byNum := l.columns[r[1]]
	if byNum == nil {
		byNum = map[string]int{}
		l.columns[r[1]] = byNum
	}
	byNum[r[3]] = len(rel.Columns)
	rel.Columns = append(rel.Columns, c)
	return nil
}

// columnAt returns a relation's column by its number, or nil.
func (l *loader) columnAt(rel *Relation, oid, num string) *Column {
	if i, ok := l.columns[oid][num]; ok && rel != nil {
		return &rel.Columns[i]
	}
	return nil
}

// draws notes the sequence that a column draws from, if the column's default is
// nextval and nothing else.
func (l *loader) draws(rel *Relation, num, sequence string) {
	if rel == nil {
		return
	}
	c, seq := l.columnAt(rel, strconv.FormatUint(uint64(rel.OID), 10), num), l.relations[sequence]
	if c != nil && seq != nil && isNextval(c.Default) {
		c.Sequence = seq.Name
	}
}

// isNextval reports whether a default, as PostgreSQL writes it, is nextval of a
// sequence and nothing else. PostgreSQL would write a user's function nextval with
// its schema.
func isNextval(def string) bool {
	name, ok := strings.CutPrefix(def, "nextval('")
	if !ok {
		return false
	}
	name, ok = strings.CutSuffix(name, "'::regclass)")
	return ok && !strings.Contains(strings.ReplaceAll(name, "''", ""), "'")
}

func (l *loader) index(r []string) error {
	index, rel := l.relations[r[1]], l.relations[r[2]]
	if index == nil || rel == nil {
		return nil
	}
	index.OwnedBy = rel.Name
	if r[3] != "t" && r[5] != "t" {
		return nil
	}
	keys, err := strconv.Atoi(r[7])
	nums := strings.Fields(r[8])
	if err != nil || keys > len(nums) {
		return fmt.Errorf("an index of %s columns", r[7])
	}
	u := Unique{Name: index.Name.Name, Primary: r[4] == "t", Exclusion: r[5] == "t", Partial: r[6] == "t", Deferrable: r[9] == "t", NullsNotDistinct: r[10] == "t"}
	for _, num := range nums[:keys] {
		name := ""
		if c := l.columnAt(rel, r[2], num); c != nil {
			name = c.Name
		}
		u.Columns = append(u.Columns, name)
	}
	rel.Unique = append(rel.Unique, u)
	return nil
}

func (l *loader) foreignKey(r []string) {
	from, to := l.relations[r[2]], l.relations[r[4]]
	if from == nil || to == nil {
		return
	}
	from.ForeignKeys = append(from.ForeignKeys, ForeignKey{
		Name: r[1], Table: from.Name, Columns: l.names(from, r[2], r[3]),
		References: to.Name, RefColumns: l.names(to, r[4], r[5]), Definition: r[6],
	})
}

// names returns the names of the columns whose numbers are in nums, an array as text.
func (l *loader) names(rel *Relation, oid, nums string) []string {
	var out []string
	for num := range strings.SplitSeq(strings.Trim(nums, "{}"), ",") {
		if c := l.columnAt(rel, oid, num); c != nil {
			out = append(out, c.Name)
		}
	}
	return out
}

func (l *loader) parent(r []string) {
	child, parent := l.relations[r[1]], l.relations[r[2]]
	if child == nil || parent == nil || child.Kind != Table && child.Kind != PartitionedTable && child.Kind != ForeignTable {
		return
	}
	parent.Children = append(parent.Children, child)
	if child.Parent == nil {
		child.Parent, child.Inherited = parent, !l.named.partition[r[1]]
	}
}

// finish completes, once all rows are read, the columns that depend on domains,
// enums or the default collation.
func (l *loader) finish() {
	for _, d := range l.byDefault {
		d.relation.Columns[d.index].Bytewise = l.bytewise
	}
	for _, d := range l.domains {
		c := &d.relation.Columns[d.index]
		typ, sequence := d.typ, ""
		table := d.relation.Kind != View && d.relation.Kind != MaterializedView && d.relation.Kind != Composite
		for range 64 { // bounds how many domains stand above one another
			t := l.types[typ]
			if t == nil || t.kind != "d" {
				c.Enum = t != nil
				break
			}
			if c.Mod < 0 {
				c.Mod = t.mod
			}
			c.NotNull = c.NotNull || t.notNull && table
			c.DomainNotNull = c.DomainNotNull || t.notNull
			if c.Default == "" && table && !c.Generated && c.Identity == 0 {
				c.Default, sequence = t.def, t.sequence
			}
			typ = t.base
		}
		if base, err := strconv.ParseUint(typ, 10, 32); err == nil {
			c.Base = uint32(base)
		}
		if seq := l.relations[sequence]; seq != nil && isNextval(c.Default) {
			c.Sequence = seq.Name
		}
	}
}

// Inside returns a text of Load or LoadTypes in the form that can run inside an open
// transaction. The text sees the transaction's changes, and a savepoint takes back
// its settings and locks.
func Inside(text string) string {
	const point = `"\x01l"`
	if first, rest, ok := strings.Cut(text, ";\n"); ok && strings.HasPrefix(first, "SET TRANSACTION") {
		text = rest // the transaction has its isolation level already
	}
	return "SAVEPOINT " + point + ";\n" + text + ";\nROLLBACK TO " + point + ";\nRELEASE " + point
}
