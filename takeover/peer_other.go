//go:build !linux

package takeover

import "net"

// checkPeer relies on the modes of the directory and of the socket, which let no other user in.
func checkPeer(*net.UnixConn) error { return nil }
