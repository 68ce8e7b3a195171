// Command passthrough is the least a Go proxy can do: for every client one goroutine and one server connection,
// bytes carried across half-duplex, frames counted so as to know whose turn it is, nothing looked at, nothing pooled.
//
// `bench -baseline` measures it beside weft. What it costs over PgBouncer is the price of the runtime's way of doing
// I/O (a read that would block is tried, fails, parks the goroutine, and a poller wakes it); what weft costs over it
// is weft's own.
//
// It is no proxy for real use: no TLS, no COPY into the server, no notifications between statements.
package main

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "`address` to serve")
	server := flag.String("server", "127.0.0.1:5432", "`address` of PostgreSQL")
	flag.Parse()
	l, err := net.Listen("tcp", *listen)
	if err != nil {
		fmt.Fprintln(os.Stderr, "passthrough:", err)
		os.Exit(1)
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-stop
		l.Close()
	}()
	for {
		client, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return // Clients end with the process.
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "passthrough:", err)
			os.Exit(1)
		}
		go func() {
			defer client.Close()
			if err := serve(client, *server); err != nil && !errors.Is(err, io.EOF) {
				fmt.Fprintln(os.Stderr, "passthrough:", err)
			}
		}()
	}
}

// serve carries one client's session until either side ends it.
func serve(client net.Conn, addr string) error {
	server, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	defer server.Close()
	buf := make([]byte, 16<<10)
	if err := startup(client, server, buf); err != nil {
		return err
	}
	fromServer := counter{of: "Z"}
	if err := answer(client, server, buf, &fromServer, 1); err != nil {
		return err
	}
	fromClient := counter{of: "QSF"} // Each is answered by one ReadyForQuery.
	for {
		n, err := client.Read(buf)
		if err != nil {
			return err
		}
		owed := fromClient.feed(buf[:n])
		if _, err := server.Write(buf[:n]); err != nil {
			return err
		}
		if err := answer(client, server, buf, &fromServer, owed); err != nil {
			return err
		}
	}
}

// startup forwards the first packet, having declined encryption if the client asks for it.
func startup(client, server net.Conn, buf []byte) error {
	const sslRequest, gssRequest = 80877103, 80877104
	for {
		if _, err := io.ReadFull(client, buf[:8]); err != nil {
			return err
		}
		size, code := binary.BigEndian.Uint32(buf), binary.BigEndian.Uint32(buf[4:])
		if code == sslRequest || code == gssRequest {
			if _, err := client.Write([]byte{'N'}); err != nil {
				return err
			}
			continue
		}
		if size < 8 || int(size) > len(buf) {
			return fmt.Errorf("startup packet of %d bytes", size)
		}
		if _, err := io.ReadFull(client, buf[8:size]); err != nil {
			return err
		}
		_, err := server.Write(buf[:size])
		return err
	}
}

// answer carries the server's bytes until it has said ReadyForQuery as often as is owed.
func answer(client, server net.Conn, buf []byte, c *counter, owed int) error {
	for owed > 0 {
		n, err := server.Read(buf)
		if err != nil {
			return err
		}
		owed -= c.feed(buf[:n])
		if _, err := client.Write(buf[:n]); err != nil {
			return err
		}
	}
	return nil
}

// counter counts the complete frames of some types in a stream that arrives in arbitrary pieces.
type counter struct {
	of   string // type bytes that count
	head [5]byte
	have int // bytes of head seen
	body int // bytes of the current frame still to come, once head is complete
}

func (c *counter) feed(b []byte) (found int) {
	for len(b) > 0 {
		if c.have < len(c.head) {
			n := copy(c.head[c.have:], b)
			c.have += n
			b = b[n:]
			if c.have < len(c.head) {
				return found
			}
			c.body = max(0, int(binary.BigEndian.Uint32(c.head[1:]))-4) // A broken length is the receiver's to refuse.
		}
		n := min(c.body, len(b))
		c.body -= n
		b = b[n:]
		if c.body > 0 {
			return found
		}
		for i := range len(c.of) {
			if c.of[i] == c.head[0] {
				found++
			}
		}
		c.have = 0
	}
	return found
}
