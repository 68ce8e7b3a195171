package finish

import (
	"errors"
	"io"
	"sync"

	"weft/pool"
)

// feedChunk is how much is handed from the session to the COPY at once: a frame.
const feedChunk = 64 << 10

// errAborted ends a COPY whose rows nobody wants any more.
var errAborted = errors.New("the query has ended")

func lost(err error) bool { return errors.Is(err, pool.ErrLost) }

// feed is a pipe of two buffers: one is filled while the other is sent. One
// goroutine writes, one reads.
type feed struct {
	full, free chan []byte
	ended      chan struct{} // closed when nobody reads any more
	stopped    chan struct{} // closed when what is written is not to be sent
	stopOnce   sync.Once
	cause      error // why it was stopped

	filling []byte
	done    bool
	reading []byte // of the reader, the rest of sending
	sending []byte
}

func newFeed() *feed {
	f := &feed{
		full: make(chan []byte, 1), free: make(chan []byte, 2),
		ended: make(chan struct{}), stopped: make(chan struct{}),
	}
	f.filling = make([]byte, 0, feedChunk)
	f.free <- make([]byte, 0, feedChunk)
	return f
}

// write copies p. It returns false if nobody reads any more.
func (f *feed) write(p []byte) bool {
	for {
		n := min(len(p), feedChunk-len(f.filling))
		f.filling = append(f.filling, p[:n]...)
		if p = p[n:]; len(p) == 0 {
			return true
		}
		if !f.flush() {
			return false
		}
	}
}

func (f *feed) writeString(s string) { f.write([]byte(s)) }

// flush hands the buffer over and waits for another.
func (f *feed) flush() bool {
	select {
	case f.full <- f.filling:
	case <-f.ended:
		return false
	}
	select {
	case f.filling = <-f.free:
		return true
	case <-f.ended:
		f.filling = f.filling[:0:0]
		return false
	}
}

// finish says that all has been written.
func (f *feed) finish() {
	if f.done {
		return
	}
	f.done = true
	select {
	case f.full <- f.filling:
	case <-f.ended:
	}
	close(f.full)
}

// stop makes the reader fail with err, unless it has ended.
func (f *feed) stop(err error) {
	f.stopOnce.Do(func() {
		f.cause = err
		close(f.stopped)
	})
}

// end says that nobody reads any more.
func (f *feed) end() { close(f.ended) }

// Read implements io.Reader for the COPY.
func (f *feed) Read(p []byte) (int, error) {
	if len(f.reading) == 0 {
		if f.sending != nil {
			f.free <- f.sending[:0] // there are two, it has room for both
			f.sending = nil
		}
		select {
		case <-f.stopped:
			return 0, f.cause
		default:
		}
		select {
		case b, ok := <-f.full:
			if !ok {
				return 0, io.EOF
			}
			f.sending, f.reading = b, b
		case <-f.stopped:
			return 0, f.cause
		}
	}
	n := copy(p, f.reading)
	f.reading = f.reading[n:]
	return n, nil
}
