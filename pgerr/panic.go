package pgerr

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// Panic is a bug of weft's that a goroutine ran into, with the stack of that
// goroutine.
type Panic struct {
	Value any
	Stack []byte
}

// Error implements error.
func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Recovered makes an error of a panic. A goroutine whose error another one waits for
// defers it; whoever tells the error to a client finds the panic in it with
// PanicIn.
func Recovered(err *error) {
	if r := recover(); r != nil {
		*err = FromPanic(r, debug.Stack())
	}
}

// FromPanic returns the error that ends the session of whoever ran into a panic.
func FromPanic(value any, stack []byte) *Error {
	return Fatal(InternalError, "internal error").WithCause(&Panic{Value: value, Stack: stack})
}

// Raise panics again where an error comes from a panic: for who waits for another goroutine and
// can tell its error to nobody.
func Raise(err error) {
	if p := PanicIn(err); p != nil {
		panic(p)
	}
}

// PanicIn returns the panic that an error comes from, nil if it comes from none.
func PanicIn(err error) *Panic {
	var p *Panic
	if errors.As(err, &p) {
		return p
	}
	return nil
}
