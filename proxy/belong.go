package proxy

import (
	"context"
	"slices"
	"sync"
	"time"

	"weft/directory"
	"weft/identity"
	"weft/pgerr"
	"weft/pool"
)

// A shard's server says which cluster and shard it belongs to with every new connection (see
// package identity). A server that does not fit is refused before a statement is sent, and keeps
// /readyz from saying that all is well.

// belonging is what is known of the identities of the shards' servers.
type belonging struct {
	mu sync.Mutex
	// wrong are the servers that do not belong to their shard, by shard.
	wrong map[string]misplaced
	// systems are the system identifiers of the servers that do belong, by shard.
	systems map[string]string
	// connections is how many connections each server takes from users that are not superusers,
	// by shard.
	connections map[string]int
}

// misplaced is a server that has been refused.
type misplaced struct {
	login pool.Login
	err   *pgerr.Error
}

// verify judges the identity of a new backend's server.
func (k *keeper) verify(l pool.Login) error {
	snap := k.s.cfg.Snapshot()
	spec, ok := snap.Shard(l.Shard)
	if !ok {
		return nil // the shard is leaving; statements under way may end
	}
	want := identity.Expected{Cluster: snap.Cluster, Shard: l.Shard, System: spec.System}
	err := want.Check(l.Found, l.Database)
	if k.belonging.note(l, err) {
		k.s.log.Error("a shard is not the server it should be: nothing is sent there", "shard", l.Shard, "address", l.Address, "database", l.Database,
			"expected", want.String(), "found", l.Found.String())
	}
	refused := k.s.metrics.misplaced.WithLabelValues(l.Shard) // shown from 0 on: an alert must see it grow
	if err != nil {
		refused.Inc()
		return err
	}
	k.shares.set(k.s, l.Shard)
	return nil
}

// note keeps the result of a check, and reports whether it is news that a server is wrong.
func (b *belonging) note(l pool.Login, err *pgerr.Error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	was, known := b.wrong[l.Shard]
	if err == nil {
		// Another database of the shard may still belong elsewhere.
		if known && was.login.Database == l.Database {
			delete(b.wrong, l.Shard)
		}
		if b.systems == nil {
			b.systems, b.connections = map[string]string{}, map[string]int{}
		}
		b.systems[l.Shard], b.connections[l.Shard] = l.Found.System, l.Found.Connections
		return false
	}
	if b.wrong == nil {
		b.wrong = map[string]misplaced{}
	}
	b.wrong[l.Shard] = misplaced{login: l, err: err}
	return !known || was.err.Message != err.Message || was.login.Address != l.Address
}

// misplaced returns the servers of a snapshot's shards that have been refused.
func (b *belonging) misplaced(snap *directory.Snapshot) []misplaced {
	b.mu.Lock()
	defer b.mu.Unlock()
	var out []misplaced
	for i := range snap.Shards {
		if m, ok := b.wrong[snap.Shards[i].Name]; ok {
			out = append(out, m)
		}
	}
	return out
}

// system returns the identifier of a shard's server, "" as long as it is not known.
func (b *belonging) system(shard string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.systems[shard]
}

// room returns how many connections a shard's server takes, 0 if that is not known.
func (b *belonging) room(shard string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.connections[shard]
}

// keepInterval is how often the directory is told of new servers, and the shards are given
// copies of the directory.
const keepInterval = 2 * time.Second

// keepDirectory sees to it that the directory knows the shards' servers, and that the servers
// have copies of the directory.
func (k *keeper) keepDirectory(ctx context.Context) {
	if k.s.cfg.Directory == nil {
		return
	}
	tick := time.NewTicker(keepInterval)
	defer tick.Stop()
	for {
		if snap := k.s.cfg.Snapshot(); snap != nil && snap.Foreign == nil {
			k.enterSystems(ctx, snap)
			k.copies.keep(ctx, k.s, snap, "")
			k.shares.look(ctx, k.s)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// enterSystems makes the directory remember which servers the shards are.
func (k *keeper) enterSystems(ctx context.Context, snap *directory.Snapshot) {
	found := map[string]string{}
	for i := range snap.Shards {
		if sh := &snap.Shards[i]; sh.System == "" {
			if system := k.belonging.system(sh.Name); system != "" {
				found[sh.Name] = system
			}
		}
	}
	if len(found) == 0 {
		return
	}
	_, err := k.s.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		next := old.Clone()
		for i := range next.Shards {
			sh := &next.Shards[i]
			// The hosts may have changed meanwhile: found is about the old ones.
			if was, ok := snap.Shard(sh.Name); ok && sh.System == "" && slices.Equal(was.Hosts, sh.Hosts) {
				sh.System = found[sh.Name]
			}
		}
		return next, nil
	})
	if err != nil && ctx.Err() == nil {
		k.s.log.Warn("the directory was not told which servers the shards are", "err", err)
	}
}

// foreignDirectory is the error that tells a client why nothing is routed.
func foreignDirectory(err error) *pgerr.Error {
	return pgerr.New(pgerr.CannotConnectNow, "weft cannot tell where rows are: %s", err.Error()).
		WithHint("Was etcd lost and filled anew, or does weft.yaml name another one? weft status shows what it describes; weft recover --directory rebuilds a directory from the shards.").WithCause(err)
}
