package wire

import "sync"

// chunk is what is borrowed while bytes are in flight. It holds most frames
// whole; a larger frame that must be seen whole gets memory of its own, and
// one that need not be seen whole passes through in pieces.
const chunk = 16 << 10

var chunks = sync.Pool{New: func() any { return new([chunk]byte) }}

// Out collects bytes to be written. It borrows memory with the first byte and
// gives it back when emptied, so an idle one costs nothing.
type Out struct {
	B     []byte
	owned *[chunk]byte
}

// Grow makes sure that B has memory to append to. Append through B after it.
func (o *Out) Grow() {
	if o.B == nil {
		o.owned = chunks.Get().(*[chunk]byte)
		o.B = o.owned[:0]
	}
}

// Len returns how many bytes wait.
func (o *Out) Len() int { return len(o.B) }

// Full reports whether it is time to write.
func (o *Out) Full() bool { return len(o.B) >= chunk/2 }

// Reset empties it and gives the memory back.
func (o *Out) Reset() {
	o.B = nil
	if o.owned != nil {
		chunks.Put(o.owned)
		o.owned = nil
	}
}
