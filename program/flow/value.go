package flow

import (
	"slices"
	"strings"
)

// Events are what sets a trigger off.
type Events uint8

// The events.
const (
	Insert Events = 1 << iota
	Update
	Delete
	Truncate

	all = Insert | Update | Delete | Truncate
)

// kind says what a value is.
type kind uint8

const (
	none    kind = iota // NULL: no value has been assigned
	row                 // NEW or OLD
	key                 // a key column of the row
	written             // a key column of the row as text
	object              // the row as JSON
	known               // a text that is in texts
	unknown             // anything
)

// value is what is known of an expression.
type value struct {
	kind kind
	at   int // the position of a key column
	// filled are the events in which the value is not NULL unless that column of the row is NULL.
	filled Events
	texts  []string
}

// maxTexts bounds how many texts a variable can have.
const maxTexts = 16

func textOf(list ...string) value {
	if len(list) > maxTexts {
		return value{kind: unknown}
	}
	return value{kind: known, texts: list, filled: all}
}

// join returns what is known of a value that is a or b.
func join(a, b value) value {
	switch {
	case a.kind == none:
		b.filled &= a.filled
		return b
	case b.kind == none:
		a.filled &= b.filled
		return a
	case a.kind != b.kind || a.at != b.at:
		return value{kind: unknown}
	}
	a.filled &= b.filled
	if a.kind == known {
		texts := slices.Clone(a.texts)
		for _, t := range b.texts {
			if !slices.Contains(texts, t) {
				texts = append(texts, t)
			}
		}
		out := textOf(texts...)
		out.filled &= a.filled
		return out
	}
	return a
}

// same reports whether two values are known to be the same thing, NULL or not.
func same(a, b value) bool {
	return a.kind == b.kind && a.at == b.at && slices.Equal(a.texts, b.texts)
}

// families group the types among which a key keeps its value.
var families = map[string]string{
	"int": "integer", "int4": "integer", "bigint": "integer", "int8": "integer", "smallint": "integer", "int2": "integer",
	"varchar": "text", "character varying": "text",
}

// family returns the group of a type, or "" for a type that may change a value.
func family(name string) string {
	name = strings.TrimPrefix(strings.ToLower(strings.TrimSpace(name)), "pg_catalog.")
	if strings.ContainsAny(name, "([") {
		return ""
	}
	if f := families[name]; f != "" {
		return f
	}
	return name
}

// keeps reports whether a key column of one type has the same value after a cast to another.
func keeps(keyType, to string) bool {
	base, _, _ := strings.Cut(keyType, "(")
	f := family(base)
	return f != "" && f != "character" && f != "bpchar" && f == family(to)
}

// readable reports whether the text of a key of a type, cast back, is the key again.
func readable(keyType string) bool {
	base, _, _ := strings.Cut(keyType, "(")
	switch family(base) {
	case "integer", "text", "uuid":
		return true
	}
	return false
}
