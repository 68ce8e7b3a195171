package plan

import (
	"fmt"
	"strings"

	"weft/copydata"
)

// Copy is a COPY that concerns several shards. For Gathered, Copy is what is done; for Keyed, it
// is what is done when the query of COPY (query) TO does not run on one shard.
type Copy struct {
	// Query, if not empty, is the query whose rows COPY TO copies, written as Format says.
	Query string
	// Writes says that the query changes rows.
	Writes bool
	// Check is the same COPY without a row, for the home shard, which reports any error in it.
	Check string

	// Table is where the rows of COPY FROM go, and Relation is the name in the client's text,
	// which may be that of a partition.
	Table    *Table
	Relation string

	// Format is the format of the data, and Encoding its encoding: empty for the client's.
	Format   copydata.Format
	Encoding string

	// Columns are the names of a row's fields.
	Columns []string

	// Types, if not nil, are the types of binary fields, some of which may contain OIDs of the
	// home shard: the count and the OIDs in the form of a ParameterDescription's body.
	Types []byte

	// Keys say where the values of the key are, in the order of the vindex. Nil for a
	// reference table.
	Keys []CopyKey

	// Supply are the columns that weft adds to each row, before the client's columns.
	Supply []Supply

	// Text is what each shard runs. It takes no header, and has none of the options that only
	// concern the client's data.
	Text Text

	// Unclear, if not empty, is the reason why weft does not understand the options. The home
	// shard is asked about them; if it accepts them, the statement is refused.
	Unclear string
}

// CopyKey is where a value of the key comes from.
type CopyKey struct {
	Field  int    // index of the row's field, or -1
	Supply int    // index into Copy.Supply, or -1
	Source Source // a constant of the schema, or Null, if Field and Supply are -1
}

// Supply is a column whose values weft supplies.
type Supply struct {
	Column string
	// Sequence is the sequence to draw from, quoted and qualified. Expr is an expression with one
	// value for the whole statement. If both are empty, the value is a random uuid.
	Sequence string
	Identity bool // whether the column is an identity column
	Expr     string
	Type     string // SQL name of the column's type
	Size     int    // bytes of an integer
	// Routed, if not nil, says that the value is an id that names the bucket of its row.
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
