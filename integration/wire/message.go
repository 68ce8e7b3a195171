package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// encodeLine turns one line of a script into bytes, and tells how many
// ReadyForQuery the server will answer it with.
//
//	Query select 1                   the rest of the line, or a "JSON string"
//	Parse {"Name":"s","Query":"select $1","Types":[23]}
//	Bind {"Portal":"p","Statement":"s","Params":["1",null,{"hex":"00"}],"Formats":[1],"Results":[1]}
//	Describe S s                     Close S s; P for portals
//	Execute {"Portal":"p","MaxRows":2}
//	Sync, Flush, Terminate, CopyDone
//	CopyData "a\tb\n"                CopyData {"hex":"ff"}; CopyFail "why"
//	FunctionCall {"OID":1598,"Formats":[0],"Args":["1"],"Result":0}
//	Password "x"                     also SASLResponse and friends as bytes
//	SSLRequest, GSSENCRequest
//	Startup {"Protocol":"3.0","Params":["user","x"],"Raw":"…"}
//	Frame Q "select 1" 00            a type byte, a right length, this body
//	Raw 51 00000004 "text"           exactly these bytes
func encodeLine(line string) (p []byte, ready int, err error) {
	name, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
	rest = strings.TrimSpace(rest)
	enc, ok := encoders[name]
	if !ok {
		return nil, 0, fmt.Errorf("unknown message %q", name)
	}
	p, err = enc(rest)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", line, err)
	}
	// By type byte, so that a Frame of type Q counts like a Query.
	if name != "Raw" && name != "Startup" && len(p) > 0 && bytes.IndexByte([]byte("QSF"), p[0]) >= 0 {
		ready = 1
	}
	return p, ready, nil
}

var encoders = map[string]func(rest string) ([]byte, error){
	"Query":         encodeQuery,
	"Parse":         encodeParse,
	"Bind":          encodeBind,
	"Describe":      func(rest string) ([]byte, error) { return encodeTarget('D', rest) },
	"Close":         func(rest string) ([]byte, error) { return encodeTarget('C', rest) },
	"Execute":       encodeExecute,
	"Sync":          func(string) ([]byte, error) { return frame('S', nil), nil },
	"Flush":         func(string) ([]byte, error) { return frame('H', nil), nil },
	"Terminate":     func(string) ([]byte, error) { return frame('X', nil), nil },
	"CopyDone":      func(string) ([]byte, error) { return frame('c', nil), nil },
	"CopyData":      func(rest string) ([]byte, error) { return encodeBytes('d', rest, false) },
	"CopyFail":      func(rest string) ([]byte, error) { return encodeBytes('f', rest, true) },
	"Password":      func(rest string) ([]byte, error) { return encodeBytes('p', rest, true) },
	"FunctionCall":  encodeFunctionCall,
	"SSLRequest":    func(string) ([]byte, error) { return requestCode(80877103), nil },
	"GSSENCRequest": func(string) ([]byte, error) { return requestCode(80877104), nil },
	"Startup":       encodeStartupLine,
	"Frame":         encodeFrame,
	"Raw":           encodeRaw,
}

// frame wraps body as a message of type typ.
func frame(typ byte, body []byte) []byte {
	p := append(make([]byte, 0, len(body)+5), typ)
	p = binary.BigEndian.AppendUint32(p, uint32(len(body)+4))
	return append(p, body...)
}

func requestCode(code uint32) []byte {
	return binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), code)
}

// blob is a value in a script: a JSON string, {"hex":"…"}, or {"repeat":"x","times":n}.
type blob []byte

// UnmarshalJSON implements json.Unmarshaler.
func (b *blob) UnmarshalJSON(p []byte) error {
	if len(p) > 0 && p[0] == '"' {
		var s string
		if err := json.Unmarshal(p, &s); err != nil {
			return err
		}
		*b = blob(s)
		return nil
	}
	var v struct {
		Hex    string
		Repeat string
		Times  int
	}
	if err := strict(string(p), &v); err != nil {
		return err
	}
	if v.Times > 0 {
		*b = blob(strings.Repeat(v.Repeat, v.Times))
		return nil
	}
	raw, err := hex.DecodeString(v.Hex)
	*b = raw
	return err
}

// strict decodes JSON and refuses keys that do not exist, so that a typo in a
// script is not a silently different test.
func strict(text string, v any) error {
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return fmt.Errorf("text after the JSON value")
	}
	return nil
}

func encodeQuery(rest string) ([]byte, error) {
	return encodeBytes('Q', rest, true)
}

// encodeBytes takes the rest of the line as it is, unless it is a JSON string
// or object.
func encodeBytes(typ byte, rest string, zero bool) ([]byte, error) {
	b := blob(rest)
	if strings.HasPrefix(rest, `"`) || strings.HasPrefix(rest, "{") {
		if err := json.Unmarshal([]byte(rest), &b); err != nil {
			return nil, err
		}
	}
	if zero {
		b = append(b, 0)
	}
	return frame(typ, b), nil
}

