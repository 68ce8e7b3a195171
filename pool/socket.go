package pool

import (
	"net"
	"time"
)

// A server whose host is gone sends nothing, not even an end of file. Its connections count as lost when this many keepalives went
// unanswered.
const (
	probeIdle     = 5 * time.Second
	probeInterval = 2 * time.Second
	probeCount    = 3
)

// watchful sets up a new connection to notice that its server's host is gone. Data that was sent may stay unacknowledged for
// as long as timeout says.
func watchful(conn net.Conn, timeout time.Duration) {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetNoDelay(true)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: probeIdle, Interval: probeInterval, Count: probeCount,
	})
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { boundUnsent(fd, timeout) })
	}
}
