package wire_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"weft/pgserver/pgtest"
	"weft/wire"
)

// ends returns a stream and the other end of its connection: over TCP, where
// it reads through the descriptor, or over a pipe, as it reads under TLS.
func ends(tb testing.TB, tcp bool) (*wire.Stream, net.Conn) {
	tb.Helper()
	if !tcp {
		a, b := net.Pipe()
		tb.Cleanup(func() { a.Close(); b.Close() })
		return wire.NewStream(a), b
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		tb.Fatal(err)
	}
	conn, err := l.Accept()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { conn.Close(); peer.Close() })
	return wire.NewStream(conn), peer
}

func both(t *testing.T, f func(t *testing.T, tcp bool)) {
	t.Run("tcp", func(t *testing.T) { f(t, true) })
	t.Run("pipe", func(t *testing.T) { f(t, false) })
}

// TestNextAtEverySplit sends the same frames cut in two at every place.
func TestNextAtEverySplit(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		bodies := [][]byte{nil, []byte("x"), []byte("four"), bytes.Repeat([]byte("y"), 20), nil, []byte("end")}
		var all []byte
		for i, b := range bodies {
			all = wire.AppendFrame(all, byte('a'+i), b)
		}
		s, peer := ends(t, tcp)
		for cut := 1; cut < len(all); cut++ {
			go func() {
				_, _ = peer.Write(all[:cut])
				_, _ = peer.Write(all[cut:])
			}()
			for i, want := range bodies {
				typ, body, err := s.Next(wire.LargeLimit)
				if err != nil || typ != byte('a'+i) || !bytes.Equal(body, want) {
					t.Fatalf("cut at %d, frame %d: %c %q %v", cut, i, typ, body, err)
				}
				s.Consume(wire.HeaderLen + len(body))
			}
			if n := len(s.Buffered()); n != 0 {
				t.Fatalf("cut at %d: %d bytes left", cut, n)
			}
		}
	})
}

// TestNextLarge passes frames around the size of a buffer and far beyond.
func TestNextLarge(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		s, peer := ends(t, tcp)
		sizes := []int{16<<10 - 6, 16<<10 - 5, 16<<10 - 4, 16 << 10, 16<<10 + 1, 32 << 10, 100_000, 3 << 20, 0, 7}
		go func() {
			for i, n := range sizes {
				if _, err := peer.Write(wire.AppendFrame(nil, 'D', bytes.Repeat([]byte{byte(i)}, n))); err != nil {
					t.Error(err)
				}
			}
		}()
		for i, n := range sizes {
			_, body, err := s.Next(wire.LargeLimit)
			if err != nil || !bytes.Equal(body, bytes.Repeat([]byte{byte(i)}, n)) {
				t.Fatalf("frame %d of %d bytes: %d bytes, %v", i, n, len(body), err)
			}
			s.Consume(wire.HeaderLen + n)
		}
	})
}

// TestNextBadLength: a length that cannot be is found before memory is spent on
// it.
func TestNextBadLength(t *testing.T) {
	for _, length := range []uint32{0, 3, 1<<31 - 1, 1 << 31, 1<<32 - 1, 101} {
		s, peer := ends(t, true)
		_, _ = peer.Write(binary.BigEndian.AppendUint32([]byte{'Q'}, length))
		if _, _, err := s.Next(100); !errors.Is(err, wire.ErrFrameLength) {
			t.Errorf("length %d: %v", length, err)
		}
	}
}

// TestNextReservesLittle: a peer that declares a large frame and sends little of
// it gets little memory.
func TestNextReservesLittle(t *testing.T) {
	s, peer := ends(t, true)
	_, _ = peer.Write(binary.BigEndian.AppendUint32([]byte{'Q'}, 1<<29))
	_, _ = peer.Write(make([]byte, 1000))
	_ = s.Conn().SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if _, _, err := s.Next(wire.LargeLimit); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatal(err)
	}
	if c := cap(s.Buffered()); c > 64<<10 {
		t.Errorf("%d bytes of memory for 1005 bytes sent", c)
	}
}

