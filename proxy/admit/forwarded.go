package admit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// A load balancer that passes connections on may say for whom, in a header before all
// else (the PROXY protocol, versions 1 and 2). It is believed if the balancer's
// own address is one that weft.yaml names. From there a connection without a header
// is what it seems to be: another proxy's, or a health check's.

// forwardedConn is a client's connection through a load balancer.
type forwardedConn struct {
	tcpConn // for its methods, those of the system's descriptor included
	client  net.Addr
}

// tcpConn is a TCP connection.
type tcpConn interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// NetConn returns the connection to the balancer.
func (c *forwardedConn) NetConn() net.Conn { return c.tcpConn }

// RemoteAddr implements net.Conn: the client's own address.
func (c *forwardedConn) RemoteAddr() net.Addr { return c.client }

// forwarded reads the header that one of the load balancers has put before what the
// client says, if there is one. It reads no byte more.
func forwarded(conn net.Conn, balancers []netip.Prefix) (net.Conn, error) {
	tcp, ok := conn.(tcpConn)
	if !ok || len(balancers) == 0 || !within(balancers, conn.RemoteAddr()) {
		return conn, nil
	}
	first, err := peek(tcp)
	if err != nil {
		return nil, err
	}
	var client net.Addr
	switch first {
	case proxyV1[0]:
		client, err = readV1(tcp)
	case proxyV2[0]:
		client, err = readV2(tcp)
	default:
		return conn, nil
	}
	if err != nil {
		return nil, fmt.Errorf("PROXY header: %w", err)
	}
	if client == nil { // the balancer speaks for itself
		return conn, nil
	}
	return &forwardedConn{tcp, client}, nil
}

func within(networks []netip.Prefix, a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	if !ok {
		return false
	}
	addr := tcp.AddrPort().Addr().Unmap().WithZone("")
	return slices.ContainsFunc(networks, func(p netip.Prefix) bool { return p.Contains(addr) })
}

// peek returns the first byte that has come, and leaves it there.
func peek(conn tcpConn) (byte, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var b [1]byte
	var n int
	var failed error
	err = raw.Read(func(fd uintptr) bool {
		n, _, failed = syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return !errors.Is(failed, syscall.EAGAIN) && !errors.Is(failed, syscall.EINTR)
	})
	switch {
	case err != nil:
		return 0, err
	case failed != nil:
		return 0, failed
	case n == 0:
		return 0, io.EOF
	}
	return b[0], nil
}

const (
	proxyV1 = "PROXY "
	proxyV2 = "\r\n\r\n\x00\r\nQUIT\n"

	maxV1 = 107  // with its end of line
	maxV2 = 4096 // of addresses and what else it says
)

var errHeader = errors.New("it is malformed")

// readV1 reads a line such as "PROXY TCP4 192.0.2.1 192.0.2.9 40000 6432". It reads
// byte by byte: what follows is the client's.
func readV1(r io.Reader) (net.Addr, error) {
	line := make([]byte, 0, maxV1)
	for !bytes.HasSuffix(line, []byte("\r\n")) {
		if len(line) == maxV1 {
			return nil, errHeader
		}
		if _, err := io.ReadFull(r, line[len(line):len(line)+1]); err != nil {
			return nil, err
		}
		line = line[:len(line)+1]
	}
	words := strings.Split(string(line[:len(line)-2]), " ")
	if len(words) >= 2 && words[0] == "PROXY" && words[1] == "UNKNOWN" {
		return nil, nil
	}
	if len(words) != 6 || words[0] != "PROXY" {
		return nil, errHeader
	}
	addr, err := netip.ParseAddr(words[2])
	port, err2 := strconv.ParseUint(words[4], 10, 16)
	if err != nil || err2 != nil || addr.Zone() != "" || words[1] != map[bool]string{true: "TCP4", false: "TCP6"}[addr.Is4()] {
		return nil, errHeader
	}
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(addr, uint16(port))), nil
}

// readV2 reads the binary form.
func readV2(r io.Reader) (net.Addr, error) {
	var head [16]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(head[14:]))
	if string(head[:12]) != proxyV2 || head[12]>>4 != 2 || n > maxV2 {
		return nil, errHeader
	}
	rest := make([]byte, n)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil, err
	}
	const (
		local, forwarded = 0, 1
		tcp4, tcp6       = 0x11, 0x21
	)
	command, family := head[12]&0xf, head[13]
	switch {
	case command == local:
		return nil, nil
	case command != forwarded:
		return nil, errHeader
	case family == tcp4 && n >= 12:
		return tcpAddr(netip.AddrFrom4([4]byte(rest)), rest[8:]), nil
	case family == tcp6 && n >= 36:
		return tcpAddr(netip.AddrFrom16([16]byte(rest)).Unmap(), rest[32:]), nil
	case family == tcp4 || family == tcp6:
		return nil, errHeader
	}
	return nil, nil // no address that a rule could be about
}

func tcpAddr(a netip.Addr, port []byte) net.Addr {
	return net.TCPAddrFromAddrPort(netip.AddrPortFrom(a, binary.BigEndian.Uint16(port)))
}
