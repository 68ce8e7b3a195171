package finish

import (
	"regexp"
	"strconv"

	"weft/pgerr"
	"weft/plan"
)

// Form is how the values of a column travel.
type Form uint8

// The forms.
const (
	// Element: binary, as an element of an array.
	Element Form = iota
	// Whole: binary. An array cannot be an element of an array: unnest would
	// flatten it.
	Whole
	// Text: what has no binary form, or one that means something else on
	// another server. It becomes a value of its type again by a cast.
	Text
)

// xmlType is the type whose values are read as the setting xmloption says: as documents
// alone, although a table may hold others. So they are carried as text, and made xml by
// XMLPARSE, which takes all of them.
const xmlType = 142

// Carry returns the form of a column.
func Carry(c *plan.Column) Form {
	switch {
	case !c.Binary, c.Type == xmlType:
		return Text
	case c.Array == 0:
		return Whole
	}
	return Element
}

// Formats returns the result formats to be asked for with the statement that
// Tagged makes of pieces with these columns.
func Formats(pieces [][]plan.Column) []int16 {
	var out []int16
	if len(pieces) > 1 {
		out = append(out, 1) // the tag
	}
	for _, cols := range pieces {
		for i := range cols {
			if Carry(&cols[i]) == Text {
				out = append(out, 0)
			} else {
				out = append(out, 1)
			}
		}
	}
	return out
}

// ownName matches names that weft gives to columns: nobody has written them.
var ownName = regexp.MustCompile(`^(c[0-9]+|weft_key_[0-9]+)$`)

// Carriable returns nil if the columns of a piece can be carried, else the
// refusal.
func Carriable(cols []plan.Column) error {
	for i := range cols {
		if cols[i].SQL == "" {
			what := "column " + strconv.Quote(cols[i].Name)
			if ownName.MatchString(cols[i].Name) {
				what = "an expression"
			}
			return pgerr.New(pgerr.FeatureNotSupported, "%s has a type whose values cannot be carried between shards", what).
				WithHint("Select the parts of a row instead of the row, or cast it to a composite type or to text.")
		}
	}
	return nil
}
