package finish

import (
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

// Carry returns the form of a column.
func Carry(c *plan.Column) Form {
	switch {
	case !c.Binary:
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

// Carriable returns nil if the columns of a piece can be carried, else the
// refusal.
func Carriable(cols []plan.Column) error {
	for i := range cols {
		if cols[i].SQL == "" {
			return pgerr.New(pgerr.FeatureNotSupported, "column %q has a type whose values cannot be carried between shards", cols[i].Name).
				WithHint("Select the parts of a row instead of the row, or cast it to a composite type or to text.")
		}
	}
	return nil
}
