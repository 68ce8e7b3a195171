package proxy

import (
	"bytes"
	"encoding/binary"

	"weft/wire"
)

// keptTag holds back the CommandComplete of a statement's answer and everything behind it: the
// client hears of the last statement of a transaction when the transaction is committed.
type keptTag struct {
	rem  int // bytes still to pass, of a message whose beginning has passed
	kept []byte
}

// take returns the part of b that may go to the client now; b was meant for the client.
// Messages may be cut anywhere behind their headers, but CommandComplete arrives whole.
func (k *keptTag) take(b []byte) []byte {
	if k.kept != nil {
		k.kept = append(k.kept, b...)
		return nil
	}
	n := min(k.rem, len(b))
	k.rem -= n
	for n < len(b) {
		if b[n] == wire.CommandComplete {
			k.kept = bytes.Clone(b[n:])
			return b[:n]
		}
		l := int(binary.BigEndian.Uint32(b[n+1:])) + 1
		k.rem = max(n+l-len(b), 0)
		n += l - k.rem
	}
	return b
}

// rest returns the bytes that were held back, without the CommandComplete if the commit has
// failed.
func (k *keptTag) rest(committed bool) []byte {
	if committed || k.kept == nil {
		return k.kept
	}
	return k.kept[int(binary.BigEndian.Uint32(k.kept[1:]))+1:]
}
