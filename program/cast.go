package program

import (
	"context"
	"strconv"
	"strings"

	"weft/pgerr"
)

// castPath is how a value of one type becomes one of another in an assignment.
type castPath uint8

const (
	viaText castPath = iota // the output of one type is the input of the other
	viaCast                 // a cast that assignments make
)

// castStage is the part of a cast that an error comes from.
type castStage uint8

const (
	castDomain   castStage = iota // the checks of a domain
	castInput                     // the input function of a type
	castFunction                  // a cast
	castLimit                     // the modifier of a type
	castDone                      // none: the cast has succeeded
)

// cast makes a value fit a type, as an assignment of PL/pgSQL does.
func (c *Cache) cast(ctx context.Context, x Executor, v Value, from Column, to *Type) (Value, error) {
	base := to.below()
	c.stage = castDomain
	if !v.Valid {
		if to.Base != nil {
			return c.through(ctx, x, v, to)
		}
		return v, nil
	}
	if from.OID != to.OID && from.OID != base.OID && !widens(from.OID, base.OID) {
		path, err := c.path(ctx, x, from.OID, base.OID)
		if err != nil {
			return v, err
		}
		if c.stage = castFunction; path == viaCast {
			if v, err = c.convert(ctx, x, "SELECT CAST($1 AS "+unlimited(base)+")", v, from.OID); err != nil {
				return v, err
			}
		} else if base.OID != oidText && base.OID != oidVarchar {
			c.stage = castInput
			bare, err := c.byID(ctx, x, base.OID, -1)
			if err != nil {
				return v, err
			}
			if v, err = c.through(ctx, x, v, bare); err != nil {
				return v, err
			}
		}
	}
	if base.Typmod >= 0 && (from.OID != base.OID || from.Typmod != base.Typmod) {
		var err error
		c.stage = castLimit
		if v, err = c.limit(ctx, x, v, base); err != nil {
			return v, err
		}
	}
	if c.stage = castDomain; to.Base != nil && from.OID != to.OID {
		return c.through(ctx, x, v, to)
	}
	return v, nil
}

// widens reports whether a value has the same text in the other type, and always fits.
func widens(from, to uint32) bool {
	switch from {
	case oidInt2:
		return to == oidInt4 || to == oidInt8 || to == oidNumeric
	case oidInt4:
		return to == oidInt8 || to == oidNumeric
	case oidInt8:
		return to == oidNumeric
	case oidText:
		return to == oidVarchar
	case oidVarchar:
		return to == oidText
	}
	return false
}

// unlimited is the name of a type without its modifier.
func unlimited(t *Type) string {
	switch t.OID {
	case oidBpchar:
		return "pg_catalog.bpchar"
	case oidBit:
		return `pg_catalog."bit"`
	}
	if t.Typmod < 0 {
		return t.Name
	}
	if i := strings.IndexByte(t.Name, '('); i >= 0 {
		j := strings.IndexByte(t.Name, ')')
		return t.Name[:i] + t.Name[j+1:]
	}
	return t.Name
}

// through hands a text to the input function of a type.
func (c *Cache) through(ctx context.Context, x Executor, v Value, to *Type) (Value, error) {
	v, err := c.convert(ctx, x, "SELECT $1", v, to.OID)
	if e, ok := err.(*pgerr.Error); ok {
		e.Where = "" // it names the parameter
	}
	return v, err
}

// limit applies the modifier of a type as an assignment does, which is an error where a CAST cuts off.
func (c *Cache) limit(ctx context.Context, x Executor, v Value, to *Type) (Value, error) {
	mod := strconv.Itoa(int(to.Typmod))
	switch to.OID {
	case oidVarchar:
		return c.convert(ctx, x, `SELECT pg_catalog."varchar"($1, `+mod+`, false)`, v, to.OID)
	case oidBpchar:
		return c.convert(ctx, x, `SELECT pg_catalog.bpchar($1, `+mod+`, false)`, v, to.OID)
	case oidBit:
		return c.convert(ctx, x, `SELECT pg_catalog."bit"($1, `+mod+`, false)`, v, to.OID)
	case oidVarbit:
		return c.convert(ctx, x, `SELECT pg_catalog.varbit($1, `+mod+`, false)`, v, to.OID)
	}
	if to.Elem != 0 {
		switch to.Elem {
		case oidVarchar, oidBpchar, oidBit, oidVarbit:
			return v, refuse("an array of " + to.Name)
		}
	}
	return c.convert(ctx, x, "SELECT CAST($1 AS "+to.Name+")", v, to.OID)
}

// convert runs a query with one parameter and one value as its result.
func (c *Cache) convert(ctx context.Context, x Executor, sql string, v Value, typ uint32) (Value, error) {
	p, err := x.Prepare(ctx, sql, []uint32{typ})
	if err != nil {
		return v, err
	}
	_, err = x.Execute(ctx, p, []Value{v}, 0, func(row []Value) error {
		v = row[0]
		return nil
	})
	return v, err
}

// path asks pg_cast how an assignment casts. What has no cast, and what only an explicit cast would do, goes by way of the
// text.
func (c *Cache) path(ctx context.Context, x Executor, from, to uint32) (castPath, error) {
	key := [2]uint32{from, to}
	if p, ok := c.casts[key]; ok {
		return p, nil
	}
	a, err := c.byID(ctx, x, from, -1)
	if err != nil {
		return 0, err
	}
	b, err := c.byID(ctx, x, to, -1)
	if err != nil {
		return 0, err
	}
	elem := func(t *Type, id uint32) uint32 {
		if a.Elem != 0 && b.Elem != 0 {
			return t.Elem
		}
		return id
	}
	rows, err := c.ask(ctx, x, `SELECT castcontext FROM pg_catalog.pg_cast
 WHERE castsource = $1::pg_catalog.oid AND casttarget = $2::pg_catalog.oid`,
		strconv.FormatUint(uint64(elem(a, from)), 10), strconv.FormatUint(uint64(elem(b, to)), 10))
	if err != nil {
		return 0, err
	}
	p := viaText
	if len(rows) == 1 && rows[0][0].Text != "e" {
		p = viaCast
	}
	c.casts[key] = p
	return p, nil
}
