package stream

import "io"

// Append returns the rows of one part after the other. A part is read only when the parts before
// it have ended.
func Append(parts ...Rows) Rows {
	switch len(parts) {
	case 0:
		return none{}
	case 1:
		return parts[0]
	}
	return &appended{parts: parts}
}

type appended struct {
	parts []Rows // the first is being read
	err   error
}

func (a *appended) Next() ([]byte, error) {
	for a.err == nil {
		row, err := a.parts[0].Next()
		switch {
		case err == nil:
			return row, nil
		case err == io.EOF && len(a.parts) > 1:
			a.parts = a.parts[1:]
		default:
			a.err = err
		}
	}
	return nil, a.err
}
