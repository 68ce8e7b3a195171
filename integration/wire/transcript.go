package wire

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"regexp"
	"sort"
	"strconv"
	"strings"
)

// messageNames are the names PostgreSQL's manual gives the messages of a server.
var messageNames = map[byte]string{
	'K': "BackendKeyData", '2': "BindComplete", '3': "CloseComplete", 'C': "CommandComplete",
	'd': "CopyData", 'c': "CopyDone", 'G': "CopyInResponse", 'H': "CopyOutResponse",
	'W': "CopyBothResponse", 'D': "DataRow", 'I': "EmptyQueryResponse", 'E': "ErrorResponse",
	'V': "FunctionCallResponse", 'v': "NegotiateProtocolVersion", 'n': "NoData",
	'N': "NoticeResponse", 'A': "NotificationResponse", 't': "ParameterDescription",
	'S': "ParameterStatus", '1': "ParseComplete", 's': "PortalSuspended",
	'Z': "ReadyForQuery", 'T': "RowDescription",
}

// Name is what `until` calls the message.
func (m Message) Name() string {
	if m.Type == 'R' {
		return authenticationName(m.Body)
	}
	if name, ok := messageNames[m.Type]; ok {
		return name
	}
	return fmt.Sprintf("Unknown(%q)", m.Type)
}

func authenticationName(body []byte) string {
	if len(body) < 4 {
		return "Authentication(truncated)"
	}
	switch kind := binary.BigEndian.Uint32(body); kind {
	case 0:
		return "AuthenticationOk"
	case 3:
		return "AuthenticationCleartextPassword"
	case 5:
		return "AuthenticationMD5Password"
	case 10:
		return "AuthenticationSASL"
	case 11:
		return "AuthenticationSASLContinue"
	case 12:
		return "AuthenticationSASLFinal"
	default:
		return fmt.Sprintf("Authentication(%d)", kind)
	}
}

// Text is the message as a transcript prints it: every field that two servers
// with the same data must agree on. Process ids, keys, salts, nonces and the
// server's version are masked; OIDs of user objects print as "user".
func (m Message) Text(self uint32) string {
	r := &reader{b: m.Body}
	var args string
	switch m.Type {
	case 'C':
		args = strconv.Quote(r.str())
	case 'D':
		args = r.row()
	case 'd':
		args = value(r.rest())
	case 'E', 'N':
		args = r.errorFields()
	case 'G', 'H', 'W':
		args = r.copyResponse()
	case 'K':
		r.uint32()
		args = fmt.Sprintf("pid=<pid> key=<%d bytes>", len(r.rest()))
	case 'R':
		args = r.authentication()
	case 'S':
		args = r.parameter()
	case 'T':
		args = r.rowDescription()
	case 't':
		args = r.parameterDescription()
	case 'V':
		args = r.value()
	case 'v':
		args = r.negotiation()
	case 'A':
		args = r.notification(self)
	case 'Z':
		args = string(r.byte())
	}
	if r.bad {
		args += " TRUNCATED"
	}
	if left := len(r.b); left > 0 {
		args += fmt.Sprintf(" TRAILING(%d bytes)", left)
	}
	if args == "" {
		return m.Name()
	}
	return m.Name() + " " + args
}

// reader takes a message apart; bad is set when it runs short.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.bad = true
		r.b = nil
		return nil
	}
	p := r.b[:n]
	r.b = r.b[n:]
	return p
}

func (r *reader) byte() byte {
	if p := r.take(1); p != nil {
		return p[0]
	}
	return '?'
}

