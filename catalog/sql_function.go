package catalog

// SQLFunction is the definition of a function in SQL.
type SQLFunction struct {
	// Head is a statement that makes the function, without its body: it has the arguments with their names, modes, types and
	// defaults, and the type of the result. All names in it are qualified, except names of pg_catalog.
	Head string
	// Body is the text of the body. Empty if it could not be read without waiting.
	Body string
	// Standard: the body is RETURN or BEGIN ATOMIC, with all names qualified except names of pg_catalog.
	Standard bool
	// Types are the types of the arguments in Head. Result is that of the result, or of one of its rows.
	Types  []uint32
	Result uint32
	// Strict: the result is NULL if an argument is NULL.
	Strict bool
	// Definer: SECURITY DEFINER.
	Definer bool
	// Settings are the SET clauses: name=value.
	Settings []string
	// Public: every role may call the function.
	Public bool
}
