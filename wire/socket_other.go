//go:build !linux

package wire

import "golang.org/x/sys/unix"

// recv and send read from and write to a socket that does not make the thread wait.

func recv(fd int, p []byte) (n int, err error) {
	for {
		if n, err = unix.Read(fd, p); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

func send(fd int, p []byte) (n int, err error) {
	for {
		if n, err = unix.Write(fd, p); err != unix.EINTR {
			return max(n, 0), err
		}
	}
}

// peek returns the error, nil for none, that recv would return. The bytes stay in the socket.
func peek(fd int, p []byte) (err error) {
	for {
		if _, _, err = unix.Recvfrom(fd, p, unix.MSG_PEEK); err != unix.EINTR {
			return err
		}
	}
}
