package wire

import (
	"encoding/binary"

	"weft/pgerr"
)

// The Append functions add one whole frame to b and return the longer slice.

// Begin starts a frame of the given type; End closes it. Between them the
// caller appends the body.
func Begin(b []byte, typ byte) (frame []byte, start int) {
	return append(b, typ, 0, 0, 0, 0), len(b)
}

// End writes the length of the frame that Begin started at start.
func End(b []byte, start int) []byte {
	binary.BigEndian.PutUint32(b[start+1:], uint32(len(b)-start-1))
	return b
}

// EndLong is End for a frame of which more bytes will follow separately.
func EndLong(b []byte, start, more int) {
	binary.BigEndian.PutUint32(b[start+1:], uint32(len(b)-start-1+more))
}

// AppendEmpty adds a frame without a body, such as Sync or ParseComplete.
func AppendEmpty(b []byte, typ byte) []byte { return append(b, typ, 0, 0, 0, 4) }

// AppendFrame adds a frame with the given body.
func AppendFrame(b []byte, typ byte, body []byte) []byte {
	b = append(b, typ)
	b = binary.BigEndian.AppendUint32(b, uint32(len(body)+4))
	return append(b, body...)
}

// AppendCString adds s and its terminating zero.
func AppendCString(b []byte, s string) []byte { return append(append(b, s...), 0) }

// AppendQuery adds a simple query.
func AppendQuery(b []byte, sql string) []byte {
	b, at := Begin(b, Query)
	return End(AppendCString(b, sql), at)
}

// AppendParse adds a Parse; oids is the body's tail as the client sent it: the
// number of parameter types and the types.
func AppendParse(b []byte, name, sql string, oids []byte) []byte {
	b, at := Begin(b, Parse)
	b = AppendCString(b, name)
	b = AppendCString(b, sql)
	if len(oids) == 0 {
		b = append(b, 0, 0)
	}
	return End(append(b, oids...), at)
}

// AppendCall adds a Parse, a Bind and an Execute of the unnamed statement, with parameters
// in text format and a result of that. A Sync has to follow. Two statements in one text are
// an error, and whoever may see the text of a statement does not see the parameters.
func AppendCall(b []byte, sql string, args ...string) []byte {
	b = AppendParse(b, "", sql, nil)
	b, at := Begin(b, Bind)
	b = append(b, 0, 0, 0, 0) // both unnamed, all formats text
	b = binary.BigEndian.AppendUint16(b, uint16(len(args)))
	for _, a := range args {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(a))), a...)
	}
	b = End(append(b, 0, 0), at)
	b, at = Begin(b, Execute)
	return End(append(b, 0, 0, 0, 0, 0), at)
}

// AppendDescribe adds a Describe of a statement ('S') or portal ('P').
func AppendDescribe(b []byte, kind byte, name string) []byte {
	b, at := Begin(b, Describe)
	return End(AppendCString(append(b, kind), name), at)
}

// AppendClose adds a Close of a statement ('S') or portal ('P').
func AppendClose(b []byte, kind byte, name string) []byte {
	b, at := Begin(b, Close)
	return End(AppendCString(append(b, kind), name), at)
}

// AppendReadyForQuery adds a ReadyForQuery with the transaction state.
func AppendReadyForQuery(b []byte, status byte) []byte {
	return append(b, ReadyForQuery, 0, 0, 0, 5, status)
}

// AppendParameterStatus adds a ParameterStatus.
func AppendParameterStatus(b []byte, name, value string) []byte {
	b, at := Begin(b, ParameterStatus)
	return End(AppendCString(AppendCString(b, name), value), at)
}

// AppendBackendKeyData adds the key a client later sends to cancel.
func AppendBackendKeyData(b []byte, pid int32, secret []byte) []byte {
	b, at := Begin(b, BackendKeyData)
	b = binary.BigEndian.AppendUint32(b, uint32(pid))
	return End(append(b, secret...), at)
}

// AppendAuthentication adds an Authentication message with the given body.
func AppendAuthentication(b, body []byte) []byte { return AppendFrame(b, Authentication, body) }

