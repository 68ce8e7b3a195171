package pool

import (
	"net"
	"time"
)

// A server whose host is gone sends nothing, not even an end of file. Its connections count as
// lost after goneAfter, whether sent data or a probe went unanswered.
const (
	goneAfter     = 30 * time.Second
	probeIdle     = 10 * time.Second
	probeInterval = 5 * time.Second
)

// watchful sets up a new connection, perhaps under TLS, to notice that its server's host is gone.
func watchful(conn net.Conn) {
	if over, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = over.NetConn()
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	_ = tcp.SetNoDelay(true)
	_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{
		Enable: true, Idle: probeIdle, Interval: probeInterval, Count: int((goneAfter - probeIdle) / probeInterval),
	})
	if raw, err := tcp.SyscallConn(); err == nil {
		_ = raw.Control(boundUnsent)
	}
}
