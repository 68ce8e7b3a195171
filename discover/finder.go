package discover

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/primary"
)

// Config is what a Finder needs. All fields are required.
type Config struct {
	Log      *slog.Logger
	Source   *Source
	Snapshot func() *directory.Snapshot
	// Update changes the directory: see directory.Store.
	Update func(ctx context.Context, fn func(*directory.Snapshot) (*directory.Snapshot, error)) (*directory.Snapshot, error)
	// View returns what is known of the servers of a shard, nil if they are not watched.
	View func(shard string) *primary.View
	// Suspect has the servers of a shard probed at once.
	Suspect func(ctx context.Context, shard string)
	Guard   func(where string, f func()) func()
}

// Finder keeps the hosts of shards in the directory up to date.
type Finder struct {
	cfg Config
	// pause is how long a Finder waits before it looks again, and hurry is the same while a shard has no primary.
	pause, hurry time.Duration
}

// New returns a Finder that does nothing before Run.
func New(cfg Config) *Finder { return &Finder{cfg, 5 * time.Second, time.Second} }

// Run looks for servers until ctx ends.
func (f *Finder) Run(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	running := map[string]context.CancelFunc{}
	for {
		wanted := map[string]directory.Shard{}
		if snap := f.cfg.Snapshot(); snap != nil && snap.Foreign == nil {
			for i := range snap.Shards {
				if sh := &snap.Shards[i]; sh.Discovered() {
					wanted[sh.Name+" "+sh.Source()] = *sh
				}
			}
		}
		for key, stop := range running {
			if _, ok := wanted[key]; !ok {
				stop()
				delete(running, key)
			}
		}
		for key, sh := range wanted {
			if running[key] == nil {
				sctx, stop := context.WithCancel(ctx)
				running[key] = stop
				wg.Go(f.cfg.Guard("servers of a shard", func() { f.find(sctx, sh) }))
			}
		}
		select {
		case <-ctx.Done():
			for _, stop := range running {
				stop()
			}
			return
		case <-time.After(f.hurry):
		}
	}
}

// find looks for the servers of a shard until ctx ends.
func (f *Finder) find(ctx context.Context, sh directory.Shard) {
	var wg sync.WaitGroup
	defer wg.Wait()
	members, leader := make(chan struct{}, 1), make(chan struct{}, 1)
	if sh.Patroni != nil && f.cfg.Source.Keys != nil {
		wg.Go(f.cfg.Guard("keys of Patroni", func() { f.watch(ctx, sh.Patroni.Prefix(), members, leader) }))
	}
	told := ""
	for ctx.Err() == nil {
		if err := f.look(ctx, sh.Name); err != nil && ctx.Err() == nil && err.Error() != told {
			told = err.Error()
			f.cfg.Log.Warn("the servers of a shard are not found: those that were known are used", "shard", sh.Name, "err", err)
		} else if err == nil {
			told = ""
		}
		f.rest(ctx, sh.Name, members, leader)
	}
}

// rest waits until it is time to look again. It has the servers probed when Patroni has another leader.
func (f *Finder) rest(ctx context.Context, shard string, members, leader <-chan struct{}) {
	pause := f.pause
	if !f.cfg.View(shard).Open() {
		pause = f.hurry
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-members:
		case <-leader:
			hint, stop := context.WithTimeout(ctx, f.hurry)
			f.cfg.Suspect(hint, shard)
			stop()
			continue
		}
		return
	}
}

// watch tells of changes of Patroni's keys until ctx ends.
func (f *Finder) watch(ctx context.Context, prefix string, members, leader chan<- struct{}) {
	for ctx.Err() == nil {
		_ = f.cfg.Source.Keys.WatchKeys(ctx, prefix, func(key string) {
			news := members
			switch key = strings.TrimPrefix(key, prefix); {
			case key == "leader", key == "failover", key == "sync":
				news = leader
			case !strings.HasPrefix(key, "members/"):
				return
			}
			select {
			case news <- struct{}{}:
			default:
			}
		}) // begun again: until then the servers are looked for from time to time
		select {
		case <-ctx.Done():
		case <-time.After(f.hurry):
		}
	}
}

// errSame says that the directory has the hosts already, or that the shard is found in another way now.
var errSame = errors.New("nothing to change")

// look finds the servers of a shard, and tells the directory of those that have changed.
func (f *Finder) look(ctx context.Context, shard string) error {
	sh, ok := f.cfg.Snapshot().Shard(shard)
	if !ok || !sh.Discovered() {
		return nil
	}
	found, err := f.cfg.Source.Hosts(ctx, sh)
	if err != nil {
		return err
	}
	source, view := sh.Source(), f.cfg.View(shard)
	next := func(old []string) []string { return merge(old, found, view.Answers) }
	if slices.Equal(next(sh.Hosts), sh.Hosts) {
		return nil
	}
	_, err = f.cfg.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		if old == nil {
			return nil, directory.ErrNoCluster
		}
		changed := old.Clone()
		sh, ok := changed.Shard(shard)
		if !ok || sh.Source() != source || slices.Equal(next(sh.Hosts), sh.Hosts) {
			return nil, errSame
		}
		sh.Hosts = next(sh.Hosts)
		return changed, nil
	})
	if errors.Is(err, errSame) {
		return nil
	}
	if err == nil {
		f.cfg.Log.Info("a shard has other servers", "shard", shard, "hosts", strings.Join(next(sh.Hosts), ","), "before", strings.Join(sh.Hosts, ","))
	}
	return err
}
