//go:build !linux

package loop

import (
	"errors"
	"syscall"
)

// poller does not exist on this system: New fails, and none of the functions below is called.
type poller struct{}

type events struct{}

type event struct {
	fd                                 int
	mark                               int32
	input, output, ended, failed, bell bool
}

func newPoller() (poller, error) { return poller{}, errors.ErrUnsupported }

func (poller) close()                     {}
func (poller) add(int, int32) error       { return errors.ErrUnsupported }
func (poller) remove(int)                 {}
func (poller) ring()                      {}
func (poller) hush()                      {}
func (poller) ask(*events)                {}
func (*events) next(poller) (event, bool) { return event{}, false }
func receive(int, []byte) (int, error)    { return 0, errors.ErrUnsupported }
func send(int, []byte) (int, error)       { return 0, errors.ErrUnsupported }
func copyOf(uintptr) (int, error)         { return -1, errors.ErrUnsupported }
func closeFile(int)                       {}
func closeWrite(int) error                { return errors.ErrUnsupported }

const again = syscall.EAGAIN
