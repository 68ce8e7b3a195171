package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"weft/wire"
)

func packet(version uint32, body string) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(body)))
	return append(binary.BigEndian.AppendUint32(b, version), body...)
}

func TestReadPacket(t *testing.T) {
	const v3 = wire.Protocol30
	for _, tc := range []struct {
		name string
		in   []byte
		want wire.Packet
		err  error
	}{
		{"startup", packet(v3, "user\x00me\x00database\x00db\x00\x00"), wire.Packet{Version: v3, Options: []wire.Option{{Name: "user", Value: "me"}, {Name: "database", Value: "db"}}}, nil},
		{"minor version", packet(wire.Protocol32, "user\x00me\x00\x00"), wire.Packet{Version: wire.Protocol32, Options: []wire.Option{{Name: "user", Value: "me"}}}, nil},
		{"no options", packet(v3, "\x00"), wire.Packet{Version: v3}, nil},
		{"empty value", packet(v3, "a\x00\x00\x00"), wire.Packet{Version: v3, Options: []wire.Option{{Name: "a"}}}, nil},
		{"ssl", packet(wire.SSLRequestCode, ""), wire.Packet{Kind: wire.PacketSSL, Version: wire.SSLRequestCode}, nil},
		{"gss", packet(wire.SSLRequestCode+1, ""), wire.Packet{Kind: wire.PacketGSS, Version: wire.SSLRequestCode + 1}, nil},
		{"cancel", wire.AppendCancel(nil, 7, []byte("key!")), wire.Packet{Kind: wire.PacketCancel, Version: wire.SSLRequestCode - 1, PID: 7, Secret: []byte("key!")}, nil},
		{"ssl, as it is sent", wire.AppendSSLRequest(nil), wire.Packet{Kind: wire.PacketSSL, Version: wire.SSLRequestCode}, nil},
		{"cancel of another proxy's", wire.AppendRelayedCancel(nil, 7, []byte("key!")), wire.Packet{Kind: wire.PacketCancel, Version: 1234<<16 | 5711, PID: 7, Secret: []byte("key!"), Relayed: true}, nil},
		{"cancel with a long key", wire.AppendCancel(nil, 7, bytes.Repeat([]byte("k"), 256)), wire.Packet{Kind: wire.PacketCancel, Version: wire.SSLRequestCode - 1, PID: 7, Secret: bytes.Repeat([]byte("k"), 256)}, nil},
		{"cancel with too long a key", wire.AppendCancel(nil, 7, bytes.Repeat([]byte("k"), 257)), wire.Packet{}, wire.ErrStartupLength},
		{"cancel without a key", packet(wire.SSLRequestCode-1, "\x00\x00\x00\x07"), wire.Packet{}, wire.ErrStartupLength},
		{"version 2", packet(2<<16, "user\x00"), wire.Packet{}, wire.VersionError{Version: 2 << 16}},
		{"version 4", packet(4<<16, "user\x00"), wire.Packet{}, wire.VersionError{Version: 4 << 16}},
		{"no terminator", packet(v3, "user\x00me\x00"), wire.Packet{}, wire.ErrStartupLayout},
		{"open value", packet(v3, "user\x00me"), wire.Packet{}, wire.ErrStartupLayout},
		{"bytes behind", packet(v3, "user\x00me\x00\x00x"), wire.Packet{}, wire.ErrStartupLayout},
		{"nothing in it", packet(v3, ""), wire.Packet{}, wire.ErrStartupLayout},
		{"short length", []byte{0, 0, 0, 7, 0, 3, 0, 0}, wire.Packet{}, wire.ErrStartupLength},
		{"negative length", []byte{0xff, 0xff, 0xff, 0xff, 0, 3, 0, 0}, wire.Packet{}, wire.ErrStartupLength},
		{"too long", packet(v3, strings.Repeat("x", wire.StartupLimit)), wire.Packet{}, wire.ErrStartupLength},
		{"http", []byte("GET / HTTP/1.0\r\n\r\n"), wire.Packet{}, wire.ErrStartupLength},
		{"nothing", nil, wire.Packet{}, io.EOF},
		{"half a length", []byte{0, 0}, wire.Packet{}, io.ErrUnexpectedEOF},
		{"half", packet(v3, "user\x00me\x00\x00")[:12], wire.Packet{}, io.ErrUnexpectedEOF},
	} {
		for _, step := range []int{1, 5, 1 << 20} {
			p, err := wire.ReadPacket(wire.NewStream(&given{b: slices.Clone(tc.in), step: step}))
			if !errors.Is(err, tc.err) {
				t.Errorf("%s: %v, want %v", tc.name, err, tc.err)
				continue
			}
			if err == nil && (p.Kind != tc.want.Kind || p.Version != tc.want.Version || p.PID != tc.want.PID ||
				!bytes.Equal(p.Secret, tc.want.Secret) || !slices.Equal(p.Options, tc.want.Options)) {
				t.Errorf("%s: %+v", tc.name, p)
			}
		}
	}
}

// TestPacketLeavesTheRest: what a client sends behind its startup packet stays
// in the stream.
func TestPacketLeavesTheRest(t *testing.T) {
	s := wire.NewStream(&given{b: append(packet(wire.Protocol30, "user\x00me\x00\x00"), wire.AppendQuery(nil, "SELECT 1")...), step: 1000})
	p, err := wire.ReadPacket(s)
	if err != nil || p.Get("user") != "me" || p.Get("nosuch") != "" {
		t.Fatalf("%+v %v", p, err)
	}
	if typ, body, err := s.Next(100); typ != wire.Query || string(body) != "SELECT 1\x00" {
		t.Errorf("%c %q %v", typ, body, err)
	}
}

func TestGetTakesTheLast(t *testing.T) {
	p := wire.Packet{Options: []wire.Option{{Name: "a", Value: "1"}, {Name: "b", Value: "2"}, {Name: "a", Value: "3"}}}
	if got := p.Get("a"); got != "3" {
		t.Errorf("%q", got)
	}
}

// FuzzStartup decodes any opening packet: what is accepted says what its bytes
// say.
func FuzzStartup(f *testing.F) {
	f.Add(packet(wire.Protocol30, "user\x00me\x00database\x00db\x00\x00"))
	f.Add(packet(wire.SSLRequestCode, ""))
	f.Add(packet(wire.SSLRequestCode+1, ""))
	f.Add(wire.AppendCancel(nil, 1, []byte("1234")))
	f.Add(packet(wire.Protocol32, "user\x00me\x00_pq_.x\x00y\x00\x00"))
	f.Add(packet(2<<16, "user"))
	f.Add([]byte{0, 0, 0, 8})
	f.Fuzz(func(t *testing.T, in []byte) {
		p, err := wire.ReadPacket(wire.NewStream(&given{b: slices.Clone(in), step: 7}))
		if err != nil {
			return
		}
		var again []byte
		switch p.Kind {
		case wire.PacketStartup:
			var body []byte
			for _, o := range p.Options {
				if o.Name == "" || strings.ContainsRune(o.Name+o.Value, 0) {
					t.Fatalf("option %q", o)
				}
				body = wire.AppendCString(wire.AppendCString(body, o.Name), o.Value)
			}
			again = packet(p.Version, string(append(body, 0)))
		case wire.PacketCancel:
			again = wire.AppendCancel(nil, p.PID, p.Secret)
		default:
			return // what stands behind the code is not looked at
		}
		if !bytes.HasPrefix(in, again) {
			t.Fatalf("%+v from %q", p, in)
		}
	})
}
