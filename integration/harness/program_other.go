//go:build !linux

package harness

import "syscall"

// dieWithParent does nothing where the kernel has no such thing.
func dieWithParent() *syscall.SysProcAttr { return nil }
