package program

import (
	"context"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/quote"
)

// The types that weft knows without asking.
const (
	oidBool      = 16
	oidInt8      = 20
	oidInt2      = 21
	oidInt4      = 23
	oidText      = 25
	oidBpchar    = 1042
	oidVarchar   = 1043
	oidBit       = 1560
	oidVarbit    = 1562
	oidNumeric   = 1700
	oidRefcursor = 1790
	oidRecord    = 2249
	oidVoid      = 2278
)

// Type is a type with its modifier, as the catalog has it.
type Type struct {
	OID    uint32
	Typmod int32
	// Name is what format_type makes of it, which SQL can read.
	Name string
	// Class is pg_type.typtype: b, c, d, e, p, r or m.
	Class byte
	// Base is what a domain is over.
	Base *Type
	// Elem is the type of the elements of an array, else 0. Delim stands between them.
	Elem  uint32
	Delim byte
	// Fields are those of a composite type.
	Fields []Column
}

// isRow reports whether variables of the type are records.
func (t *Type) isRow() bool { return t.Class == 'c' || t.OID == oidRecord }

// below is the type without domains.
func (t *Type) below() *Type {
	for t.Base != nil {
		t = t.Base
	}
	return t
}

// Cache keeps what runs have learnt of the catalog, and what names mean in the programs' SQL. It belongs to one session
// at a time.
type Cache struct {
	byName map[string]*Type
	byOID  map[typeKey]*Type
	casts  map[[2]uint32]castPath
	bound  map[*Program]*binding
	plans  map[planKey]*plan
	// stage is how far the last cast came.
	stage castStage
}

type typeKey struct {
	oid    uint32
	typmod int32
}

// NewCache returns an empty cache.
func NewCache() *Cache {
	return &Cache{
		byName: map[string]*Type{}, byOID: map[typeKey]*Type{}, casts: map[[2]uint32]castPath{}, bound: map[*Program]*binding{},
		plans: map[planKey]*plan{},
	}
}

// Forget drops what was learnt, because the schema or search_path has changed. A program that runs keeps the types of its variables.
func (c *Cache) Forget() {
	clear(c.byName)
	clear(c.byOID)
	clear(c.casts)
	clear(c.plans)
	clear(c.bound)
}

// ask runs a query of the catalog whose parameters are texts.
func (c *Cache) ask(ctx context.Context, x Executor, sql string, args ...string) (rows [][]Value, err error) {
	types, values := make([]uint32, len(args)), make([]Value, len(args))
	for i, a := range args {
		types[i], values[i] = oidText, text(a)
	}
	p, err := x.Prepare(ctx, sql, types)
	if err != nil {
		return nil, err
	}
	_, err = x.Execute(ctx, p, values, 0, func(row []Value) error {
		rows = append(rows, row)
		return nil
	})
	return rows, err
}

// named looks a type up by what is written.
func (c *Cache) named(ctx context.Context, x Executor, n TypeName) (*Type, error) {
	if t := c.byName[n.Text]; t != nil {
		return t, nil
	}
	t, err := c.lookUp(ctx, x, n)
	if err != nil {
		return nil, err
	}
	c.byName[n.Text] = t
	return t, nil
}

func (c *Cache) lookUp(ctx context.Context, x Executor, n TypeName) (*Type, error) {
	if n.Like != nil {
		return c.like(ctx, x, n)
	}
	rows, err := c.ask(ctx, x, "SELECT pg_catalog.to_regtype($1)::pg_catalog.oid", n.Text)
	if err != nil {
		return nil, err
	}
	if !rows[0][0].Valid {
		return nil, pgerr.New(pgerr.UndefinedObject, `type "%s" does not exist`, n.Text)
	}
	typmod := int32(-1)
	if strings.Contains(n.Text, "(") || strings.Contains(lower(n.Text), "char") || strings.Contains(lower(n.Text), "bit") {
		p, err := x.Prepare(ctx, "SELECT NULL::"+n.Text, nil)
		if err != nil {
			return nil, err
		}
		typmod = p.Columns[0].Typmod
	}
	return c.byID(ctx, x, oid(rows[0][0]), typmod)
}

