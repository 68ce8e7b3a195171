package datum

import "strconv"

// Type is the OID of a PostgreSQL type.
type Type uint32

// The built-in types that matter here. Their OIDs are the same on every server.
const (
	Bool        Type = 16
	Int8        Type = 20
	Int2        Type = 21
	Int4        Type = 23
	Text        Type = 25
	Float4      Type = 700
	Float8      Type = 701
	Unknown     Type = 705 // a literal, or a parameter of no declared type
	Bpchar      Type = 1042
	Varchar     Type = 1043
	Date        Type = 1082
	Timestamp   Type = 1114
	Timestamptz Type = 1184
	Numeric     Type = 1700
	UUID        Type = 2950
)

// String returns PostgreSQL's name for a built-in type, else the OID.
func (t Type) String() string {
	switch t {
	case Bool:
		return "boolean"
	case Int8:
		return "bigint"
	case Int2:
		return "smallint"
	case Int4:
		return "integer"
	case Text:
		return "text"
	case Float4:
		return "real"
	case Float8:
		return "double precision"
	case Unknown:
		return "unknown"
	case Bpchar:
		return "character"
	case Varchar:
		return "character varying"
	case Date:
		return "date"
	case Timestamp:
		return "timestamp without time zone"
	case Timestamptz:
		return "timestamp with time zone"
	case Numeric:
		return "numeric"
	case UUID:
		return "uuid"
	}
	return strconv.FormatUint(uint64(t), 10)
}