func encodeParse(rest string) ([]byte, error) {
	var v struct {
		Name, Query blob
		Types       []uint32
	}
	if err := strict(rest, &v); err != nil {
		return nil, err
	}
	var b []byte
	b = append(append(b, v.Name...), 0)
	b = append(append(b, v.Query...), 0)
	b = binary.BigEndian.AppendUint16(b, uint16(len(v.Types)))
	for _, t := range v.Types {
		b = binary.BigEndian.AppendUint32(b, t)
	}
	return frame('P', b), nil
}

func encodeBind(rest string) ([]byte, error) {
	var v struct {
		Portal, Statement blob
		Params            []*blob
		Formats, Results  []int16
	}
	if rest == "" {
		rest = "{}"
	}
	if err := strict(rest, &v); err != nil {
		return nil, err
	}
	var b []byte
	b = append(append(b, v.Portal...), 0)
	b = append(append(b, v.Statement...), 0)
	b = appendFormats(b, v.Formats)
	b = appendValues(b, v.Params)
	b = appendFormats(b, v.Results)
	return frame('B', b), nil
}

func appendFormats(b []byte, formats []int16) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(formats)))
	for _, f := range formats {
		b = binary.BigEndian.AppendUint16(b, uint16(f))
	}
	return b
}

func appendValues(b []byte, values []*blob) []byte {
	b = binary.BigEndian.AppendUint16(b, uint16(len(values)))
	for _, v := range values {
		if v == nil {
			b = binary.BigEndian.AppendUint32(b, 0xffffffff)
			continue
		}
		b = binary.BigEndian.AppendUint32(b, uint32(len(*v)))
		b = append(b, *v...)
	}
	return b
}

// encodeTarget encodes Describe and Close: "S name" or "P name", where the
// name may be missing.
func encodeTarget(typ byte, rest string) ([]byte, error) {
	kind, name, _ := strings.Cut(rest, " ")
	if len(kind) != 1 {
		return nil, fmt.Errorf("want one letter for the kind, have %q", kind)
	}
	return frame(typ, append([]byte(kind+name), 0)), nil
}

func encodeExecute(rest string) ([]byte, error) {
	var v struct {
		Portal  blob
		MaxRows int32
	}
	if rest == "" {
		rest = "{}"
	}
	if err := strict(rest, &v); err != nil {
		return nil, err
	}
	b := append(append([]byte(nil), v.Portal...), 0)
	return frame('E', binary.BigEndian.AppendUint32(b, uint32(v.MaxRows))), nil
}

func encodeFunctionCall(rest string) ([]byte, error) {
	var v struct {
		OID     uint32
		Formats []int16
		Args    []*blob
		Result  int16
	}
	if err := strict(rest, &v); err != nil {
		return nil, err
	}
	b := binary.BigEndian.AppendUint32(nil, v.OID)
	b = appendFormats(b, v.Formats)
	b = appendValues(b, v.Args)
	return frame('F', binary.BigEndian.AppendUint16(b, uint16(v.Result))), nil
}

func encodeStartupLine(rest string) ([]byte, error) {
	v := struct {
		Protocol string
		Params   []string
	}{Protocol: "3.0"}
	if rest != "" {
		if err := strict(rest, &v); err != nil {
			return nil, err
		}
	}
	return encodeStartup(v.Protocol, v.Params)
}

// encodeStartup builds a StartupMessage; params are names and values in turn.
func encodeStartup(protocol string, params []string) ([]byte, error) {
	major, minor, _ := strings.Cut(protocol, ".")
	hi, err := strconv.ParseUint(major, 10, 16)
	if err != nil {
		return nil, err
	}
	lo, err := strconv.ParseUint(minor, 10, 16)
	if err != nil {
		return nil, err
	}
	body := binary.BigEndian.AppendUint32(nil, uint32(hi)<<16|uint32(lo))
	for _, s := range params {
		body = append(append(body, s...), 0)
	}
	body = append(body, 0)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body)+4)), body...), nil
}

func encodeFrame(rest string) ([]byte, error) {
	typ, rest, _ := strings.Cut(rest, " ")
	if len(typ) != 1 {
		return nil, fmt.Errorf("want one type letter, have %q", typ)
	}
	body, err := encodeRaw(rest)
	return frame(typ[0], body), err
}

// encodeRaw reads hex digits and quoted strings, separated by spaces.
func encodeRaw(rest string) ([]byte, error) {
	var out bytes.Buffer
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		if rest[0] == '"' {
			q, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, err
			}
			s, err := strconv.Unquote(q)
			if err != nil {
				return nil, err
			}
			out.WriteString(s)
			rest = rest[len(q):]
			continue
		}
		word, tail, _ := strings.Cut(rest, " ")
		raw, err := hex.DecodeString(word)
		if err != nil {
			return nil, err
		}
		out.Write(raw)
		rest = tail
	}
	return out.Bytes(), nil
}
