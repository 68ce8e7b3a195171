package vindex

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Params are a declaration's parameters as a YAML or JSON decoder leaves them:
// strings, numbers, lists ([]any) and maps (map[string]any). A number may also
// be spelled as a string, which is how SQL passes it.
type Params map[string]any

// params reads Params, remembers what was asked for, and knows where it is.
type params struct {
	place  string // "" at the top, else like "parts[1]."
	values map[string]any
	asked  []string
	// sole: the place is that of the one value there can be.
	sole bool
}

// at returns the place of the parameter called name.
func (p *params) at(name string) string {
	if p.sole {
		return p.place
	}
	return p.place + name
}

func (p *params) get(name string) (any, bool) {
	if !slices.Contains(p.asked, name) {
		p.asked = append(p.asked, name)
	}
	v, ok := p.values[name]
	return v, ok && v != nil
}

// done refuses what nobody asked for.
func (p *params) done() error {
	for name := range p.values {
		if !slices.Contains(p.asked, name) {
			if len(p.asked) == 0 {
				return fmt.Errorf("%s: there are no parameters here", p.at(name))
			}
			return fmt.Errorf("%s: unknown parameter; known are %s", p.at(name), strings.Join(p.asked, ", "))
		}
	}
	return nil
}

// number returns the whole number called name. ok is false if there is none.
func (p *params) number(name string, low, high int) (n int, ok bool, err error) {
	v, ok := p.get(name)
	if !ok {
		return 0, false, nil
	}
	n, err = toNumber(v, low, high)
	if err != nil {
		return 0, false, fmt.Errorf("%s: %w", p.at(name), err)
	}
	return n, true, nil
}

func toNumber(v any, low, high int) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(scalar(v)))
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("want a whole number from %d to %d, got %v", low, high, v)
	}
	return n, nil
}

// scalar returns the text of a string or number, "" for anything else.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	case float64:
		if !(math.Abs(v) < 1<<53) {
			return "" // a JSON decoder may have rounded it: let it be quoted
		}
		return strconv.FormatFloat(v, 'f', -1, 64)
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return fmt.Sprint(v)
	}
	return ""
}

// text returns the string called name.
func (p *params) text(name string) (string, bool, error) {
	v, ok := p.get(name)
	if !ok {
		return "", false, nil
	}
	s, ok := v.(string)
	if !ok {
		return "", false, fmt.Errorf("%s: want a string, got %v", p.at(name), v)
	}
	return s, true, nil
}

// list returns the list called name.
func (p *params) list(name string) ([]any, bool, error) {
	v, ok := p.get(name)
	if !ok {
		return nil, false, nil
	}
	l, ok := v.([]any)
	if !ok {
		return nil, false, fmt.Errorf("%s: want a list, got %v", p.at(name), v)
	}
	return l, true, nil
}

// commaList returns the list called name, which may be a string with commas:
// SQL's arguments are plain.
func (p *params) commaList(name string) ([]any, bool, error) {
	s, ok := p.values[name].(string)
	if !ok {
		return p.list(name)
	}
	p.get(name)
	var l []any
	for item := range strings.SplitSeq(s, ",") {
		l = append(l, strings.TrimSpace(item))
	}
	return l, true, nil
}

// inside returns a reader for item i of the list called name, which must be a
// map.
func (p *params) inside(name string, i int, v any) (*params, error) {
	place := fmt.Sprintf("%s[%d]", p.at(name), i)
	switch m := v.(type) {
	case map[string]any:
		return &params{place: place + ".", values: m}, nil
	case Params:
		return &params{place: place + ".", values: m}, nil
	}
	return nil, fmt.Errorf("%s: want a map, got %v", place, v)
}
