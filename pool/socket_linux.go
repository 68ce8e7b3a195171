package pool

import "golang.org/x/sys/unix"

// boundUnsent bounds how long the system tries to send data that the server does not acknowledge.
func boundUnsent(fd uintptr) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(goneAfter.Milliseconds()))
}
