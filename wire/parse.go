package wire

import (
	"bytes"
	"encoding/binary"
	"errors"
	"strconv"
)

// ErrMalformed means a frame's body does not have the form its type demands.
var ErrMalformed = errors.New("malformed message")

// CString cuts a zero-terminated string off the front of b.
func CString(b []byte) (s, rest []byte, ok bool) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return nil, b, false
	}
	return b[:i], b[i+1:], true
}

// ParseBody is the body of a Parse message; slices point into it.
type ParseBody struct {
	Name, SQL []byte
	OIDs      []byte // count and types, as they stand on the wire
}

// DecodeParse decodes the body of a Parse message.
func DecodeParse(body []byte) (p ParseBody, err error) {
	var ok bool
	if p.Name, body, ok = CString(body); !ok {
		return p, ErrMalformed
	}
	if p.SQL, body, ok = CString(body); !ok || len(body) < 2 {
		return p, ErrMalformed
	}
	if len(body) != 2+4*int(binary.BigEndian.Uint16(body)) {
		return p, ErrMalformed
	}
	p.OIDs = body
	return p, nil
}

// BindNames returns the portal and statement names of a Bind message and what
// follows them.
func BindNames(body []byte) (portal, statement, rest []byte, ok bool) {
	if portal, rest, ok = CString(body); !ok {
		return nil, nil, nil, false
	}
	if statement, rest, ok = CString(rest); !ok {
		return nil, nil, nil, false
	}
	return portal, statement, rest, true
}

// SplitBind cuts what follows the names in a Bind into the parameters and the
// formats of the result.
func SplitBind(tail []byte) (values, formats []byte, ok bool) {
	if len(tail) < 2 {
		return nil, nil, false
	}
	at := 2 + 2*int(binary.BigEndian.Uint16(tail))
	if len(tail) < at+2 {
		return nil, nil, false
	}
	n := int(binary.BigEndian.Uint16(tail[at:]))
	at += 2
	for range n {
		if len(tail) < at+4 {
			return nil, nil, false
		}
		size := int(int32(binary.BigEndian.Uint32(tail[at:])))
		at += 4 + max(size, 0)
	}
	if len(tail) < at+2 || len(tail) != at+2+2*int(binary.BigEndian.Uint16(tail[at:])) {
		return nil, nil, false
	}
	return tail[:at], tail[at:], true
}

// DescribeName returns kind and name of a Describe or Close message.
func DescribeName(body []byte) (kind byte, name []byte, ok bool) {
	if len(body) < 2 {
		return 0, nil, false
	}
	name, rest, ok := CString(body[1:])
	return body[0], name, ok && len(rest) == 0
}

// ErrorField returns one field of an ErrorResponse's or NoticeResponse's body.
func ErrorField(body []byte, code byte) (string, bool) {
	for len(body) > 1 {
		v, rest, ok := CString(body[1:])
		if !ok {
			return "", false
		}
		if body[0] == code {
			return string(v), true
		}
		body = rest
	}
	return "", false
}

// MapError returns a copy of an ErrorResponse's body with each field passed
// through f.
func MapError(body []byte, f func(code byte, value string) string) []byte {
	out := make([]byte, 0, len(body)+16)
	for len(body) > 1 {
		v, rest, ok := CString(body[1:])
		if !ok {
			break
		}
		out = append(out, body[0])
		out = AppendCString(out, f(body[0], string(v)))
		body = rest
	}
	return append(out, 0)
}

// WithoutFields returns a copy of an ErrorResponse's body without the fields of
// these codes.
func WithoutFields(body []byte, codes ...byte) []byte {
	out := make([]byte, 0, len(body))
	for len(body) > 1 {
		v, rest, ok := CString(body[1:])
		if !ok {
			break
		}
		if bytes.IndexByte(codes, body[0]) < 0 {
			out = append(append(append(out, body[0]), v...), 0)
		}
		body = rest
	}
	return append(out, 0)
}

// DecodeParameterStatus decodes the body of a ParameterStatus.
func DecodeParameterStatus(body []byte) (name, value string, ok bool) {
	n, rest, ok := CString(body)
	if !ok {
		return "", "", false
	}
	v, _, ok := CString(rest)
	return string(n), string(v), ok
}

// DecodeNotification decodes the body of a NotificationResponse.
func DecodeNotification(body []byte) (pid int32, channel, payload string, ok bool) {
	if len(body) < 4 {
		return 0, "", "", false
	}
	pid = int32(binary.BigEndian.Uint32(body))
	c, rest, ok := CString(body[4:])
	if !ok {
		return 0, "", "", false
	}
	p, _, ok := CString(rest)
	return pid, string(c), string(p), ok
}

// ResultShape returns a copy of a RowDescription's body without what may change
// under a prepared statement: the tables its columns come from, and the
// formats.
func ResultShape(body []byte) []byte {
	out := append([]byte{}, body...)
	if len(out) < 2 {
		return out
	}
	rest := out[2:]
	for range binary.BigEndian.Uint16(out) {
		_, tail, ok := CString(rest)
		if !ok || len(tail) < 18 {
			return out
		}
		clear(tail[:6])
		clear(tail[16:18])
		rest = tail[18:]
	}
	return out
}

// DecodeRow appends the values of a DataRow to dst; nil is NULL. The values
// point into body.
func DecodeRow(dst [][]byte, body []byte) ([][]byte, error) {
	if len(body) < 2 {
		return dst, ErrMalformed
	}
	n := int(binary.BigEndian.Uint16(body))
	body = body[2:]
	for range n {
		if len(body) < 4 {
			return dst, ErrMalformed
		}
		size := int(int32(binary.BigEndian.Uint32(body)))
		body = body[4:]
		if size < 0 {
			dst = append(dst, nil)
			continue
		}
		if size > len(body) {
			return dst, ErrMalformed
		}
		dst = append(dst, body[:size:size])
		body = body[size:]
	}
	return dst, nil
}

func appendInt(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) }
