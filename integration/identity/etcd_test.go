package identity

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"weft/directory"
)

// wipe empties an etcd.
func wipe(t *testing.T, endpoint string) {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Delete(t.Context(), "", clientv3.WithPrefix()); err != nil {
		t.Fatal(err)
	}
}

// enter writes a new cluster into a directory.
func enter(t *testing.T, store directory.Store, hosts ...string) *directory.Snapshot {
	t.Helper()
	var shards []directory.Shard
	for i, h := range hosts {
		shards = append(shards, directory.Shard{Name: fmt.Sprintf("shard-%d", i), Hosts: []string{h}, Options: map[string]string{"sslmode": "disable"}, Weight: 1})
	}
	snap, err := store.Update(t.Context(), func(*directory.Snapshot) (*directory.Snapshot, error) {
		return directory.New(64, "shard-0", shards), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return snap
}
