package sequence

import (
	"fmt"
	"time"
)

// Config of an Allocator. The zero value of a field means its default.
type Config struct {
	// MaxBlock is the largest block that is drawn in advance. Default 1,000: at
	// 100,000 values a second, a hundred draws.
	MaxBlock int
	// MaxSequences is how many sequences are remembered. Beyond that, a sequence that no Take
	// waits for is forgotten, and the rest of its block becomes a hole. Default 10,000.
	MaxSequences int
	// Busy is how soon a draw must follow the previous one for the block to double. Default
	// 100 ms.
	Busy time.Duration
	// Quiet is the time without a draw after which the block becomes half as large. Default 1 s.
	Quiet time.Duration
	// DrawTimeout is how long a draw may take. Default 1 min.
	DrawTimeout time.Duration
}

// Validate reports a field with an impossible value.
func (c Config) Validate() error {
	switch {
	case c.MaxBlock < 0:
		return fmt.Errorf("max block %d is negative", c.MaxBlock)
	case c.MaxSequences < 0:
		return fmt.Errorf("max sequences %d is negative", c.MaxSequences)
	case c.Busy < 0 || c.Quiet < 0 || c.DrawTimeout < 0:
		return fmt.Errorf("a negative duration: busy %s, quiet %s, draw timeout %s", c.Busy, c.Quiet, c.DrawTimeout)
	}
	return nil
}

func (c Config) withDefaults() Config {
	if c.MaxBlock == 0 {
		c.MaxBlock = 1000
	}
	if c.MaxSequences == 0 {
		c.MaxSequences = 10_000
	}
	if c.Busy == 0 {
		c.Busy = 100 * time.Millisecond
	}
	if c.Quiet == 0 {
		c.Quiet = time.Second
	}
	if c.DrawTimeout == 0 {
		c.DrawTimeout = time.Minute
	}
	return c
}
