package admit

import (
	"context"
	"crypto/tls"
	"errors"
	"slices"
	"strings"

	"weft/auth"
	"weft/pgerr"
	"weft/wire"
)

// Client is one client's startup dialogue, and what came of it.
type Client struct {
	door  *Door
	rules Rules // as they were when the client came

	Stream *wire.Stream
	TLS    *tls.ConnectionState // nil without TLS
	// Packet is the startup packet. Its version is the one that was agreed on.
	Packet *wire.Packet
	// User and Database are who the client is, and where it wants to go.
	User, Database string

	cert []byte // the certificate that the client was shown
	peer bool   // the other end is a proxy, by the word of TLS: no client may come this way
	old  bool   // the client speaks a protocol before 3: errors are plain text
	// greeted: the client is authenticated, and will be told so with what follows.
	greeted bool
}

// open reads packets until the one that is a startup or a cancel.
func (c *Client) open(ctx context.Context) error {
	var sslDone, gssDone bool
	if direct, err := c.directTLS(ctx); err != nil {
		return err
	} else if direct {
		sslDone, gssDone = true, true
	}
	for {
		p, err := wire.ReadPacket(c.Stream)
		var bad wire.VersionError
		switch {
		case errors.As(err, &bad):
			c.old = bad.Version>>16 < 3 && bad.Version != 0
			e := pgerr.Fatal(pgerr.FeatureNotSupported, "%s", bad.Error())
			e.File, e.Routine = "postmaster.c", "ProcessStartupPacket"
			return e
		case errors.Is(err, wire.ErrStartupLayout):
			e := pgerr.Fatal(pgerr.ProtocolViolation, "%s", err.Error())
			e.File, e.Routine = "postmaster.c", "ProcessStartupPacket"
			return e
		case err != nil:
			return err
		}
		switch {
		case p.Kind == wire.PacketSSL && !sslDone:
			sslDone = true
			if c.rules.TLS == nil || c.TLS != nil {
				if _, err := c.Stream.Write([]byte{'N'}); err != nil {
					return err
				}
				continue
			}
			if err := c.startTLS(ctx); err != nil {
				return err
			}
			gssDone = true
		case p.Kind == wire.PacketGSS && !gssDone:
			gssDone = true
			if _, err := c.Stream.Write([]byte{'N'}); err != nil {
				return err
			}
		case p.Kind == wire.PacketSSL || p.Kind == wire.PacketGSS:
			v := uint32(wire.SSLRequestCode)
			if p.Kind == wire.PacketGSS {
				v++
			}
			return pgerr.Fatal(pgerr.FeatureNotSupported, "%s", wire.VersionError{Version: v}.Error())
		case p.Kind == wire.PacketCancel:
			c.Packet = p
			c.door.Cancel(p)
			return nil
		case p.Kind == wire.PacketAsk:
			c.Packet = p
			return c.door.Ask(c.Stream, c.TLS)
		case c.peer:
			return pgerr.Fatal(pgerr.ProtocolViolation, "a connection between proxies is not for clients")
		default:
			c.Packet = p
			return nil
		}
	}
}

// negotiate tells a client that asked for a newer minor version or for
// protocol options what it gets.
func (c *Client) negotiate() error {
	minor := c.Packet.Version & 0xffff
	var unknown []string
	for _, o := range c.Packet.Options {
		if strings.HasPrefix(o.Name, "_pq_.") {
			unknown = append(unknown, o.Name)
		}
	}
	got := uint32(0)
	if minor >= 2 {
		got = 2
	}
	if minor == got && len(unknown) == 0 {
		return nil
	}
	c.Packet.Version = wire.Protocol30 | got
	_, err := c.Stream.Write(wire.AppendNegotiateProtocolVersion(nil, wire.Protocol30|got, unknown))
	return err
}

// SendAuth implements auth.Client.
func (c *Client) SendAuth(body []byte) error {
	_, err := c.Stream.Write(wire.AppendAuthentication(nil, body))
	return err
}

// ReceivePassword implements auth.Client.
func (c *Client) ReceivePassword(limit int) ([]byte, error) {
	if err := c.Stream.Need(wire.HeaderLen); err != nil {
		return nil, err
	}
	typ, _, _ := c.Stream.Header()
	if typ != wire.Password {
		return nil, auth.MessageTypeError(typ)
	}
	_, body, err := c.Stream.Next(limit + 4)
	if errors.Is(err, wire.ErrFrameLength) {
		return nil, auth.ErrMessageTooLong
	}
	if err != nil {
		return nil, err
	}
	// The next packet may overwrite the buffer.
	own := slices.Clone(body)
	c.Stream.Consume(wire.HeaderLen + len(body))
	return own, nil
}

func isFalse(v string) bool {
	switch strings.ToLower(v) {
	case "0", "f", "false", "n", "no", "of", "off":
		return true
	}
	return false
}
