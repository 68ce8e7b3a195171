package harness

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/config"
)

var (
	unevenMu sync.Mutex
	uneven   = map[string]*lazyTarget{}
)

// Uneven returns a proxy over a cluster of its own: the first of the shared
// servers, one for each weight. A shard of weight 0 has no rows of sharded
// tables. The servers are those of other clusters, so each wants databases of
// its own. A second call with the same weights returns the same proxy.
func Uneven(tb testing.TB, weights ...int) *Target {
	tb.Helper()
	name := unevenName(weights)
	unevenMu.Lock()
	lazy := uneven[name]
	if lazy == nil {
		lazy = &lazyTarget{}
		uneven[name] = lazy
	}
	unevenMu.Unlock()
	return lazy.get(tb, func(ctx context.Context) (*Target, error) {
		c, err := theCluster()
		if err != nil {
			return nil, err
		}
		if err := c.declare(ctx, c.etcd, name, weights); err != nil {
			return nil, err
		}
		t, stop, err := startWeft(ctx, name, func(cfg *config.Config) { cfg.Cluster = name })
		if err != nil {
			return nil, err
		}
		shared.onStop(stop)
		t.servers = t.servers[:len(weights)]
		return t, nil
	})
}

// BesideUneven starts another proxy over the cluster that Uneven has made, for one test.
func BesideUneven(tb testing.TB, weights ...int) *Target {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	name := unevenName(weights)
	t, stop, err := startWeft(ctx, name+"_beside", func(cfg *config.Config) { cfg.Cluster = name })
	if err != nil {
		tb.Fatalf("start weft: %v", err)
	}
	tb.Cleanup(func() {
		if err := stop(); err != nil {
			tb.Errorf("stop weft: %v", err)
		}
	})
	return t
}

func unevenName(weights []int) string {
	return "weights" + strings.ReplaceAll(strings.Trim(fmt.Sprint(weights), "[]"), " ", "_")
}
