package finish

import (
	"errors"
	"io"
	"sync"

	"weft/pool"
)

// feedChunk is how many bytes the session hands to the COPY at once: a frame.
const feedChunk = 64 << 10

// errAborted ends a COPY whose rows are not needed any more.
var errAborted = errors.New("the query has ended")

func lost(err error) bool { return errors.Is(err, pool.ErrLost) }

// feed is a pipe of two buffers: one is filled while the other is sent. One goroutine writes and
// another one reads.
type feed struct {
	full, free chan []byte
	ended      chan struct{} // closed when the reader has ended
	stopped    chan struct{} // closed when the reader is to fail with cause
	stopOnce   sync.Once
	cause      error // the error that the reader fails with

	filling []byte
	done    bool
	reading []byte // the part of sending that has not been read
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

// write copies p into the pipe. It returns false if the reader has ended.
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

// flush hands the buffer to the reader and waits for an empty one. It returns false if the reader
// has ended.
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

// finish hands over the last buffer and marks the end of the data.
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

// stop makes the reader fail with err, unless the reader has ended.
func (f *feed) stop(err error) {
	f.stopOnce.Do(func() {
		f.cause = err
		close(f.stopped)
	})
}

// end says that the reader has ended.
func (f *feed) end() { close(f.ended) }

// Read implements io.Reader for the COPY.
func (f *feed) Read(p []byte) (int, error) {
	if len(f.reading) == 0 {
		if f.sending != nil {
			f.free <- f.sending[:0] // never blocks: free has room for both buffers
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
