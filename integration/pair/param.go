package pair

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Param is one parameter: a type's name, or unknown, and its text; nil is NULL.
type Param struct {
	Type string
	Text *string
}

// TypeOIDs are the types that scripts and the generator declare parameters as.
var TypeOIDs = map[string]uint32{
	"unknown": 0, "bool": 16, "int8": 20, "int2": 21, "int4": 23, "text": 25, "float8": 701, "bpchar": 1042,
	"varchar": 1043, "date": 1082, "timestamp": 1114, "timestamptz": 1184, "numeric": 1700, "uuid": 2950,
	"jsonb": 3802, "int4[]": 1007, "text[]": 1009, "int8[]": 1016, "uuid[]": 2951, "numeric[]": 1231,
}

var placeholder = regexp.MustCompile(`\$(\d+)`)

// Inline writes parameters as the literals that mean the same.
func Inline(sql string, set []Param) string {
	if len(set) == 0 {
		return sql
	}
	return placeholder.ReplaceAllStringFunc(sql, func(m string) string {
		n, _ := strconv.Atoi(m[1:])
		if n > len(set) {
			return m
		}
		p := set[n-1]
		switch {
		case p.Text == nil && p.Type == "unknown":
			return "NULL"
		case p.Text == nil:
			return "NULL::" + p.Type
		case (p.Type == "int2" || p.Type == "int4" || p.Type == "int8" || p.Type == "numeric") && number.MatchString(*p.Text):
			return *p.Text
		case p.Type == "unknown" || p.Type == "bpchar": // a cast to bpchar is another thing
			return "'" + strings.ReplaceAll(*p.Text, "'", "''") + "'"
		default:
			return "'" + strings.ReplaceAll(*p.Text, "'", "''") + "'::" + p.Type
		}
	})
}

var number = regexp.MustCompile(`^[0-9.]+$`)

// Show lists parameters for a message.
func Show(set []Param) string {
	out := ""
	for i, p := range set {
		v := "NULL"
		if p.Text != nil {
			v = *p.Text
		}
		out += fmt.Sprintf("$%d %s %q ", i+1, p.Type, v)
	}
	return out
}