// TestDeadlineLosesNothing: an interrupted wait goes on where it stopped.
func TestDeadlineLosesNothing(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		s, peer := ends(t, tcp)
		frame := wire.AppendQuery(nil, "SELECT 1")
		for i := range frame {
			go func() { _, _ = peer.Write(frame[i : i+1]) }()
			patience := 20 * time.Millisecond
			if i == len(frame)-1 {
				patience = time.Minute
			}
			_ = s.Conn().SetReadDeadline(time.Now().Add(patience))
			typ, body, err := s.Next(wire.LargeLimit)
			if i < len(frame)-1 {
				if !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Fatalf("byte %d: %v", i, err)
				}
				continue
			}
			if err != nil || typ != wire.Query || string(body) != "SELECT 1\x00" {
				t.Fatalf("%c %q %v", typ, body, err)
			}
		}
	})
}

// TestEnd: the end of the connection inside a frame and between two.
func TestEnd(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		frame := wire.AppendQuery(nil, "SELECT 1")
		for n := range len(frame) {
			s, peer := ends(t, tcp)
			go func() {
				if n > 0 {
					_, _ = peer.Write(frame[:n])
				}
				peer.Close()
			}()
			if _, _, err := s.Next(wire.LargeLimit); !errors.Is(err, io.EOF) {
				t.Errorf("after %d bytes: %v", n, err)
			}
		}
	})
}

// TestWriteAndFill: the answer is read wherever the bytes of the question ended
// up.
func TestWriteAndFill(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		s, peer := ends(t, tcp)
		go func() { // answers each frame with its length
			in := wire.NewStream(peer)
			for {
				_, body, err := in.Next(wire.LargeLimit)
				if err != nil {
					return
				}
				n := len(body)
				in.Consume(wire.HeaderLen + n)
				_, _ = peer.Write(wire.AppendFrame(nil, 'n', fmt.Append(nil, n)))
			}
		}()
		for _, size := range []int{0, 1, 1000, 16<<10 - 5, 16 << 10, 1 << 20, 0} {
			if err := s.WriteAndFill(wire.AppendFrame(nil, 'Q', make([]byte, size))); err != nil {
				t.Fatal(err)
			}
			_, body, err := s.Next(100)
			if err != nil || string(body) != fmt.Sprint(size) {
				t.Fatalf("%d bytes: %q %v", size, body, err)
			}
			s.Consume(wire.HeaderLen + len(body))
		}
		peer.Close()
		if err := s.WriteAndFill(wire.AppendEmpty(nil, wire.Sync)); err == nil {
			t.Error("no error from a closed connection")
		}
	})
}

// TestWriteAndFillBlocked: a question that does not fit into the socket at once
// is written whole.
func TestWriteAndFillBlocked(t *testing.T) {
	s, peer := ends(t, true)
	_ = s.Conn().(*net.TCPConn).SetWriteBuffer(4 << 10)
	_ = peer.(*net.TCPConn).SetReadBuffer(4 << 10)
	// Fill the socket until nothing fits.
	filled := 0
	_ = s.Conn().SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
	for {
		n, err := s.Conn().Write(make([]byte, 64<<10))
		filled += n
		if err != nil {
			break
		}
	}
	_ = s.Conn().SetWriteDeadline(time.Time{})
	question := wire.AppendFrame(nil, 'Q', bytes.Repeat([]byte("q"), 10_000))
	got := make(chan []byte)
	go func() {
		time.Sleep(20 * time.Millisecond)
		b := make([]byte, filled+len(question))
		_, _ = io.ReadFull(peer, b)
		_, _ = peer.Write([]byte("answer"))
		got <- b[filled:]
	}()
	_ = s.Conn().SetReadDeadline(time.Now().Add(pgtest.Patience))
	if err := s.WriteAndFill(question); err != nil {
		t.Fatal(err)
	}
	if b := <-got; !bytes.Equal(b, question) {
		t.Errorf("the peer got %d bytes, %.20q", len(b), b)
	}
	if string(s.Buffered()) != "answer" {
		t.Errorf("answer %q", s.Buffered())
	}
}

// TestIdleStreamHoldsNothing: a stream gives its buffer back as soon as all is
// consumed.
func TestIdleStreamHoldsNothing(t *testing.T) {
	s, peer := ends(t, true)
	_, _ = peer.Write(wire.AppendQuery(nil, "SELECT 1"))
	_, body, err := s.Next(100)
	if err != nil {
		t.Fatal(err)
	}
	s.Consume(wire.HeaderLen + len(body))
	if cap(s.Buffered()) != 0 {
		t.Errorf("%d bytes kept", cap(s.Buffered()))
	}
	var o wire.Out
	if o.Grow(); cap(o.B) == 0 || o.Len() != 0 {
		t.Errorf("grown: %d of %d", o.Len(), cap(o.B))
	}
	o.B = append(o.B, 1)
	if o.Reset(); o.B != nil || o.Full() {
		t.Error("not empty after Reset")
	}
}

