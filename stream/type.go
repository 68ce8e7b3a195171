package stream

// Type is what must be known of a column to compare its values.
type Type struct {
	OID    uint32
	Mod    int32
	Format int16 // 0 text, 1 binary
	// Bytes says that the collation compares bytes, and that values come in the encoding of the
	// server.
	Bytes bool
	// Deterministic says that the collation treats texts as equal only if their bytes are, and
	// that values come in the encoding of the server.
	Deterministic bool
	// Enum says that the type is an enum.
	Enum bool
	// ISO says that the session's DateStyle is ISO. Only in this style the text of a timestamptz
	// tells the moment in every time zone.
	ISO bool
	// Shortest says that the session's extra_float_digits is above 0, so that the text of a float
	// tells the exact value.
	Shortest bool
}

// The OIDs of built-in types, the same on every server.
const (
	oidBool        = 16
	oidBytea       = 17
	oidChar        = 18 // "char"
	oidName        = 19
	oidInt8        = 20
	oidInt2        = 21
	oidInt4        = 23
	oidText        = 25
	oidOid         = 26
	oidCidr        = 650
	oidFloat4      = 700
	oidFloat8      = 701
	oidMacaddr8    = 774
	oidMoney       = 790
	oidMacaddr     = 829
	oidInet        = 869
	oidBpchar      = 1042
	oidVarchar     = 1043
	oidDate        = 1082
	oidTime        = 1083
	oidTimestamp   = 1114
	oidTimestamptz = 1184
	oidInterval    = 1186
	oidTimetz      = 1266
	oidBit         = 1560
	oidVarbit      = 1562
	oidNumeric     = 1700
	oidUUID        = 2950
	oidLSN         = 3220
	oidXid8        = 5069
)

const (
	textFormat   = 0
	binaryFormat = 1
)