// AppendAuthenticationOk adds AuthenticationOk.
func AppendAuthenticationOk(b []byte) []byte {
	return append(b, Authentication, 0, 0, 0, 8, 0, 0, 0, 0)
}

// AppendNegotiateProtocolVersion tells a client that asked for more which
// minor version it gets and which options were not recognised.
func AppendNegotiateProtocolVersion(b []byte, version uint32, unrecognized []string) []byte {
	b, at := Begin(b, NegotiateProtocolVersion)
	b = binary.BigEndian.AppendUint32(b, version)
	b = binary.BigEndian.AppendUint32(b, uint32(len(unrecognized)))
	for _, o := range unrecognized {
		b = AppendCString(b, o)
	}
	return End(b, at)
}

// AppendNotification adds a NotificationResponse.
func AppendNotification(b []byte, pid int32, channel, payload string) []byte {
	b, at := Begin(b, NotificationResponse)
	b = binary.BigEndian.AppendUint32(b, uint32(pid))
	return End(AppendCString(AppendCString(b, channel), payload), at)
}

// AppendCommandComplete adds a CommandComplete with the given tag.
func AppendCommandComplete(b []byte, tag string) []byte {
	b, at := Begin(b, CommandComplete)
	return End(AppendCString(b, tag), at)
}

// AppendError adds e as an ErrorResponse, or as a NoticeResponse if that is
// its severity.
func AppendError(b []byte, e *pgerr.Error) []byte {
	severity := e.Severity
	if severity == "" {
		severity = pgerr.SeverityError
	}
	typ := byte(ErrorResponse)
	switch severity {
	case pgerr.SeverityNotice, pgerr.SeverityWarning, "INFO", "LOG", "DEBUG":
		typ = NoticeResponse
	}
	b, at := Begin(b, typ)
	field := func(code byte, v string) {
		if v != "" {
			b = AppendCString(append(b, code), v)
		}
	}
	field('S', string(severity))
	field('V', string(severity))
	field('C', e.Code)
	field('M', e.Message)
	field('D', e.Detail)
	field('H', e.Hint)
	if e.Position > 0 {
		b = appendInt(append(b, 'P'), e.Position)
		b = append(b, 0)
	}
	field('W', e.Where)
	field('s', e.Schema)
	field('t', e.Table)
	field('c', e.Column)
	field('d', e.Type)
	field('n', e.Constraint)
	field('F', e.File)
	if e.Line > 0 {
		b = appendInt(append(b, 'L'), e.Line)
		b = append(b, 0)
	}
	field('R', e.Routine)
	return End(append(b, 0), at)
}

// Column is one column of a RowDescription that weft itself makes.
type Column struct {
	Name   string
	OID    uint32
	Size   int16
	Format int16
}

// AppendRowDescription adds the description of text columns of weft's own
// results.
func AppendRowDescription(b []byte, cols []Column) []byte {
	b, at := Begin(b, RowDescription)
	b = binary.BigEndian.AppendUint16(b, uint16(len(cols)))
	for _, c := range cols {
		b = AppendCString(b, c.Name)
		b = append(b, 0, 0, 0, 0, 0, 0)
		b = binary.BigEndian.AppendUint32(b, c.OID)
		b = binary.BigEndian.AppendUint16(b, uint16(c.Size))
		b = append(b, 0xff, 0xff, 0xff, 0xff)
		b = binary.BigEndian.AppendUint16(b, uint16(c.Format))
	}
	return End(b, at)
}

// AppendTextRow adds a DataRow of text values; nil is NULL.
func AppendTextRow(b []byte, values []*string) []byte {
	b, at := Begin(b, DataRow)
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(*v)))
		b = append(b, *v...)
	}
	return End(b, at)
}

// FewerParameters returns the body of a ParameterDescription without its last
// n parameters.
func FewerParameters(body []byte, n int) []byte {
	if len(body) < 2 {
		return body
	}
	have := int(binary.BigEndian.Uint16(body))
	if n > have || len(body) != 2+4*have {
		return body
	}
	return append(binary.BigEndian.AppendUint16(nil, uint16(have-n)), body[2:len(body)-4*n]...)
}
