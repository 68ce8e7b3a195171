package directory

import (
	"errors"
	"testing"
	"time"
)

// A proxy of an older version is asked before a snapshot has something that the proxy cannot read.
func TestLevel(t *testing.T) {
	plain := &Snapshot{Tables: []Table{{Name: "users"}}}
	halted := plain.Clone()
	halted.Halt = &Halt{Key: "k", For: time.Second}
	linked := halted.Clone()
	linked.Tables[0].Links = "shard"
	for level, s := range []*Snapshot{plain, halted, linked} {
		for proxy := range Level + 1 {
			err := Readable(s, []Proxy{{ID: "p", Level: proxy}})
			if old := errors.Is(err, ErrOldProxy); old != (proxy < level) {
				t.Errorf("a snapshot of level %d and a proxy of level %d: %v", level, proxy, err)
			}
		}
	}
	if Rises(nil, plain) || !Rises(plain, linked) || !Rises(halted, linked) || Rises(linked, halted) {
		t.Error("the level rises at the wrong time")
	}
}
