package pgserver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"
)

// PortError says that an address is taken, and by whom if that can be seen.
type PortError struct {
	Addr    string
	PID     int    // 0 if unknown
	Command string // the program's name, empty if unknown
}

// Error implements error.
func (e *PortError) Error() string {
	switch {
	case e.PID == 0:
		return "address " + e.Addr + " is in use by another process"
	default:
		return fmt.Sprintf("address %s is in use by process %d (%s)", e.Addr, e.PID, e.Command)
	}
}

// CheckPort returns a *PortError if something listens on a TCP address, and nil
// if nothing does.
//
// It asks by connecting. To listen there for a moment would tell more, but a
// program that another goroutine starts in that moment holds the socket until it
// has been executed, and whoever binds the port next finds it taken.
func CheckPort(addr string) error {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return nil
	}
	if err == nil {
		_ = conn.Close() // nothing was sent
	}
	return PortInUse(addr) // also when a full queue kept us from connecting
}

// PortInUse returns the error for an address that turned out to be taken.
func PortInUse(addr string) *PortError {
	e := &PortError{Addr: addr}
	if _, text, err := net.SplitHostPort(addr); err == nil {
		if port, err := strconv.Atoi(text); err == nil {
			e.PID, e.Command = listener(port)
		}
	}
	return e
}
