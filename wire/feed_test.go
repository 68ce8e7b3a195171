package wire_test

import (
	"net"
	"testing"

	"weft/wire"
)

// TestFeed: bytes that are fed come before those of the peer, which wait.
func TestFeed(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	s := wire.NewStream(ours)
	defer s.Close()
	go func() { _, _ = theirs.Write([]byte("abc")) }()
	if err := s.Need(3); err != nil {
		t.Fatal(err)
	}
	s.Hold()
	s.Consume(1)
	restore := s.Feed([]byte("fed"))
	again := s.Feed([]byte("more"))
	if got := string(s.Buffered()); got != "more" {
		t.Errorf("buffered %q", got)
	}
	if s.Consume(4); s.Fill() == nil {
		t.Error("more bytes than were fed")
	}
	again()
	if s.Hold(); s.Holds() {
		t.Error("fed bytes are held")
	}
	if got := string(s.Buffered()); got != "fed" {
		t.Errorf("buffered %q", got)
	}
	s.Consume(3)
	restore()
	if got := string(s.Buffered()); got != "bc" || !s.Holds() {
		t.Errorf("buffered %q, held %t", got, s.Holds())
	}
	if s.Rewind(); string(s.Buffered()) != "abc" {
		t.Errorf("rewound to %q", s.Buffered())
	}
}
