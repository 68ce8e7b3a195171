package pgserver

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
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
// if a server can listen there now.
func CheckPort(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err == nil {
		return l.Close()
	}
	if !errors.Is(err, syscall.EADDRINUSE) {
		return err
	}
	return PortInUse(addr)
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
