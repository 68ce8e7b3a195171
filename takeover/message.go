package takeover

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// protocol is the number of the dialogue. A process refuses another number.
const protocol = 1

// message is a line of the dialogue between two processes.
type message struct {
	// Protocol and PID are the new process's first words, PID also the old one's answer.
	Protocol int `json:"protocol,omitempty"`
	PID      int `json:"pid,omitempty"`
	// Refused says why there is no takeover.
	Refused string `json:"refused,omitempty"`
	// Ending: it is refused because the old process is about to end.
	Ending bool `json:"ending,omitempty"`
	// Sockets are what the descriptors are that come with this message, in their order.
	Sockets []label `json:"sockets,omitempty"`
	// Ready: the new process accepts clients. Done: the old one accepts no more.
	Ready bool `json:"ready,omitempty"`
	Done  bool `json:"done,omitempty"`
}

// label says what a descriptor is.
type label struct {
	Name string `json:"name"`
	// Address is what the configuration calls the address.
	Address string `json:"address,omitempty"`
}

const (
	// maxMessage and maxRights bound a message and the descriptors that come with it.
	maxMessage = 4 << 10
	maxRights  = 16
)

// send writes a message, with descriptors, which stay the caller's.
func send(c *net.UnixConn, m message, fds ...int) error {
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	_, _, err = c.WriteMsgUnix(append(text, '\n'), rights, nil)
	return err
}

// receive reads a message and its descriptors, which are the caller's.
func receive(c *net.UnixConn) (m message, files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
			files = nil
		}
	}()
	var text []byte
	for !bytes.HasSuffix(text, []byte("\n")) {
		buf, oob := make([]byte, maxMessage), make([]byte, unix.CmsgSpace(4*maxRights))
		n, oobn, _, _, err := c.ReadMsgUnix(buf, oob)
		if err != nil {
			return m, files, err
		}
		more, err := rights(oob[:oobn])
		files = append(files, more...)
		if err != nil {
			return m, files, err
		}
		if n == 0 {
			return m, files, io.EOF
		}
		if text = append(text, buf[:n]...); len(text) > maxMessage {
			return m, files, errors.New("a message that is too long")
		}
	}
	return m, files, json.Unmarshal(text, &m)
}

// rights returns the descriptors of a control message.
func rights(oob []byte) (files []*os.File, err error) {
	if len(oob) == 0 {
		return nil, nil
	}
	list, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("descriptors: %w", err)
	}
	for i := range list {
		fds, err := syscall.ParseUnixRights(&list[i])
		if err != nil {
			return files, fmt.Errorf("descriptors: %w", err)
		}
		for _, fd := range fds {
			unix.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "handed over"))
		}
	}
	return files, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close()
	}
}

// within sets the time by which the next messages have to be there.
func within(c net.Conn, d time.Duration) { _ = c.SetDeadline(time.Now().Add(d)) }

// isRefused reports whether there is a socket, and no process that listens.
func isRefused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
