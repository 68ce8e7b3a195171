package loop

import (
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// poller is an epoll set and a bell that wakes what waits for the set's events.
type poller struct {
	set  int
	bell int // an eventfd
}

// batch is how many events one question brings at most.
const batch = 128

// events are the answer to a question.
type events struct {
	list  [batch]unix.EpollEvent
	n, at int // how many have come, and how many of them were taken
}

// event says what has happened to a descriptor.
type event struct {
	fd   int
	mark int32
	// input and output: an attempt may succeed. ended: the peer has hung up or the socket has failed. bell: the bell was rung, and nothing else.
	input, output, ended, failed, bell bool
}

func newPoller() (poller, error) {
	set, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return poller{}, fmt.Errorf("epoll: %w", err)
	}
	p := poller{set: set}
	if p.bell, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		_ = unix.Close(set)
		return poller{}, fmt.Errorf("eventfd: %w", err)
	}
	if err := unix.EpollCtl(set, unix.EPOLL_CTL_ADD, p.bell, &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLET, Fd: int32(p.bell)}); err != nil {
		p.close()
		return poller{}, fmt.Errorf("epoll: %w", err)
	}
	return p, nil
}

func (p poller) close() {
	_ = unix.Close(p.set)
	_ = unix.Close(p.bell)
}

// add begins to watch a descriptor. Its events bear the mark. The first event says what the descriptor is ready for.
func (p poller) add(fd int, mark int32) error {
	return unix.EpollCtl(p.set, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(fd), Pad: mark,
	})
}

// remove ends what add began. A descriptor that is closed is removed by that.
func (p poller) remove(fd int) { _ = unix.EpollCtl(p.set, unix.EPOLL_CTL_DEL, fd, nil) }

// ring wakes what waits in ask.
func (p poller) ring() {
	one := uint64(1)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(p.bell), uintptr(unsafe.Pointer(&one)), 8)
}

// hush lets the bell be rung again.
func (p poller) hush() {
	var count uint64
	_, _, _ = syscall.RawSyscall(unix.SYS_READ, uintptr(p.bell), uintptr(unsafe.Pointer(&count)), 8)
}

// ask waits for events. The first attempt skips what Go does around a system call that may wait.
func (p poller) ask(e *events) {
	n, _, errno := syscall.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.set), uintptr(unsafe.Pointer(&e.list[0])), batch, 0, 0, 0)
	if errno == 0 && n == 0 {
		n, _, errno = syscall.Syscall6(unix.SYS_EPOLL_PWAIT, uintptr(p.set), uintptr(unsafe.Pointer(&e.list[0])), batch, ^uintptr(0), 0, 0)
	}
	if errno != 0 {
		n = 0 // interrupted
	}
	e.at, e.n = 0, int(n)
}

// next takes an event. It returns false if there is none.
func (e *events) next(p poller) (ev event, ok bool) {
	if e.at == e.n {
		return ev, false
	}
	raw := &e.list[e.at]
	e.at++
	failed := raw.Events&(unix.EPOLLHUP|unix.EPOLLERR) != 0
	return event{
		fd: int(raw.Fd), mark: raw.Pad,
		input:  failed || raw.Events&(unix.EPOLLIN|unix.EPOLLRDHUP) != 0,
		output: failed || raw.Events&unix.EPOLLOUT != 0,
		ended:  failed || raw.Events&unix.EPOLLRDHUP != 0,
		failed: failed,
		bell:   int(raw.Fd) == p.bell,
	}, true
}

// again is the error of an attempt that would have to wait.
const again = unix.EAGAIN

// receive and send skip what Go does around a system call that may wait: these calls do not.
func receive(fd int, b []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

func send(fd int, b []byte) (int, error) {
	for {
		n, _, e := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(b))), uintptr(len(b)), unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL, 0, 0)
		switch e {
		case 0:
			return int(n), nil
		case unix.EINTR:
		default:
			return 0, e
		}
	}
}

// copyOf returns another descriptor of the same socket.
func copyOf(fd uintptr) (int, error) { return unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }

// closeFile closes a descriptor, and closeWrite tells the peer of a socket that nothing more will come.
func closeFile(fd int)        { _ = unix.Close(fd) }
func closeWrite(fd int) error { return unix.Shutdown(fd, unix.SHUT_WR) }
