package takeover

import (
	"fmt"
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// checkPeer fails unless the process at the other end is of this process's user, or of root.
func checkPeer(c *net.UnixConn) error {
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var cred *unix.Ucred
	var failed error
	if err := raw.Control(func(fd uintptr) { cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("ask who is at the other end: %w", failed)
	}
	if uid := os.Geteuid(); int(cred.Uid) != uid && cred.Uid != 0 {
		return fmt.Errorf("process %d is of user %d, not of user %d", cred.Pid, cred.Uid, uid)
	}
	return nil
}
