package stream

// Type is what there is to know of a column before its values are compared.
type Type struct {
	OID    uint32
	Mod    int32
	Format int16 // 0 text, 1 binary
	// Bytes: its collation compares bytes, and they come in the encoding that
	// the server has them in.
	Bytes bool
	// Deterministic: its collation takes texts for equal only if their bytes
	// are, and they come in the encoding that the server has them in.
	Deterministic bool
	// Enum: it is an enum.
	Enum bool
	// ISO: the session's DateStyle is ISO. Only in this style the text of a
	// timestamptz says which one it is, in every time zone.
	ISO bool
	// Shortest: the session's extra_float_digits is above 0, so that the text of
	// a float says which one it is.
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
