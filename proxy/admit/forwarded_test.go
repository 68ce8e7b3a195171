package admit

import (
	"fmt"
	"strings"
	"testing"
)

func TestForwardedHeader(t *testing.T) {
	v2 := func(command, family byte, body string) string {
		return proxyV2 + string([]byte{0x20 | command, family, byte(len(body) >> 8), byte(len(body))}) + body
	}
	four := "\x0a\x00\x00\x07\x0a\x00\x00\x01\x9c\x40\x19\x20"
	six := "\x20\x01\x0d\xb8" + strings.Repeat("\x00", 11) + "\x07" + strings.Repeat("\x00", 16) + "\x00\x50\x19\x20"
	for _, tc := range []struct{ header, want string }{
		{"PROXY TCP4 10.0.0.7 10.0.0.1 40000 6432\r\n", "10.0.0.7:40000"},
		{"PROXY TCP6 2001:db8::7 ::1 80 6432\r\n", "[2001:db8::7]:80"},
		{"PROXY UNKNOWN\r\n", "none"},
		{"PROXY UNKNOWN ffff::1 ffff::2 1 2\r\n", "none"},
		{"PROXY TCP4 10.0.0.7 10.0.0.1 40000\r\n", "malformed"},
		{"PROXY TCP4 10.0.0.7 10.0.0.1 70000 6432\r\n", "malformed"},
		{"PROXY TCP4 2001:db8::7 ::1 80 6432\r\n", "malformed"},
		{"PROXY TCP6 fe80::1%eth0 ::1 80 6432\r\n", "malformed"},
		{"PROXY TCP4 nowhere 10.0.0.1 40000 6432\r\n", "malformed"},
		{"PROXYTCP4 10.0.0.7 10.0.0.1 40000 6432 6\r\n", "malformed"},
		{"PROXY " + strings.Repeat("x", 200), "malformed"},
		{"PROXY TCP4 10.0", "EOF"},
		{v2(1, 0x11, four), "10.0.0.7:40000"},
		{v2(1, 0x11, four+"\x04\x00\x01x"), "10.0.0.7:40000"}, // something more
		{v2(1, 0x21, six), "[2001:db8::7]:80"},
		{v2(0, 0, ""), "none"},
		{v2(0, 0x11, four), "none"},
		{v2(1, 0x31, strings.Repeat("\x00", 216)), "none"}, // a Unix socket
		{v2(1, 0x11, four[:8]), "malformed"},
		{v2(2, 0x11, four), "malformed"},
		{v2(1, 0x11, strings.Repeat("\x00", 5000)), "malformed"},
		{v2(1, 0x11, four)[:20], "EOF"},
		{strings.Replace(v2(1, 0x11, four), "QUIT", "QUIP", 1), "malformed"},
	} {
		r := strings.NewReader(tc.header + "the client")
		if tc.want == "EOF" {
			r = strings.NewReader(tc.header)
		}
		read := readV2
		if tc.header[0] == proxyV1[0] {
			read = readV1
		}
		addr, err := read(r)
		got := fmt.Sprint(addr)
		if err != nil {
			got = err.Error()
		} else if addr == nil {
			got = "none"
		}
		if !strings.Contains(got, tc.want) {
			t.Errorf("%q: %s, want %s", tc.header, got, tc.want)
		}
		if left := r.Len(); err == nil && left != len("the client") {
			t.Errorf("%q: %d bytes are left", tc.header, left)
		}
	}
}
