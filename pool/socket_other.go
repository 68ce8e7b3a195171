//go:build !linux

package pool

import "time"

// boundUnsent does nothing: the system decides how long it tries to send unacknowledged data.
func boundUnsent(uintptr, time.Duration) {}
