package admit

import (
	"context"
	"crypto/tls"
	"net"
	"slices"

	"weft/pgerr"
	"weft/proxy/peer"
	"weft/wire"
)

// clientProtocol is PostgreSQL's name in TLS (ALPN). Clients that begin with TLS must
// name it.
const clientProtocol = "postgresql"

// handshakeByte is the first of a TLS handshake. No startup packet begins with it: it
// would be too long.
const handshakeByte = 0x16

// directTLS does the handshake of a client that begins with it (sslnegotiation=direct,
// PostgreSQL 17).
func (c *Client) directTLS(ctx context.Context) (bool, error) {
	if c.rules.TLS == nil {
		return false, nil
	}
	if err := c.Stream.Need(1); err != nil || c.Stream.Buffered()[0] != handshakeByte {
		return false, nil // the next read finds the same error
	}
	begun := slices.Clone(c.Stream.Buffered())
	c.Stream.Consume(len(begun))
	if err := c.handshake(ctx, &begunConn{Conn: c.Stream.Conn(), begun: begun}); err != nil {
		return false, err
	}
	if c.TLS.NegotiatedProtocol == "" {
		return false, pgerr.Fatal(pgerr.ProtocolViolation, "received direct SSL connection request without ALPN protocol negotiation extension")
	}
	return true, nil
}

// begunConn is a connection of which something has been read already.
type begunConn struct {
	net.Conn
	begun []byte
}

// Read implements net.Conn.
func (c *begunConn) Read(p []byte) (int, error) {
	if len(c.begun) > 0 {
		n := copy(p, c.begun)
		c.begun = c.begun[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// startTLS is for a client that has asked first.
func (c *Client) startTLS(ctx context.Context) error {
	if len(c.Stream.Buffered()) > 0 {
		// Bytes before the handshake may not be the client's.
		return pgerr.Fatal(pgerr.ProtocolViolation, "received unencrypted data after SSL request").
			WithDetail("This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.")
	}
	if _, err := c.Stream.Write([]byte{'S'}); err != nil {
		return err
	}
	return c.handshake(ctx, c.Stream.Conn())
}

func (c *Client) handshake(ctx context.Context, conn net.Conn) error {
	t := tls.Server(conn, c.encryption())
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	state := t.ConnectionState()
	c.TLS, c.peer = &state, state.NegotiatedProtocol == peer.Protocol
	c.Stream = wire.NewStream(t)
	return nil
}

// encryption is the configuration of TLS for this connection: it notes the certificate
// that the client is shown, which channel binding is about.
func (c *Client) encryption() *tls.Config {
	cfg := c.rules.TLS.Clone()
	choose := cfg.GetCertificate
	if choose == nil && len(cfg.Certificates) > 0 {
		certs := cfg.Certificates
		choose = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			for i := range certs {
				if h.SupportsCertificate(&certs[i]) == nil {
					return &certs[i], nil
				}
			}
			return &certs[0], nil
		}
		cfg.Certificates = nil // or a client without a server name is not asked for
	}
	cfg.GetCertificate = func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
		shown, err := choose(h)
		if err == nil && len(shown.Certificate) > 0 {
			c.cert = shown.Certificate[0]
		}
		return shown, err
	}
	cfg.NextProtos = []string{clientProtocol}
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if !slices.Contains(h.SupportedProtos, peer.Protocol) {
			return nil, nil
		}
		// A connection that offers the protocol of proxies gets no other protocol: it shows no
		// certificate, so it must not become a client's.
		peers := cfg.Clone()
		peers.NextProtos, peers.ClientAuth, peers.GetConfigForClient = []string{peer.Protocol}, tls.NoClientCert, nil
		return peers, nil
	}
	return cfg
}
