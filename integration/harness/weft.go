package harness

import (
	"testing"

	"weft/config"
)

// Weft returns the weft cluster of this test binary.
func Weft(tb testing.TB) *Target {
	tb.Helper()
	tb.Skip("weft does not build yet")
	return nil
}

// StartWeft starts one more proxy over the same shards, for one test alone.
func StartWeft(tb testing.TB, configure func(*config.Config)) *Target {
	return Weft(tb)
}
