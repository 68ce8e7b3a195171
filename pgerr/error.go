package pgerr

import (
	"errors"
	"fmt"
)

// Severity is the S and V field of an ErrorResponse. PostgreSQL translates S
// with lc_messages; weft speaks English in both.
type Severity string

// The severities weft itself sends.
const (
	SeverityError   Severity = "ERROR"
	SeverityFatal   Severity = "FATAL"
	SeverityWarning Severity = "WARNING"
	SeverityNotice  Severity = "NOTICE"
)

// Error is an error with the fields a PostgreSQL client understands.
type Error struct {
	Severity Severity // empty means ERROR
	Code     string   // SQLSTATE
	Message  string
	Detail   string
	Hint     string
	Position int // 1-based character offset into the client's text; 0 means none
	// Where is the context: one line for each level of what was being done.
	Where string
	// Schema, Table, Column, Type and Constraint name what it is about.
	Schema, Table, Column, Type, Constraint string

	// Where PostgreSQL raised it; set when an error is handed on from a shard
	// or worded exactly as PostgreSQL does.
	File    string
	Line    int
	Routine string

	cause error
}

// New returns an ERROR with the given SQLSTATE.
func New(code, format string, args ...any) *Error {
	return &Error{Severity: SeverityError, Code: code, Message: fmt.Sprintf(format, args...)}
}

// Fatal returns a FATAL: the session ends after it has been sent.
func Fatal(code, format string, args ...any) *Error {
	return &Error{Severity: SeverityFatal, Code: code, Message: fmt.Sprintf(format, args...)}
}

// WithDetail returns e with its detail set.
func (e *Error) WithDetail(format string, args ...any) *Error {
	e.Detail = fmt.Sprintf(format, args...)
	return e
}

// WithHint returns e with its hint set.
func (e *Error) WithHint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// WithCause keeps err for the log and for errors.Is; the client never sees it.
func (e *Error) WithCause(err error) *Error {
	e.cause = err
	return e
}

// Error implements error.
func (e *Error) Error() string {
	return string(e.Severity) + ": " + e.Message + " (SQLSTATE " + e.Code + ")"
}

// Unwrap returns the cause given to WithCause.
func (e *Error) Unwrap() error { return e.cause }

// IsFatal reports whether the session ends after this error.
func (e *Error) IsFatal() bool { return e.Severity == SeverityFatal }

// MayPass reports whether an error says that a server is down, busy or in another's hands, so that the
// same attempt may succeed later.
func MayPass(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case ConnectionException, ConnectionDoesNotExist, ConnectionFailure, "08001", "08004", AdminShutdown, "57P02", CannotConnectNow,
		InsufficientResources, TooManyConnections, SerializationFailure, DeadlockDetected, LockNotAvailable, ObjectInUse:
		return true
	}
	return false
}

// From returns err as an *Error: itself if it is one, else an internal error
// that names nothing but the message.
func From(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return New(InternalError, "%s", err.Error()).WithCause(err)
}
