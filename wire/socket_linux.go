package wire

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// recv and send read from and write to a socket that may not make the thread wait. The calls skip
// what Go does around a system call: a thread that waits for a core in the middle of the call keeps
// its place in Go's scheduler, where Go would give that place to another thread, which costs
// more than the call.

func recv(fd int, p []byte) (int, error) { return receive(fd, p, unix.MSG_DONTWAIT) }

// peek returns the error, nil for none, that recv would return. The bytes stay in the socket.
func peek(fd int, p []byte) error {
	_, err := receive(fd, p, unix.MSG_DONTWAIT|unix.MSG_PEEK)
	return err
}

func receive(fd int, p []byte, flags uintptr) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), flags, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

func send(fd int, p []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}
