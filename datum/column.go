package datum

// Column is what has to be known of a key column.
type Column struct {
	// Type is the column's type; of a domain, the type below it.
	Type Type
	// Mod is pg_attribute.atttypmod: the n of varchar(n) and the like, -1 for
	// none. Only Store looks at it.
	Mod int32
}

// Keyed reports whether values of type t have a canonical form.
func Keyed(t Type) bool {
	switch t {
	case Int2, Int4, Int8, Text, Varchar, Bpchar, UUID, Date, Timestamp, Timestamptz, Numeric:
		return true
	}
	return false
}

// Match returns the Key of the stored values that are equal to v, by the
// equality operator PostgreSQL chooses for the two types. The Key may share v's
// bytes.
func (c Column) Match(v Value) (Key, error) {
	if v.Bytes == nil {
		return Key{}, errNull
	}
	return c.key(v, false)
}

// Store returns the Key of what the column will hold when v is assigned to it.
// The Key may share v's bytes.
func (c Column) Store(v Value) (Key, error) {
	if v.Bytes == nil {
		return Key{}, nil
	}
	return c.key(v, true)
}

// Place is Store if the value is stored, else Match, for finding a shard: a value that the column is
// too narrow for has the Key that it has in a wider column. A shard refuses it, unless its column has become
// wider since the statement was planned: then the row belongs there.
func (c Column) Place(v Value, stored bool) (Key, error) {
	k, err := c.placed(v, stored)
	if err == errIntegerRange && c.Type != Int8 || err == errTooLong {
		wide := Column{Type: c.Type, Mod: -1}
		if err == errIntegerRange {
			wide.Type = Int8
		}
		return wide.placed(v, stored)
	}
	return k, err
}

func (c Column) placed(v Value, stored bool) (Key, error) {
	if stored {
		return c.Store(v)
	}
	return c.Match(v)
}

func (c Column) key(v Value, store bool) (Key, error) {
	switch v.Format {
	case TextFormat:
	case BinaryFormat:
		if v.Type == Unknown || v.Type == 0 {
			return Key{}, errBinary
		}
	default:
		return Key{}, errFormat
	}
	switch c.Type {
	case Int2, Int4, Int8:
		return c.integer(v, store)
	case Text, Varchar, Bpchar:
		return c.character(v, store)
	case UUID:
		return c.uuid(v)
	case Date:
		return c.date(v, store)
	case Timestamp, Timestamptz:
		return c.timestamp(v, store)
	case Numeric:
		return c.numeric(v, store)
	}
	return Key{}, errColumn
}
