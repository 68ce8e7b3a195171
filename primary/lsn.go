package primary

import (
	"fmt"
	"strconv"
	"strings"
)

// LSN is a place in the write-ahead log of a server. 0 says that it is not known.
type LSN uint64

// ParseLSN reads an LSN as PostgreSQL writes it, such as 0/16B3748. An empty text is 0.
func ParseLSN(text string) (LSN, error) {
	if text == "" {
		return 0, nil
	}
	high, low, ok := strings.Cut(text, "/")
	h, err := strconv.ParseUint(high, 16, 32)
	if err == nil {
		var l uint64
		if l, err = strconv.ParseUint(low, 16, 32); err == nil {
			return LSN(h<<32 | l), nil
		}
	}
	if !ok {
		err = strconv.ErrSyntax
	}
	return 0, fmt.Errorf("%q is not an LSN: %w", text, err)
}

// String returns the LSN as PostgreSQL writes it.
func (l LSN) String() string { return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) }

// MarshalText implements encoding.TextMarshaler.
func (l LSN) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *LSN) UnmarshalText(b []byte) error {
	var err error
	*l, err = ParseLSN(string(b))
	return err
}
