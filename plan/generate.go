package plan

// Generate says which values weft supplies to an INSERT, because every shard would make its own.
type Generate struct {
	// Values are in the order in which Source.Index counts them: row by row.
	Values []Value
	// Columns are the columns that weft adds to the INSERT's list of columns.
	Columns []string
	// Edits say what is written into the text, in the order of the text.
	Edits []Edit
}

// Value is one value to be made.
type Value struct {
	// Sequence is the qualified, quoted name of the sequence to draw from on the home shard; empty
	// for a random uuid.
	Sequence string
	// Remembered says that nothing is drawn: the value is the one that the session has drawn last, from Sequence
	// if it is not empty (currval), or from any (lastval).
	Remembered bool
	// Identity says that the value is an identity column's default, which needs no right to the
	// sequence.
	Identity bool
	Type     string // SQL name of the column's type, for the cast
	// Routed, if not nil, says that the value is an id that names the bucket of the row that
	// Instances[Row] stores.
	Routed *IDs
	Row    int
}

// Edit changes the client's text at one place. The place is relative to a literal, because the
// same plan serves texts with other literals.
type Edit struct {
	// After is the index of the literal before the place; -1 is the start of the text.
	After int
	// Offset is how many bytes after that literal the place is, in a text without comments.
	Offset int
	// Delete is how many bytes are deleted: a DEFAULT that is replaced.
	Delete int
	// Text is written if Value is -1.
	Text string
	// Value is the index in Generate.Values of the value that is written, or -1.
	Value int
}

// HomeDraws says which sequences a statement over several shards draws from on the home shard itself, rather
// than by weft. What weft remembers of them for currval and lastval is older.
type HomeDraws struct {
	Sequences []string // qualified and quoted names
	Any       bool     // also from sequences that are not known
	// Last says that such a draw comes after those of weft, in the order of columns.
	Last bool
	// Sets says that a sequence is set to another value (setval): values that were drawn in advance are void.
	Sets bool
}