// like looks up name%TYPE and name%ROWTYPE of a table.
func (c *Cache) like(ctx context.Context, x Executor, n TypeName) (*Type, error) {
	if n.RowType {
		rows, err := c.ask(ctx, x, "SELECT reltype FROM pg_catalog.pg_class WHERE oid = pg_catalog.to_regclass($1)", quoted(n.Like))
		if err != nil {
			return nil, err
		}
		if len(rows) == 0 {
			return nil, pgerr.New(pgerr.UndefinedTable, `relation "%s" does not exist`, strings.Join(n.Like, "."))
		}
		return c.byID(ctx, x, oid(rows[0][0]), -1)
	}
	if len(n.Like) < 2 {
		return nil, syntax(`syntax error at or near "%%"`)
	}
	table, column := n.Like[:len(n.Like)-1], n.Like[len(n.Like)-1]
	rows, err := c.ask(ctx, x, `SELECT atttypid, atttypmod FROM pg_catalog.pg_attribute
 WHERE attrelid = pg_catalog.to_regclass($1) AND attname = $2 AND NOT attisdropped`, quoted(table), column)
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, syntax(`syntax error at or near "%%"`)
	}
	mod, _ := strconv.Atoi(rows[0][1].Text)
	return c.byID(ctx, x, oid(rows[0][0]), int32(mod))
}

func quoted(names []string) string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = quote.Ident(n)
	}
	return strings.Join(out, ".")
}

func oid(v Value) uint32 {
	n, _ := strconv.ParseUint(v.Text, 10, 32)
	return uint32(n)
}

// known are the most common types.
var known = map[uint32]*Type{
	oidBool: {Name: "boolean"}, oidInt8: {Name: "bigint"}, oidInt2: {Name: "smallint"}, oidInt4: {Name: "integer"},
	oidText: {Name: "text"}, oidNumeric: {Name: "numeric"}, oidRefcursor: {Name: "refcursor"}, oidVarchar: {Name: "character varying"},
}

func init() {
	for id, t := range known {
		t.OID, t.Typmod, t.Class, t.Delim = id, -1, 'b', ','
	}
}

// byID looks a type up by its OID.
func (c *Cache) byID(ctx context.Context, x Executor, id uint32, typmod int32) (*Type, error) {
	if t := known[id]; t != nil && typmod < 0 {
		return t, nil
	}
	key := typeKey{id, typmod}
	if t := c.byOID[key]; t != nil {
		return t, nil
	}
	rows, err := c.ask(ctx, x, `SELECT t.typtype, CASE WHEN t.typcategory = 'A' THEN t.typelem ELSE 0 END,
 coalesce(e.typdelim, ','), t.typbasetype, t.typtypmod, t.typrelid, pg_catalog.format_type(t.oid, $2::pg_catalog.int4), t.typname
 FROM pg_catalog.pg_type t LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem WHERE t.oid = $1::pg_catalog.oid`,
		strconv.FormatUint(uint64(id), 10), strconv.Itoa(int(typmod)))
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, pgerr.New(pgerr.UndefinedObject, "cache lookup failed for type %d", id)
	}
	r := rows[0]
	t := &Type{OID: id, Typmod: typmod, Name: r[6].Text, Class: r[0].Text[0], Elem: oid(r[1]), Delim: r[2].Text[0]}
	switch {
	case t.Class == 'p' && id != oidRecord && id != oidVoid:
		return nil, refuse("a variable of the pseudo-type " + t.Name)
	case t.Class == 'd':
		mod, _ := strconv.Atoi(r[4].Text)
		if t.Base, err = c.byID(ctx, x, oid(r[3]), int32(mod)); err != nil {
			return nil, err
		}
		if t.Base.isRow() {
			return nil, refuse("a variable whose domain is over rows")
		}
	case t.Class == 'c':
		if err := c.fields(ctx, x, t, r[5].Text); err != nil {
			return nil, err
		}
	}
	c.byOID[key] = t
	return t, nil
}

// fields looks up the columns of a composite type.
func (c *Cache) fields(ctx context.Context, x Executor, t *Type, relation string) error {
	rows, err := c.ask(ctx, x, `SELECT attname, atttypid, atttypmod, attisdropped FROM pg_catalog.pg_attribute
 WHERE attrelid = $1::pg_catalog.oid AND attnum > 0 ORDER BY attnum`, relation)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r[3].Text == "t" {
			continue
		}
		mod, _ := strconv.Atoi(r[2].Text)
		t.Fields = append(t.Fields, Column{Name: r[0].Text, OID: oid(r[1]), Typmod: int32(mod)})
	}
	return nil
}