// given is a connection that delivers bytes and then ends.
type given struct {
	net.Conn
	b    []byte
	step int
}

func (g *given) Read(p []byte) (int, error) {
	if len(g.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), g.step)], g.b)
	g.b = g.b[n:]
	return n, nil
}

// FuzzFrames feeds any bytes in pieces of any size: what comes out is what went
// in.
func FuzzFrames(f *testing.F) {
	f.Add(wire.AppendQuery(nil, "SELECT 1"), 1)
	f.Add(append(wire.AppendEmpty(nil, wire.Sync), wire.AppendParse(nil, "s", "SELECT $1", nil)...), 3)
	f.Add([]byte{'Q', 0, 0, 0, 3}, 5)
	f.Add([]byte{'Q', 0xff, 0xff, 0xff, 0xff, 0}, 2)
	f.Add([]byte{'Q', 0x3f, 0xff, 0xff, 0xff, 'x'}, 100)
	f.Add(wire.AppendFrame(nil, 'd', make([]byte, 20<<10)), 7000)
	f.Fuzz(func(t *testing.T, in []byte, step int) {
		if step < 1 {
			step = 1
		}
		s := wire.NewStream(&given{b: in, step: step})
		rest := in
		for {
			typ, body, err := s.Next(wire.LargeLimit)
			if err != nil {
				if len(rest) >= wire.HeaderLen {
					n := int(int32(binary.BigEndian.Uint32(rest[1:])))
					short := n >= 4 && n <= wire.LargeLimit && n+1 > len(rest)
					bad := n < 4 || n > wire.LargeLimit
					if bad != errors.Is(err, wire.ErrFrameLength) || short && !errors.Is(err, io.EOF) || !bad && !short {
						t.Fatalf("%v for %.10q", err, rest)
					}
				}
				if c := cap(s.Buffered()); c > 2*len(in)+64<<10 {
					t.Fatalf("%d bytes of memory for %d", c, len(in))
				}
				return
			}
			frame := wire.AppendFrame(nil, typ, body)
			if !bytes.HasPrefix(rest, frame) {
				t.Fatalf("%q is not the beginning of %q", frame, rest)
			}
			rest = rest[len(frame):]
			s.Consume(len(frame))
			_, _ = wire.DecodeParse(body)
			_, _, _, _ = wire.BindNames(body)
			_, _, _ = wire.DescribeName(body)
			_, _ = wire.ErrorField(body, 'C')
			_ = wire.MapError(body, func(_ byte, v string) string { return v })
			_, _, _ = wire.DecodeParameterStatus(body)
			_, _, _, _ = wire.DecodeNotification(body)
			if rows, err := wire.DecodeRow(nil, body); err == nil && len(rows) > len(body) {
				t.Fatalf("%d values in %d bytes", len(rows), len(body))
			}
		}
	})
}

// TestWriteBlocked: bytes that do not fit into the socket are written when the peer reads, in
// order; a deadline and the end of the peer are errors.
func TestWriteBlocked(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		s, peer := ends(t, tcp)
		if tcp {
			_ = s.Conn().(*net.TCPConn).SetWriteBuffer(4 << 10)
			_ = peer.(*net.TCPConn).SetReadBuffer(4 << 10)
		}
		part := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, 10_000+i) }
		const parts = 8
		wrote := make(chan error, 1)
		go func() {
			for i := range parts {
				if n, err := s.Write(part(i)); err != nil || n != len(part(i)) {
					wrote <- fmt.Errorf("part %d: %d bytes, %w", i, n, err)
					return
				}
			}
			wrote <- nil
		}()
		for i := range parts {
			got := make([]byte, len(part(i)))
			if _, err := io.ReadFull(peer, got); err != nil || !bytes.Equal(got, part(i)) {
				t.Fatalf("part %d differs (%v)", i, err)
			}
		}
		if err := <-wrote; err != nil {
			t.Fatal(err)
		}
		_ = s.Conn().SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		for err := error(nil); !errors.Is(err, os.ErrDeadlineExceeded); {
			if _, err = s.Write(part(1)); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatal(err)
			}
		}
		_ = s.Conn().SetWriteDeadline(time.Time{})
		_ = peer.Close()
		for err := error(nil); err == nil; {
			_, err = s.Write(part(1))
		}
		_ = s.Conn().Close()
		if _, err := s.Write(part(1)); !errors.Is(err, net.ErrClosed) && tcp {
			t.Errorf("write after close: %v", err)
		}
	})
}

