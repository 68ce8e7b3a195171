package wire_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"weft/pgerr"
	"weft/wire"
)

func TestDecodeParse(t *testing.T) {
	for body, ok := range map[string]bool{
		"s\x00SELECT 1\x00\x00\x00":                  true,
		"\x00\x00\x00\x00":                           true,
		"s\x00SELECT $1\x00\x00\x01\x00\x00\x00\x17": true,
		"s\x00SELECT $1\x00\x00\x01\x00\x00\x00":     false,
		"s\x00SELECT 1\x00\x00\x00\x00":              false,
		"s\x00SELECT 1\x00\x00":                      false,
		"s\x00SELECT 1":                              false,
		"s":                                          false,
		"":                                           false,
		"s\x00SELECT 1\x00\xff\xff" + "\x00\x00\x00\x17": false,
	} {
		p, err := wire.DecodeParse([]byte(body))
		if ok != (err == nil) || err != nil && !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%q: %v", body, err)
			continue
		}
		if again := wire.AppendParse(nil, string(p.Name), string(p.SQL), p.OIDs); ok && string(again[wire.HeaderLen:]) != body {
			t.Errorf("%q became %q", body, again)
		}
	}
	// Parameter types may be left out.
	if _, err := wire.DecodeParse(wire.AppendParse(nil, "s", "SELECT 1", nil)[wire.HeaderLen:]); err != nil {
		t.Error(err)
	}
}

func TestNames(t *testing.T) {
	portal, stmt, rest, ok := wire.BindNames([]byte("p\x00s\x00rest"))
	if !ok || string(portal) != "p" || string(stmt) != "s" || string(rest) != "rest" {
		t.Errorf("%q %q %q %v", portal, stmt, rest, ok)
	}
	for _, bad := range []string{"", "p", "p\x00", "p\x00s"} {
		if _, _, _, ok := wire.BindNames([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
	for body, want := range map[string]bool{"Sname\x00": true, "P\x00": true, "S": false, "": false, "Sname": false, "Sname\x00x": false} {
		if _, _, ok := wire.DescribeName([]byte(body)); ok != want {
			t.Errorf("%q: %v", body, ok)
		}
	}
	kind, name, _ := wire.DescribeName(wire.AppendDescribe(nil, 'S', "x")[wire.HeaderLen:])
	if kind != 'S' || string(name) != "x" {
		t.Errorf("%c %q", kind, name)
	}
	kind, name, _ = wire.DescribeName(wire.AppendClose(nil, 'P', "")[wire.HeaderLen:])
	if kind != 'P' || len(name) != 0 {
		t.Errorf("%c %q", kind, name)
	}
}

// TestError: what a client sees of an Error, and that one can be mapped field by
// field.
func TestError(t *testing.T) {
	e := pgerr.New("42P01", "no %q", "t").WithDetail("d").WithHint("h").WithCause(errors.New("secret"))
	e.Position, e.File, e.Line, e.Routine = 7, "f.c", 12, "r"
	frame := wire.AppendError(nil, e)
	body := frame[wire.HeaderLen:]
	if frame[0] != wire.ErrorResponse || bytes.Contains(frame, []byte("secret")) {
		t.Errorf("%q", frame)
	}
	for code, want := range map[byte]string{
		'S': "ERROR", 'V': "ERROR", 'C': "42P01", 'M': `no "t"`, 'D': "d", 'H': "h", 'P': "7", 'F': "f.c", 'L': "12", 'R': "r",
	} {
		if got, ok := wire.ErrorField(body, code); !ok || got != want {
			t.Errorf("field %c: %q", code, got)
		}
	}
	if _, ok := wire.ErrorField(body, 'W'); ok {
		t.Error("a field that is not there")
	}
	mapped := wire.MapError(body, func(code byte, v string) string {
		if code == 'M' {
			return strings.ToUpper(v)
		}
		return v
	})
	if got, _ := wire.ErrorField(mapped, 'M'); got != `NO "T"` {
		t.Errorf("mapped to %q", got)
	}
	if same := wire.MapError(body, func(_ byte, v string) string { return v }); !bytes.Equal(same, body) {
		t.Errorf("%q became %q", body, same)
	}
	if cut, _ := wire.ErrorField(body[:8], 'M'); cut != "" {
		t.Errorf("from half a body: %q", cut)
	}
	warning := &pgerr.Error{Severity: pgerr.SeverityWarning, Code: "01000", Message: "m"}
	if f := wire.AppendError(nil, warning); f[0] != wire.NoticeResponse {
		t.Errorf("a warning is sent as %c", f[0])
	}
}

func TestDecodeRow(t *testing.T) {
	a, empty := "a", ""
	body := wire.AppendTextRow(nil, []*string{&a, nil, &empty})[wire.HeaderLen:]
	vals, err := wire.DecodeRow(nil, body)
	if err != nil || len(vals) != 3 || string(vals[0]) != "a" || vals[1] != nil || vals[2] == nil || len(vals[2]) != 0 {
		t.Errorf("%q %v", vals, err)
	}
	for n := range len(body) {
		if _, err := wire.DecodeRow(nil, body[:n]); !errors.Is(err, wire.ErrMalformed) {
			t.Errorf("%d bytes of it: %v", n, err)
		}
	}
}

func TestOtherMessages(t *testing.T) {
	if n, v, ok := wire.DecodeParameterStatus(wire.AppendParameterStatus(nil, "TimeZone", "UTC")[wire.HeaderLen:]); n != "TimeZone" || v != "UTC" || !ok {
		t.Errorf("%q %q %v", n, v, ok)
	}
	pid, ch, payload, ok := wire.DecodeNotification(wire.AppendNotification(nil, -3, "ch", "p")[wire.HeaderLen:])
	if pid != -3 || ch != "ch" || payload != "p" || !ok {
		t.Errorf("%d %q %q %v", pid, ch, payload, ok)
	}
	for _, bad := range []string{"", "abc", "abcd", "abcdch\x00", "abcdch\x00p"} {
		if _, _, _, ok := wire.DecodeNotification([]byte(bad)); ok {
			t.Errorf("accepted %q", bad)
		}
	}
	long, at := wire.Begin(nil, wire.Bind)
	long = append(long, "head"...)
	wire.EndLong(long, at, 100)
	if want := []byte{'B', 0, 0, 0, 108, 'h', 'e', 'a', 'd'}; !bytes.Equal(long, want) {
		t.Errorf("%q", long)
	}
	if got := string(wire.AppendNegotiateProtocolVersion(nil, wire.Protocol30, []string{"_pq_.x"})); got != "v\x00\x00\x00\x13\x00\x03\x00\x00\x00\x00\x00\x01_pq_.x\x00" {
		t.Errorf("%q", got)
	}
}

func TestFrontendLimit(t *testing.T) {
	for _, typ := range "QFBPd" {
		if wire.FrontendLimit(byte(typ)) != wire.LargeLimit {
			t.Errorf("%c", typ)
		}
	}
	for _, typ := range "XCDEHScf" {
		if wire.FrontendLimit(byte(typ)) != wire.SmallLimit {
			t.Errorf("%c", typ)
		}
	}
	for _, typ := range "p\x00Zz" {
		if wire.FrontendLimit(byte(typ)) != 0 {
			t.Errorf("%c", typ)
		}
	}
}
