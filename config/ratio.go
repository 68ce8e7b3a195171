package config

import (
	"fmt"
	"strconv"
)

// Ratio is a share, from 0 to 1.
type Ratio float64

// UnmarshalText reads a ratio.
func (r *Ratio) UnmarshalText(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !(f >= 0 && f <= 1) {
		return fmt.Errorf("%q is not a number from 0 to 1", text)
	}
	*r = Ratio(f)
	return nil
}

// MarshalText writes it so that UnmarshalText reads it.
func (r Ratio) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

func (r Ratio) String() string { return strconv.FormatFloat(float64(r), 'g', -1, 64) }
