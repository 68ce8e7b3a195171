//go:build !linux

package pool

// boundUnsent leaves it to the system how long it tries to send what nobody takes.
func boundUnsent(uintptr) {}