// TestReadable: bytes and an end of file wait, and a look takes nothing away.
func TestReadable(t *testing.T) {
	s, peer := ends(t, true)
	if s.Readable() {
		t.Fatal("readable before anything was sent")
	}
	becomes := func(what string) {
		t.Helper()
		for end := time.Now().Add(3 * time.Minute); !s.Readable(); time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("not readable after %s", what)
			}
		}
	}
	_, _ = peer.Write([]byte("word"))
	becomes("a word")
	if err := s.Need(4); err != nil || string(s.Buffered()) != "word" {
		t.Fatalf("read %q, %v", s.Buffered(), err)
	}
	if s.Readable() {
		t.Fatal("readable after all was read")
	}
	peer.Close()
	becomes("the end")
	if err := s.Fill(); !errors.Is(err, io.EOF) {
		t.Fatalf("at the end: %v", err)
	}
	s.Close()
	if !s.Readable() {
		t.Error("a closed connection counts as one that has something to say")
	}
	if pipe, _ := ends(t, false); !pipe.Readable() {
		t.Error("a connection without a descriptor counts as readable")
	}
}

// BenchmarkTurn is a question and its answer between two streams.
func BenchmarkTurn(b *testing.B) {
	s, peer := ends(b, true)
	go func() {
		p := wire.NewStream(peer)
		for p.Fill() == nil {
			n, _ := p.Write(p.Buffered())
			p.Consume(n)
		}
	}()
	question := wire.AppendQuery(nil, "SELECT 1")
	b.ReportAllocs()
	for b.Loop() {
		if err := s.WriteAndFill(question); err != nil {
			b.Fatal(err)
		}
		s.Consume(len(s.Buffered()))
	}
}

// TestRewind: bytes that were consumed come again, also after the memory has become too small for them and for what followed.
func TestRewind(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		s, peer := ends(t, tcp)
		var all []byte
		for i := range 40 {
			all = wire.AppendFrame(all, 'Q', bytes.Repeat([]byte{byte('a' + i)}, 1000))
		}
		go func() {
			for i := 0; i < len(all); i += 700 {
				_, _ = peer.Write(all[i:min(len(all), i+700)])
			}
		}()
		next := func(i int) {
			t.Helper()
			_, body, err := s.Next(1 << 20)
			if err != nil || body[0] != byte('a'+i) || len(body) != 1000 {
				t.Fatalf("frame %d: %q, %v", i, body[:1], err)
			}
			s.Consume(wire.HeaderLen + len(body))
		}
		at := 0
		for _, n := range []int{1, 3, 9, 12} {
			if err := s.Need(wire.HeaderLen); err != nil {
				t.Fatal(err)
			}
			s.Hold()
			for i := range n {
				next(at + i)
			}
			if !s.Holds() {
				t.Fatalf("%d frames are not held", n)
			}
			s.Rewind()
			for i := range n {
				next(at + i)
			}
			at += n
		}
		s.Hold()
		for ; at < 40; at++ {
			next(at)
			if at == 25 {
				s.Hold()
			}
		}
		if !s.Holds() {
			t.Error("14 frames are not held")
		}
		s.LetGo()
		if s.Holds() || len(s.Buffered()) > 0 {
			t.Error("still held")
		}
	})
}

// TestHoldBound: no more than a chunk is held.
func TestHoldBound(t *testing.T) {
	both(t, func(t *testing.T, tcp bool) {
		s, peer := ends(t, tcp)
		frame := wire.AppendFrame(nil, 'Q', make([]byte, 1000))
		go func() {
			for range 100 {
				_, _ = peer.Write(frame)
			}
		}()
		if err := s.Need(wire.HeaderLen); err != nil {
			t.Fatal(err)
		}
		s.Hold()
		for range 100 {
			_, body, err := s.Next(1 << 20)
			if err != nil {
				t.Fatal(err)
			}
			s.Consume(wire.HeaderLen + len(body))
		}
		if s.Holds() {
			t.Error("100 kB are held")
		}
	})
}
