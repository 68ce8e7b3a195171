package catalog

import "regexp"

// rowCommand finds commands that change rows, in a body without comments. It does not
// see commands that a body puts together at run time: Dynamic reports those.
var (
	rowCommand = regexp.MustCompile(`(?i)\b(insert\s+into|merge\s+into|delete\s+from|truncate|copy)\b|\bupdate\s+(only\s+)?("[^"]*"|[^\s"])+\s*\*?\s+((as\s+)?("[^"]*"|[^\s"]+)\s+)?set\b`)
	comment    = regexp.MustCompile(`(?s)/\*.*?\*/|--[^\n]*`)
)

// Changes reports whether the body of a function may change rows of tables that it
// names.
func Changes(body string) bool { return rowCommand.MatchString(comment.ReplaceAllString(body, " ")) }

// changes reports whether a function may change rows. A volatile function whose body is
// kept as a tree may: the text of that body is not at hand.
func (s *source) changes() bool {
	if s.parsed {
		return s.function.Volatility == 'v'
	}
	return Changes(s.body)
}
