package admit

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"weft/auth"
	"weft/pgerr"
	"weft/wire"
)

// packet is a message of the startup phase.
func packet(code uint32, rest string) string {
	b := binary.BigEndian.AppendUint32(nil, uint32(8+len(rest)))
	return string(binary.BigEndian.AppendUint32(b, code)) + rest
}

func startup(version uint32, words ...string) string {
	return packet(version, strings.Join(words, "\x00")+"\x00\x00")
}

const (
	v30 = 3 << 16
	ssl = 80877103
	gss = 80877104
	ask = 1234<<16 | 5712
)

// visit sends a client's words to a door and returns what the client reads, in short,
// and what became of it.
func visit(t *testing.T, change func(*Door, *Rules), said string) (read, came string) {
	t.Helper()
	trust, err := auth.New(auth.Config{Method: auth.MethodTrust})
	if err != nil {
		t.Fatal(err)
	}
	var events []string
	rules := Rules{Auth: trust, Timeout: 5 * time.Second}
	d := &Door{
		Log:       slog.New(slog.DiscardHandler),
		Passwords: func(auth.Query) auth.Passwords { return nil },
		Learn:     func(user string, _ *auth.Keys) { events = append(events, "learnt "+user) },
		Cancel:    func(*wire.Packet) { events = append(events, "cancel") },
		Ask:       func(*wire.Stream, *tls.ConnectionState) error { events = append(events, "asked"); return nil },
		Options:   func([]wire.Option) error { return nil },
	}
	if change != nil {
		change(d, &rules)
	}
	d.Rules = func() Rules { return rules }
	client, server := socket(t)
	done := make(chan string, 1)
	go func() {
		defer server.Close()
		c := d.Admit(context.Background(), server, func(_ context.Context, c *Client, greeting []byte) error {
			events = append(events, "welcome "+c.User+" to "+c.Database)
			if c.Database == "full" {
				return pgerr.New(pgerr.TooManyConnections, "no more")
			}
			_, err := c.Stream.Write(greeting)
			return err
		})
		if c == nil {
			events = append(events, "gone")
		}
		done <- strings.Join(events, ", ")
	}()
	if _, err := io.WriteString(client, said); err != nil {
		t.Fatal(err)
	}
	_ = client.(*net.TCPConn).CloseWrite()
	b, _ := io.ReadAll(client)
	return short(b), <-done
}

// socket returns both ends of a connection.
func socket(t *testing.T) (client, server net.Conn) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	if client, err = net.Dial("tcp", ln.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if server, err = ln.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close(); server.Close() })
	return client, server
}

// short is the types of messages, errors with their codes, single letters as they are.
func short(b []byte) string {
	var out []string
	for len(b) > 0 {
		if len(b) < 5 || b[0] == 'N' && (len(b) == 1 || b[1] != 0) {
			out, b = append(out, string(b[:1])), b[1:]
			continue
		}
		n := int(binary.BigEndian.Uint32(b[1:])) + 1
		if n > len(b) {
			return strings.Join(append(out, string(b)), " ")
		}
		word := string(b[0])
		if b[0] == wire.ErrorResponse {
			code, _ := wire.ErrorField(b[5:n], 'C')
			severity, _ := wire.ErrorField(b[5:n], 'S')
			word += " " + severity + " " + code
		}
		out, b = append(out, word), b[n:]
	}
	return strings.Join(out, " ")
}

func TestAdmit(t *testing.T) {
	ann := startup(v30, "user", "ann", "database", "app")
	for _, tc := range []struct {
		name   string
		change func(*Door, *Rules)
		said   string
		read   string
		came   string
	}{
		{"a client", nil, ann, "R", "learnt ann, welcome ann to app"},
		{"the database is named like the user", nil, startup(v30, "user", "ann"), "R", "learnt ann, welcome ann to ann"},
		{"no user", nil, startup(v30, "database", "app"), "E FATAL 28000", "gone"},
		{"replication", nil, startup(v30, "user", "ann", "replication", "true"), "E FATAL 0A000", "gone"},
		{"no replication", nil, startup(v30, "user", "ann", "replication", "off"), "R", "learnt ann, welcome ann to ann"},
		{"no TLS here", nil, packet(ssl, "") + ann, "N R", "learnt ann, welcome ann to app"},
		{"no GSS, no TLS", nil, packet(gss, "") + packet(ssl, "") + ann, "N N R", "learnt ann, welcome ann to app"},
		{"TLS is asked for twice", nil, packet(ssl, "") + packet(ssl, ""), "N E FATAL 0A000", "gone"},
		{"TLS is required", func(_ *Door, r *Rules) { r.RequireTLS = true }, ann, "E FATAL 28000", "gone"},
		{"words after asking for TLS", func(_ *Door, r *Rules) { r.TLS = &tls.Config{} }, packet(ssl, "") + ann, "E FATAL 08P01", "gone"},
		{"a newer version", nil, startup(v30|9, "user", "ann", "_pq_.x", "1"), "v R", "learnt ann, welcome ann to ann"},
		{"an old version", nil, packet(2<<16, "ann"), "EFATAL:  unsupported frontend protocol 2.0: server supports 3.0 to 3.0\n\x00", "gone"},
		{"malformed", nil, packet(v30, "user"), "E FATAL 08P01", "gone"},
		{"a cancel request", nil, packet(80877102, "\x00\x80\x00\x01abcd"), "", "cancel, gone"},
		{"another proxy", nil, packet(ask, ""), "", "asked, gone"},
		{"a look at the port", nil, "", "", "gone"},
		{"options", func(d *Door, _ *Rules) {
			d.Options = func([]wire.Option) error { return pgerr.New(pgerr.InvalidParameterValue, "no") }
		}, ann, "E FATAL 22023", "gone"},
		{"no room", nil, startup(v30, "user", "ann", "database", "full"), "R E FATAL 53300", "learnt ann, welcome ann to full, gone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			read, came := visit(t, tc.change, tc.said)
			if read != tc.read || came != tc.came {
				t.Errorf("the client reads %q, want %q; %q, want %q", read, tc.read, came, tc.came)
			}
		})
	}
}

// TestFailures: after too many wrong passwords an address must wait.
func TestFailures(t *testing.T) {
	a, err := auth.New(auth.Config{Method: auth.MethodReject})
	if err != nil {
		t.Fatal(err)
	}
	d := &Door{
		Log: slog.New(slog.DiscardHandler), Passwords: func(auth.Query) auth.Passwords { return nil }, Options: func([]wire.Option) error { return nil },
		Rules: func() Rules { return Rules{Auth: a, AuthFailures: 1, Timeout: 5 * time.Second} },
	}
	var last string
	for range 4 {
		client, server := socket(t)
		go func() {
			defer server.Close()
			d.Admit(context.Background(), server, func(context.Context, *Client, []byte) error { return errors.New("nobody comes in") })
		}()
		_, _ = io.WriteString(client, startup(v30, "user", "ann")+"p\x00\x00\x00\x0awrong\x00")
		_ = client.(*net.TCPConn).CloseWrite()
		b, _ := io.ReadAll(client)
		last = string(b)
	}
	if !strings.Contains(last, "too many authentication failures") {
		t.Errorf("%q", last)
	}
}