func (r *reader) uint16() uint16 {
	if p := r.take(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}

func (r *reader) uint32() uint32 {
	if p := r.take(4); p != nil {
		return binary.BigEndian.Uint32(p)
	}
	return 0
}

func (r *reader) str() string {
	i := bytes.IndexByte(r.b, 0)
	if i < 0 {
		r.bad = true
		r.b = nil
		return ""
	}
	s := string(r.b[:i])
	r.b = r.b[i+1:]
	return s
}

func (r *reader) rest() []byte {
	p := r.b
	r.b = nil
	return p
}

// value reads a length-prefixed value.
func (r *reader) value() string {
	n := int32(r.uint32())
	if n == -1 {
		return "NULL"
	}
	return value(r.take(int(n)))
}

// value quotes a value; long ones print as length and hash.
func value(p []byte) string {
	if len(p) > 300 {
		return fmt.Sprintf("<%d bytes, sha256 %.8x>", len(p), sha256.Sum256(p))
	}
	return strconv.Quote(string(p))
}

func (r *reader) row() string {
	n := int(r.uint16())
	out := make([]string, 0, n)
	for i := 0; i < n && !r.bad; i++ {
		out = append(out, r.value())
	}
	return "[" + strings.Join(out, ", ") + "]"
}

// errorFieldOrder is the order fields print in; F and L (source file and line)
// are left out because they move with every minor release.
const errorFieldOrder = "SVCMDHPpqWstcdnR"

func (r *reader) errorFields() string {
	fields := map[byte]string{}
	for {
		k := r.byte()
		if k == 0 || r.bad {
			break
		}
		fields[k] = r.str()
	}
	var out []string
	for _, k := range []byte(errorFieldOrder) {
		v, ok := fields[k]
		delete(fields, k)
		if !ok {
			continue
		}
		switch k {
		case 'S', 'V', 'C', 'P', 'p', 'R':
			out = append(out, fmt.Sprintf("%c=%s", k, v))
		default:
			out = append(out, fmt.Sprintf("%c=%s", k, strconv.Quote(maskText(v))))
		}
	}
	delete(fields, 'F')
	delete(fields, 'L')
	var unknown []string
	for k, v := range fields {
		unknown = append(unknown, fmt.Sprintf("%c?=%q", k, v))
	}
	sort.Strings(unknown)
	return strings.Join(append(out, unknown...), " ")
}

var masks = []struct {
	re  *regexp.Regexp
	sub string
}{
	{regexp.MustCompile(`\bPID \d+`), "PID <pid>"},
	{regexp.MustCompile(`\b([Pp]rocess) \d+`), "$1 <pid>"},
	{regexp.MustCompile(`\btransaction \d+`), "transaction <xid>"},
	{regexp.MustCompile(`\b(relation|of database|tuple \(\d+,\d+\) of relation) \d{4,}`), "$1 <oid>"},
	{regexp.MustCompile(`\bpg_temp_\d+`), "pg_temp_<n>"},
}

// maskText hides what differs from run to run inside a message's text.
func maskText(s string) string {
	for _, m := range masks {
		s = m.re.ReplaceAllString(s, m.sub)
	}
	return s
}

func (r *reader) copyResponse() string {
	format := r.byte()
	n := int(r.uint16())
	columns := make([]string, 0, n)
	for i := 0; i < n && !r.bad; i++ {
		columns = append(columns, strconv.Itoa(int(int16(r.uint16()))))
	}
	return fmt.Sprintf("format=%d columns=[%s]", format, strings.Join(columns, " "))
}

func (r *reader) authentication() string {
	switch r.uint32() {
	case 10:
		var names []string
		for len(r.b) > 0 {
			s := r.str()
			if s == "" {
				break
			}
			names = append(names, s)
		}
		return strings.Join(names, " ")
	case 5:
		r.take(4)
		return "<salt>"
	case 11, 12:
		r.rest()
		return "<challenge>"
	}
	return ""
}

func (r *reader) parameter() string {
	name, v := r.str(), r.str()
	if name == "server_version" {
		v = "<version>"
	}
	return fmt.Sprintf("%s=%s", name, strconv.Quote(v))
}

// oid prints an OID that PostgreSQL itself assigns, and hides the others.
func oid(v uint32) string {
	if v >= 16384 {
		return "user"
	}
	return strconv.FormatUint(uint64(v), 10)
}

func (r *reader) rowDescription() string {
	n := int(r.uint16())
	out := make([]string, 0, n)
	for i := 0; i < n && !r.bad; i++ {
		name := r.str()
		table, attr, typ := r.uint32(), int16(r.uint16()), r.uint32()
		size, mod, format := int16(r.uint16()), int32(r.uint32()), int16(r.uint16())
		from := ""
		if table != 0 {
			from = fmt.Sprintf(" table=%s attr=%d", oid(table), attr)
		} else if attr != 0 {
			from = fmt.Sprintf(" attr=%d", attr)
		}
		out = append(out, fmt.Sprintf("{%q%s type=%s len=%d mod=%d format=%d}", name, from, oid(typ), size, mod, format))
	}
	return strings.Join(out, " ")
}

func (r *reader) parameterDescription() string {
	n := int(r.uint16())
	out := make([]string, 0, n)
	for i := 0; i < n && !r.bad; i++ {
		out = append(out, oid(r.uint32()))
	}
	return "[" + strings.Join(out, " ") + "]"
}

func (r *reader) negotiation() string {
	version := r.uint32()
	n := int(r.uint32())
	var names []string
	for i := 0; i < n && !r.bad; i++ {
		names = append(names, strconv.Quote(r.str()))
	}
	// The manual says the newest minor version; servers before 18 send both halves.
	return fmt.Sprintf("version=%d.%d unknown=[%s]", version>>16, version&0xffff, strings.Join(names, " "))
}

func (r *reader) notification(self uint32) string {
	from := "other"
	if r.uint32() == self {
		from = "self"
	}
	channel, payload := r.str(), r.str()
	return fmt.Sprintf("from=%s channel=%q payload=%s", from, channel, value([]byte(payload)))
}
