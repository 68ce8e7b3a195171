package plan

import (
	"strings"

	"weft/quote"
)

// Explain says that a query is to be explained, not answered.
type Explain struct {
	// After and Offset are where the query begins in the client's text: so many
	// bytes after that literal, as parser.Place has it.
	After, Offset int

	// Analyze: it is run too.
	Analyze bool
	// Format is text, json or what else the client wrote, in lower case.
	Format string
	// Timing and Summary: times of steps, and of the whole, are to be shown.
	Timing, Summary bool

	// Options are all of them but the format, for the shards. Whether they are
	// right is PostgreSQL's to say.
	Options []ExplainOption
}

// ExplainOption is an option as the client wrote it. One without a value has
// an empty one.
type ExplainOption struct{ Name, Value string }

// JSON: the plan is one value, not lines.
func (e *Explain) JSON() bool { return e.Format == "json" }

// SQL is what stands before a query that a shard is to explain in the same way.
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
