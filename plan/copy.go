package plan

import (
	"fmt"
	"strings"

	"weft/copydata"
)

// Copy is a COPY that concerns several shards: for Gathered what is done, for Keyed
// what is done when the query of COPY (query) TO does not run on one shard.
type Copy struct {
	// Query, if not empty, is what COPY TO copies: its rows, written as Format says.
	Query string
	// Check is the same COPY without a row: whatever is wrong with it the home shard
	// says.
	Check string

	// Table is where the rows of COPY FROM go, and Relation what the client calls
	// it: a partition, perhaps.
	Table    *Table
	Relation string

	// Format is how the data is written, and Encoding in which encoding: empty for
	// the client's.
	Format   copydata.Format
	Encoding string

	// Columns are the names of a row's fields.
	Columns []string

	// Types, if not nil, are the types of binary fields, some of which may have OIDs of
	// the home shard in them: the count and the OIDs as a ParameterDescription's body
	// has them.
	Types []byte

	// Keys say where the values of the key are, in the order of the vindex. Nil for a
	// reference table.
	Keys []CopyKey

	// Supply are the columns that weft adds to each row, before the client's own.
	Supply []Supply

	// Text is what each shard runs. It takes neither a header nor a part of the
	// options that only the client's data has.
	Text Text

	// Unclear, if not empty: weft does not understand the options, for this reason.
	// The home shard is asked what it thinks of them, and if it would go on the
	// statement is refused.
	Unclear string
}

// CopyKey is where a value of the key comes from.
type CopyKey struct {
	Field  int    // of the row, or -1
	Supply int    // what weft adds, or -1
	Source Source // else: a constant of the schema, or Null
}

// Supply is a column whose values weft supplies.
type Supply struct {
	Column string
	// Sequence is what it is drawn from, quoted and qualified. Expr is an expression
	// that has one value for the whole statement. With neither it is a random uuid.
	Sequence string
	Identity bool // it is an identity column's
	Expr     string
	Type     string // SQL name of the column's type
	Size     int    // bytes of an integer
	// Routed: the value is an id that names the bucket of its row.
	Routed *IDs
}

func (c *Copy) print(b *strings.Builder) {
	kind := [...]string{"text", "csv", "binary"}[c.Format.Kind]
	if c.Query != "" {
		fmt.Fprintf(b, "  copies as %s: %s\n", kind, c.Query)
		return
	}
	fmt.Fprintf(b, "  copies %s into %s (%s)\n", kind, c.Relation, strings.Join(c.Columns, ", "))
	for i, k := range c.Keys {
		from := ""
		switch {
		case k.Field >= 0:
			from = "field " + c.Columns[k.Field]
		case k.Supply >= 0:
			from = "what is supplied for " + c.Supply[k.Supply].Column
		default:
			from = k.Source.String()
		}
		fmt.Fprintf(b, "  key %s: %s\n", c.Table.Vindex.Columns()[i].Name, from)
	}
	for _, s := range c.Supply {
		from := "a random uuid"
		if s.Sequence != "" {
			from = s.Sequence
		} else if s.Expr != "" {
			from = s.Expr
		}
		fmt.Fprintf(b, "  supplies %s: %s\n", s.Column, from)
	}
	if c.Unclear != "" {
		fmt.Fprintf(b, "  unclear: %s\n", c.Unclear)
		return
	}
	fmt.Fprintf(b, "  each shard: %s\n", c.Text)
}

func (c *Copy) size() int64 {
	if c == nil {
		return 0
	}
	n := int64(256) + int64(len(c.Query)+len(c.Check)+len(c.Relation)+len(c.Unclear)+len(c.Format.Null)) + c.Text.size() + stringsSize(c.Columns)
	for i := range c.Keys {
		n += c.Keys[i].Source.size() + 16
	}
	for _, s := range c.Supply {
		n += 64 + int64(len(s.Column)+len(s.Sequence)+len(s.Expr)+len(s.Type))
	}
	return n
}
