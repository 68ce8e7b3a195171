package plan

import (
	"strings"

	"weft/quote"
)

// Explain says that a query is to be explained, not answered.
type Explain struct {
	// After and Offset are where the query begins in the client's text: Offset bytes after the
	// literal After, as parser.Place counts.
	After, Offset int

	// Analyze says that the query is run too.
	Analyze bool
	// Format is text, json or another word that the client wrote, in lower case.
	Format string
	// Timing and Summary say that times of steps, and of the whole, are to be shown.
	Timing, Summary bool

	// Options are all options but the format, for the shards. PostgreSQL checks them.
	Options []ExplainOption
}

// ExplainOption is an option as the client wrote it. Value is empty if the client wrote none.
type ExplainOption struct{ Name, Value string }

// JSON reports whether the plan is one JSON value, not lines of text.
func (e *Explain) JSON() bool { return e.Format == "json" }

// SQL is the EXPLAIN clause to put before a query that a shard is to explain in the same way.
func (e *Explain) SQL() string {
	var b strings.Builder
	b.WriteString("EXPLAIN (")
	for _, o := range e.Options {
		b.WriteString(quote.Ident(o.Name))
		if o.Value != "" {
			b.WriteString(" " + quote.Literal(o.Value))
		}
		b.WriteString(", ")
	}
	b.WriteString("FORMAT " + e.Format + ") ")
	return b.String()
}
