package tally

import (
	"maps"
	"sync"
)

// maxCodes bounds the SQLSTATEs that are told apart: functions can make up others.
const maxCodes = 200

// OtherCode stands for all beyond them.
const OtherCode = "other"

// Codes counts errors by SQLSTATE. The zero value is ready. Errors are rare
// enough for a lock.
type Codes struct {
	mu     sync.Mutex
	counts map[string]uint64
}

// Add counts an error.
func (c *Codes) Add(code string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts == nil {
		c.counts = map[string]uint64{}
	}
	if _, known := c.counts[code]; !known && (len(c.counts) >= maxCodes || !valid(code)) {
		code = OtherCode
	}
	c.counts[code]++
}

// valid reports whether a code is one that PostgreSQL could send.
func valid(code string) bool {
	if len(code) != 5 {
		return false
	}
	for _, c := range []byte(code) {
		if (c < '0' || c > '9') && (c < 'A' || c > 'Z') {
			return false
		}
	}
	return true
}

// All returns the counts.
func (c *Codes) All() map[string]uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.counts)
}
