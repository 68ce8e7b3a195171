package auth

import (
	"unicode/utf8"

	"github.com/xdg-go/stringprep"
	"golang.org/x/text/unicode/norm"
)

// prohibited is what RFC 4013 forbids in a password, unassigned code points of
// Unicode 3.2 included.
var prohibited = []stringprep.Set{
	stringprep.TableA1,
	stringprep.TableC1_2,
	stringprep.TableC2_1,
	stringprep.TableC2_2,
	stringprep.TableC3,
	stringprep.TableC4,
	stringprep.TableC5,
	stringprep.TableC6,
	stringprep.TableC7,
	stringprep.TableC8,
	stringprep.TableC9,
}

// todoSoftHyphen is in RFC 3454's table B.1 but not in stringprep's.
const todoSoftHyphen = '\u1806'

// saslprep normalizes a password as PostgreSQL and libpq do (RFC 4013); one
// that may not be normalized is used as it is. The tables are stringprep's but
// not the steps: PostgreSQL turns U+200B into a space although the RFC also
// lists it as mapped to nothing, and it looks for prohibited characters before
// normalizing. A password must hash alike here and there.
func saslprep(password string) string {
	if isASCII(password) || !utf8.ValidString(password) {
		return password
	}
	mapped := make([]rune, 0, len(password))
	for _, r := range password {
		if stringprep.TableC1_2.Contains(r) {
			mapped = append(mapped, ' ')
		} else if _, nothing := stringprep.TableB1.Map(r); !nothing && r != todoSoftHyphen {
			mapped = append(mapped, r)
		}
	}
	if len(mapped) == 0 {
		return password
	}
	for _, r := range mapped {
		for _, set := range prohibited {
			if set.Contains(r) {
				return password
			}
		}
	}
	if !directionAllowed(mapped) {
		return password
	}
	return norm.NFKC.String(string(mapped))
}

// directionAllowed is RFC 3454's rule for text with right-to-left characters:
// no left-to-right ones, and a right-to-left one at each end.
func directionAllowed(rs []rune) bool {
	var right, left bool
	for _, r := range rs {
		right = right || stringprep.TableD1.Contains(r)
		left = left || stringprep.TableD2.Contains(r)
	}
	return !right || (!left && stringprep.TableD1.Contains(rs[0]) && stringprep.TableD1.Contains(rs[len(rs)-1]))
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
