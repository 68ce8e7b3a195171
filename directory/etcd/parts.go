package etcd

import (
	"strings"
	"sync"

	"go.etcd.io/etcd/api/v3/mvccpb"

	"weft/directory"
)

// parts shares what was read of the snapshot's parts among all that read: a
// change of the head alone then costs one small value, and not 10,000 tables.
type parts struct {
	mu      sync.Mutex
	decoder directory.Decoder
	rev     int64 // every part as of this revision has been given to decoder
}

func (p *parts) since() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rev
}

// decode reads the snapshot that head describes, with the parts that have changed. rev is the
// revision up to which changed has all changes since p.since; 0 if changed may lack some.
func (p *parts) decode(head *mvccpb.KeyValue, changed []*mvccpb.KeyValue, prefix string, rev int64) (*directory.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kv := range changed {
		p.decoder.Add(strings.TrimPrefix(string(kv.Key), prefix), kv.Value)
	}
	p.rev = max(p.rev, rev)
	return p.decoder.Decode(head.Value, head.ModRevision)
}
