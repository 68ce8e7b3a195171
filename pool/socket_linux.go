package pool

import (
	"time"

	"golang.org/x/sys/unix"
)

// boundUnsent bounds how long the system tries to send data that the server does not acknowledge.
func boundUnsent(fd uintptr, timeout time.Duration) {
	_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(timeout.Milliseconds()))
}
