//go:build linux || darwin

package server

import "syscall"

// diskOf returns how much of the disk with a directory is free, and its size; zeros if that cannot be known.
func diskOf(dir string) (free, size uint64) {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return 0, 0
	}
	return st.Bavail * uint64(st.Bsize), st.Blocks * uint64(st.Bsize)
}
