package parser

// LiteralKind says what a literal is to PostgreSQL's grammar and type resolution. Two texts with the same Norm have
// literals of the same kinds in the same places, so they parse to the same tree but for the values.
type LiteralKind uint8

// The kinds. Each value is also the marker byte that stands for such a literal in Scanner.Norm: control characters that
// are neither white space nor legal outside quotes, so that no query text can be mistaken for one.
const (
	// String is '…', E'…' or $tag$…$tag$: a constant of type unknown.
	String LiteralKind = 0x01
	// UnicodeString is U&'…'; its value also depends on a UESCAPE clause that may follow.
	UnicodeString LiteralKind = 0x02
	// NationalString is N'…', which PostgreSQL reads as nchar '…'.
	NationalString LiteralKind = 0x03
	// Bit is B'…' and Hex is X'…': both constants of type bit.
	Bit LiteralKind = 0x04
	Hex LiteralKind = 0x05
	// Int fits int4.
	Int LiteralKind = 0x06
	// Int8 fits int8 but not int4.
	Int8 LiteralKind = 0x07
	// Numeric is everything else: a decimal point, an exponent, or more digits than int8 holds.
	Numeric LiteralKind = 0x08
	// IntMin is exactly 2147483648 and Int8Min exactly 9223372036854775808. Alone they are int8 and numeric; directly
	// after a minus sign PostgreSQL folds the sign in and they become int4 and int8. Kinds of their own, because the type
	// would otherwise depend on the value.
	IntMin  LiteralKind = 0x0e
	Int8Min LiteralKind = 0x0f
)

// String implements fmt.Stringer.
func (k LiteralKind) String() string {
	switch k {
	case String:
		return "string"
	case UnicodeString:
		return "unicode string"
	case NationalString:
		return "national string"
	case Bit:
		return "bit"
	case Hex:
		return "hex"
	case Int:
		return "int"
	case Int8:
		return "int8"
	case Numeric:
		return "numeric"
	case IntMin:
		return "int min"
	case Int8Min:
		return "int8 min"
	}
	return "unknown"
}

// Literal is one constant in a statement text: text[Start:End] is the whole of it, with prefix and quotes. A string
// continued on the next line is one literal. A sign is an operator and not part of it.
type Literal struct {
	Kind       LiteralKind
	Start, End int32
}
