package copydata

// Kind is one of the three formats.
type Kind uint8

// The formats.
const (
	Text Kind = iota
	CSV
	Binary
)

// Header says what is to be done with the first line.
type Header uint8

// What is done with it.
const (
	NoHeader    Header = iota
	SkipHeader         // it is passed over; COPY TO writes one
	MatchHeader        // its fields must be the names of the columns
)

// Format is what the options of a COPY say of its data.
type Format struct {
	Kind      Kind
	Delimiter byte
	// Null is the spelling of NULL.
	Null string
	// Quote and Escape are CSV's.
	Quote, Escape byte
	Header        Header
	// NotNull and Nullable tell by field which are never taken for NULL, and
	// which are even if quoted. They may be shorter than a row.
	NotNull, Nullable []bool
	// Server is the major version of the servers: since 18 \. is data in CSV, and must be alone
	// on its line in text.
	Server int
	// Quoted tells by field which COPY TO always quotes.
	Quoted []bool
}

// Default returns the format of a COPY without options of that kind.
func Default(k Kind) Format {
	switch k {
	case CSV:
		return Format{Kind: CSV, Delimiter: ',', Quote: '"', Escape: '"'}
	case Binary:
		return Format{Kind: Binary}
	}
	return Format{Delimiter: '\t', Null: `\N`}
}

// Error is what is wrong with the data as a whole, in PostgreSQL's words. Its
// SQLSTATE is 22P04, bad_copy_file_format.
type Error struct {
	Message, Hint string
}

func (e *Error) Error() string { return e.Message }

func flagged(flags []bool, i int) bool { return i < len(flags) && flags[i] }
