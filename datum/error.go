package datum

// Verdict says what a refusal means to whoever routes. It is the target of
// errors.Is: errors.Is(err, datum.Undecided).
type Verdict string

// The verdicts.
const (
	// Undecided: only the server can tell what the value means. The statement
	// may touch any shard.
	Undecided Verdict = "cannot be decided here"
	// Invalid: PostgreSQL refuses this value for this column. Any one shard
	// gives the client the right error.
	Invalid Verdict = "invalid value"
	// Never: a good value, but no value of the column equals it. Any one shard
	// gives the client the right empty answer.
	Never Verdict = "equal to no value of the column"
)

func (v Verdict) Error() string { return string(v) }

// Error is why a value has no Key. It never holds the value itself: errors are
// logged, literals are not.
type Error struct {
	Verdict Verdict
	Reason  string
}

func (e *Error) Error() string { return string(e.Verdict) + ": " + e.Reason }

// Unwrap lets errors.Is find the verdict.
func (e *Error) Unwrap() error { return e.Verdict }

// All refusals are made once: a statement that scatters should not also
// allocate.
var (
	errNull      = &Error{Never, "nothing equals NULL"}
	errType      = &Error{Undecided, "the server converts a value of this type to the column's"}
	errColumn    = &Error{Undecided, "values of this column's type have no canonical form here"}
	errBinary    = &Error{Undecided, "a binary value of no known type"}
	errFormat    = &Error{Invalid, "neither text nor binary format"}
	errLength    = &Error{Invalid, "wrong number of bytes for its type"}
	errNonASCII  = &Error{Undecided, "the server's locale decides whether this is a space"}
	errNewSyntax = &Error{Undecided, "servers before version 16 refuse this spelling"}
)
