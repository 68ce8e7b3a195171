package executor

import "weft/datum"

// Texts returns all parameters as text, nil for NULL. It reports false if a parameter is binary or
// the message is malformed.
func (p Params) Texts() (values [][]byte, ok bool) {
	at := 0
	for i := range p.count {
		var v []byte
		if v, at, ok = p.value(at); !ok || v != nil && p.format(i) != datum.TextFormat {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}
