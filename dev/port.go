package dev

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"

	"weft/pgserver"
)

// choosePorts refuses ports that are asked for twice, and finds one for etcd. It
// keeps that of the last run, which other proxies know from weft.yaml, unless
// somebody else has taken it meanwhile.
func (c *cluster) choosePorts() error {
	used := map[int]string{}
	for i := range c.state.Shards {
		for k := range c.state.servers() {
			used[c.state.port(i, k)] = serverName(i, k)
		}
	}
	for _, a := range []struct{ flag, addr string }{{"--listen", c.opts.Listen}, {"--http", c.opts.HTTP}} {
		port := portOf(a.addr)
		if who, twice := used[port]; twice {
			return fmt.Errorf("port %d is asked for by %s and %s: choose others with --port-base, --listen and --http", port, a.flag, who)
		}
		if port != 0 {
			used[port] = a.flag
		}
	}
	port := c.state.EtcdPort
	for used[port] != "" || port == 0 || pgserver.CheckPort(loopback(port)) != nil {
		var err error
		if port, err = pgserver.FreePort(); err != nil {
			return err
		}
	}
	c.state.EtcdPort = port
	return nil
}

// portOf is the port of a validated address.
func portOf(addr string) int {
	_, text, _ := net.SplitHostPort(addr)
	port, _ := strconv.Atoi(text)
	return port
}

func loopback(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// listen listens, or says who does and which flag helps.
func listen(addr, flag string) (net.Listener, error) {
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, taken(addr, flag)
	}
	return l, err
}

func checkPort(addr, flag string) error {
	l, err := listen(addr, flag)
	if err != nil {
		return err
	}
	return l.Close()
}

func taken(addr, flag string) error {
	return fmt.Errorf("%w: stop that, or choose another with %s", pgserver.PortInUse(addr), flag)
}
