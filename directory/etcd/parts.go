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

// decode reads the snapshot that head describes, with changed parts. rev, if
// not 0, is the revision at which these were all that changed since p.since.
func (p *parts) decode(head *mvccpb.KeyValue, changed []*mvccpb.KeyValue, prefix string, rev int64) (*directory.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, kv := range changed {
		p.decoder.Add(strings.TrimPrefix(string(kv.Key), prefix), kv.Value)
	}
	p.rev = max(p.rev, rev)
	return p.decoder.Decode(head.Value, head.ModRevision)
}
