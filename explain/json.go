package explain

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// JSON returns the report as EXPLAIN (FORMAT JSON) does: an array of one object.
func (r *Report) JSON() (string, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode([]*Report{r}); err != nil {
		return "", fmt.Errorf("explain: %w", err)
	}
	return string(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// MarshalJSON writes a time in milliseconds with three digits, as PostgreSQL
// does.
func (m Millis) MarshalJSON() ([]byte, error) { return []byte(m.String()), nil }

func (m Millis) String() string {
	return strconv.FormatFloat(float64(m)/float64(time.Millisecond), 'f', 3, 64)
}

// Answer takes in what a shard has said: the rows of its EXPLAIN, in the format
// that it was asked for.
func (s *Shard) Answer(rows []string, asJSON bool) error {
	if !asJSON {
		s.lines = rows
		return nil
	}
	top, rest, err := split(rows)
	if err != nil {
		return err
	}
	s.Plans, s.Summary = []json.RawMessage{top}, rest
	return nil
}

// Remains takes in what PostgreSQL has said of the remainder.
func (n *Node) Remains(rows []string, asJSON bool) error {
	if !asJSON {
		for i := range rows {
			rows[i] = shorten(rows[i])
		}
		n.remainder = rows
		return nil
	}
	top, _, err := split(rows)
	n.Remainder = shortenStrings(top)
	return err
}

// longest is how many bytes of a line, or of a value, of the remainder's plan
// are shown: conditions have the rows of pieces in them, as constants.
const longest = 500

func shorten(s string) string {
	if len(s) <= longest {
		return s
	}
	return strings.ToValidUTF8(s[:longest], "") + "…"
}

// shortenStrings does the same to the strings in a JSON value.
func shortenStrings(in json.RawMessage) json.RawMessage {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		out = append(out, in[i])
		if in[i] != '"' {
			continue
		}
		start := i + 1
		for i++; i < len(in) && in[i] != '"'; i++ {
			if in[i] == '\\' {
				i++
			}
		}
		if text := in[start:min(i, len(in))]; len(text) <= longest {
			out = append(out, text...)
		} else {
			cut := longest // not within an escape, the longest of which has six bytes
			if at := bytes.LastIndexByte(text[:cut], '\\'); at >= cut-6 {
				cut = at
				for cut > 0 && text[cut-1] == '\\' {
					cut--
				}
			}
			out = append(out, bytes.ToValidUTF8(text[:cut], nil)...)
			out = append(out, "…"...)
		}
		out = append(out, '"')
	}
	return out
}

// split cuts an answer into the plan and what stands beside it.
func split(rows []string) (top json.RawMessage, rest map[string]json.RawMessage, err error) {
	var all []map[string]json.RawMessage
	if len(rows) != 1 {
		return nil, nil, fmt.Errorf("explain: %d rows for a plan", len(rows))
	}
	if err := json.Unmarshal([]byte(rows[0]), &all); err != nil {
		return nil, nil, fmt.Errorf("explain: %w", err)
	}
	if len(all) != 1 || all[0]["Plan"] == nil {
		return nil, nil, fmt.Errorf("explain: no plan in %.80q", rows[0])
	}
	top = all[0]["Plan"]
	delete(all[0], "Plan")
	return top, all[0], nil
}
