package pool

import (
	"errors"
	"io"
	"net"
	"syscall"

	"weft/pgerr"
	"weft/primary"
)

// ErrLost marks errors after which the backend's state is unknown.
var ErrLost = errors.New("connection to the shard is lost")

// Lost wraps an I/O error on the backend as the client should see it. The result is never
// io.EOF, which would tell a reader of rows that there are no more.
func (c *Conn) Lost(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return pgerr.New(pgerr.ConnectionFailure, "shard %q closed the connection unexpectedly", c.Shard()).
		WithDetail("Nothing of what it was asked to do has been kept.").
		WithHint("The server terminated or became unreachable while processing the request; weft connects again by itself.").
		WithCause(&lostError{c.Shard(), c.generation, err})
}

// lostError says which shard a lost backend belonged to, in which generation, and how it was lost.
type lostError struct {
	shard      string
	generation primary.Generation
	err        error
}

func (e *lostError) Error() string   { return ErrLost.Error() + ": " + e.err.Error() }
func (e *lostError) Unwrap() []error { return []error{ErrLost, e.err} }

// Loss is how a backend was lost.
type Loss struct {
	Shard string
	// Generation is the one of the backend's server at login. It is zero if the server was not asked.
	Generation primary.Generation
	// Gone says that the server or the network ended the connection, and that what came before was in order.
	Gone bool
	// Undone says that the server has said that it stops. It has then rolled back what it was doing.
	Undone bool
	// Unfit says that a standby could not carry out a statement that the primary can.
	Unfit bool
}

// ErrUnfit is the cause of the loss of a standby's backend that could not carry out a statement.
var ErrUnfit = errors.New("the standby cannot carry out the statement")

// LossIn returns the loss that is the cause of an error. The zero Loss: there is none.
func LossIn(err error) Loss {
	var e *lostError
	if !errors.As(err, &e) {
		return Loss{}
	}
	l := Loss{Shard: e.shard, Generation: e.generation}
	var said *pgerr.Error
	l.Undone = errors.As(e.err, &said) && said.IsFatal() && said.Code == pgerr.AdminShutdown
	var errno syscall.Errno
	l.Unfit = errors.Is(e.err, ErrUnfit)
	l.Gone = l.Undone || l.Unfit || errors.Is(e.err, io.ErrUnexpectedEOF) || errors.Is(e.err, net.ErrClosed) || errors.As(e.err, &errno)
	return l
}
