package stream

// CanDistinct reports whether values of these types are equal exactly when their bytes are, which
// is what Distinct compares.
func CanDistinct(types []Type) bool {
	for _, t := range types {
		if !t.equalBytes() {
			return false
		}
	}
	return true
}

// equalBytes reports whether two values of the type are equal exactly when their bytes are. That
// does not hold for numeric (1.0 and 1.00), floats (0 and -0), interval (a day and 24 hours),
// jsonb, arrays and rows of these, and types of extensions.
func (t Type) equalBytes() bool {
	switch t.OID {
	case oidBool, oidInt2, oidInt4, oidInt8, oidOid, oidChar, oidBytea, oidUUID, oidDate, oidTime, oidTimestamp,
		oidLSN, oidXid8, oidMacaddr, oidMacaddr8, oidInet, oidCidr, oidBit, oidVarbit:
		return true
	case oidTimestamptz:
		// Other styles write the zone's abbreviation, and some zones have the same abbreviation
		// in summer and winter.
		return t.Format == binaryFormat || t.ISO
	case oidName, oidText, oidVarchar:
		return t.Deterministic
	case oidBpchar:
		// Values of bpchar(n) have one length; those of bpchar may differ in blanks at the end.
		return t.Deterministic && t.Mod > 4
	}
	return t.Enum
}
