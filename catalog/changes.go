package catalog

import "regexp"

// rowCommand finds commands that change rows, in a body without comments. What a
// body puts together while it runs is not seen here: see Dynamic.
var (
	rowCommand = regexp.MustCompile(`(?i)\b(insert\s+into|merge\s+into|delete\s+from|truncate|copy)\b|\bupdate\s+(only\s+)?("[^"]*"|[^\s"])+\s*\*?\s+((as\s+)?("[^"]*"|[^\s"]+)\s+)?set\b`)
	comment    = regexp.MustCompile(`(?s)/\*.*?\*/|--[^\n]*`)
)

// Changes reports whether the body of a function may change rows of tables that it
// names.
func Changes(body string) bool { return rowCommand.MatchString(comment.ReplaceAllString(body, " ")) }

// changes does it for a function of whatever kind.
func (s *source) changes() bool {
	if s.parsed {
		return s.function.Volatility == 'v' // its text is not at hand
	}
	return Changes(s.body)
}
