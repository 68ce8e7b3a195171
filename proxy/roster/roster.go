package roster

import (
	"context"
	"log/slog"
	"slices"

	"weft/directory"
	"weft/identity"
	"weft/pgerr"
	"weft/pool"
)

// Directory is the part of the directory's store that a Roster uses.
type Directory interface {
	Update(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error)
	Proxies(ctx context.Context) ([]directory.Proxy, error)
}

// Config is what a Roster needs. All fields are required, except where it says otherwise.
type Config struct {
	// Proxy is the id of this proxy.
	Proxy    string
	Log      *slog.Logger
	Snapshot func() *directory.Snapshot
	// Directory may be nil if neither EnterSystems nor TakeShares is called.
	Directory Directory
	// MaxPerShard returns how many connections to a shard this proxy may open.
	MaxPerShard func() int
	// SetShare holds this proxy to a number of connections to a shard.
	SetShare func(shard string, n int)
	// Count is told of each check of a server.
	Count func(shard string, refused bool)
}

// Roster is what is known of the shards' servers. Its methods may be called by several goroutines.
type Roster struct {
	cfg     Config
	servers servers
	shares  shares
}

// New returns a Roster that knows no server.
func New(cfg Config) *Roster { return &Roster{cfg: cfg} }

// Verify judges the identity of a new backend's server. The error is for the client.
func (r *Roster) Verify(l pool.Login) error {
	snap := r.cfg.Snapshot()
	spec, ok := snap.Shard(l.Shard)
	if !ok {
		return nil // the shard is leaving; statements under way may end
	}
	want := identity.Expected{Cluster: snap.Cluster, Shard: l.Shard, System: spec.System}
	err := want.Check(l.Found, l.Database)
	if r.servers.note(l, err) {
		r.cfg.Log.Error("a shard is not the server it should be: nothing is sent there", "shard", l.Shard, "address", l.Address, "database", l.Database,
			"expected", want.String(), "found", l.Found.String())
	}
	r.cfg.Count(l.Shard, err != nil)
	if err != nil {
		return err
	}
	r.setShare(l.Shard)
	return nil
}

// Misplaced returns why servers of a snapshot's shards have been refused.
func (r *Roster) Misplaced(snap *directory.Snapshot) []*pgerr.Error { return r.servers.misplaced(snap) }

// EnterSystems makes the directory remember which servers the shards are.
func (r *Roster) EnterSystems(ctx context.Context, snap *directory.Snapshot) {
	found := map[string]string{}
	for i := range snap.Shards {
		if sh := &snap.Shards[i]; sh.System == "" {
			if system := r.servers.system(sh.Name); system != "" {
				found[sh.Name] = system
			}
		}
	}
	if len(found) == 0 {
		return
	}
	_, err := r.cfg.Directory.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
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
		r.cfg.Log.Warn("the directory was not told which servers the shards are", "err", err)
	}
}
