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
	// Element is binary, as an element of an array.
	Element Form = iota
	// Whole is binary, as a parameter of its own: for an array, which cannot be an element of an
	// array, because unnest would flatten it.
	Whole
	// Text is for a type that has no binary form, or whose binary form means something else on
	// another server. A cast makes the text a value of its type again.
	Text
)

// xmlType is the OID of xml. With the setting xmloption = document PostgreSQL reads only documents
// as xml, although a table may hold other content. So xml values are carried as text, and made
// xml by XMLPARSE (CONTENT …), which takes all of them.
const xmlType = 142

// Carry returns the form that the values of a column travel in.
func Carry(c *plan.Column) Form {
	switch {
	case !c.Binary, c.Type == xmlType:
		return Text
	case c.Array == 0:
		return Whole
	}
	return Element
}

// Formats returns the result formats to ask for with the statement that Tagged makes of pieces
// with these columns.
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

// ownName matches the names that weft gives to columns, which mean nothing to a client.
var ownName = regexp.MustCompile(`^(c[0-9]+|weft_key_[0-9]+)$`)

// Carriable returns the refusal of a piece with a column that cannot be carried, else nil.
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
