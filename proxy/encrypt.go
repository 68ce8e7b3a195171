package proxy

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
func (st *starter) directTLS(ctx context.Context) (bool, error) {
	if st.srv.conf().TLS == nil {
		return false, nil
	}
	if err := st.stream.Need(1); err != nil || st.stream.Buffered()[0] != handshakeByte {
		return false, nil // the next read finds the same error
	}
	begun := slices.Clone(st.stream.Buffered())
	st.stream.Consume(len(begun))
	if err := st.handshake(ctx, &begunConn{Conn: st.stream.Conn(), begun: begun}); err != nil {
		return false, err
	}
	if st.tls.NegotiatedProtocol == "" {
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
func (st *starter) startTLS(ctx context.Context) error {
	if len(st.stream.Buffered()) > 0 {
		// Bytes before the handshake may be somebody else's.
		return pgerr.Fatal(pgerr.ProtocolViolation, "received unencrypted data after SSL request").
			WithDetail("This could be either a client-software bug or evidence of an attempted man-in-the-middle attack.")
	}
	if _, err := st.stream.Write([]byte{'S'}); err != nil {
		return err
	}
	return st.handshake(ctx, st.stream.Conn())
}

func (st *starter) handshake(ctx context.Context, conn net.Conn) error {
	t := tls.Server(conn, st.encryption())
	if err := t.HandshakeContext(ctx); err != nil {
		return err
	}
	state := t.ConnectionState()
	st.tls, st.peer = &state, state.NegotiatedProtocol == peer.Protocol
	st.stream = wire.NewStream(t)
	return nil
}

// encryption is the configuration of TLS for this connection: it notes the certificate
// that the client is shown, which channel binding is about.
func (st *starter) encryption() *tls.Config {
	cfg := st.srv.conf().TLS.Clone()
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
		c, err := choose(h)
		if err == nil && len(c.Certificate) > 0 {
			st.cert = c.Certificate[0]
		}
		return c, err
	}
	cfg.NextProtos = []string{clientProtocol}
	cfg.GetConfigForClient = func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		if !slices.Contains(h.SupportedProtos, peer.Protocol) {
			return nil, nil
		}
		// This protocol and no other: whoever comes without a certificate is no client.
		peers := cfg.Clone()
		peers.NextProtos, peers.ClientAuth, peers.GetConfigForClient = []string{peer.Protocol}, tls.NoClientCert, nil
		return peers, nil
	}
	return cfg
}
