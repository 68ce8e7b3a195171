package plan

// Generate says which values weft supplies to an INSERT, because every shard
// would have its own idea of them.
type Generate struct {
	// Values in the order in which Source.Index counts them: row by row.
	Values []Value
	// Columns are the columns that the INSERT does not name and that are added
	// to its list.
	Columns []string
	// Edits say what is written into the text, in the order of the text.
	Edits []Edit
}

// Value is one value to be made.
type Value struct {
	// Sequence is the qualified, quoted name to draw from on the home shard;
	// empty for a random uuid.
	Sequence string
	// Identity: it is an identity column's default, for which nobody needs a right
	// to the sequence.
	Identity bool
	Type     string // SQL name of the column's type, for the cast
	// Routed: the value is an id that names the bucket of the row that
	// Instances[Row] stores.
	Routed *IDs
	Row    int
}

// Edit puts something into the client's text. The place is told relative to
// the literals, because the same plan serves texts with other literals.
type Edit struct {
	// After is the literal the place comes after; -1 is the start of the text.
	After int
	// Offset is how many bytes after it, in a text without comments.
	Offset int
	// Delete is how many bytes go: a DEFAULT that is replaced.
	Delete int
	// Text is written, unless Value says which value is.
	Text string
	// Value is an index into Generate.Values, or -1.
	Value int
}
