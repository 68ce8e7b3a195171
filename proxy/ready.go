package proxy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/primary"
)

// readiness is the result of the last look at the shards, kept for a moment: load balancers
// ask often, and each look logs in to every shard.
type readiness struct {
	mu    sync.Mutex // held during a look
	at    time.Time
	snap  *directory.Snapshot
	shard map[string]error // the shards that do not answer
}

// readyFor is how long the result of a look at the shards is kept.
const readyFor = 500 * time.Millisecond

// Ready reports whether the proxy can serve. It is not ready while the directory is unknown or another cluster's, while a server is not the
// shard it should be, and while it drains. Shards that are away do not matter: a failover must not make all proxies leave their load
// balancer. They are looked at only with verbose, or if the configuration asks for a share of the shards; missing then has a line for
// each that does not answer, and with verbose a line for each that has no primary.
func (s *Server) Ready(ctx context.Context, verbose bool) (missing []string, err error) {
	if s.drain.begun.Load() {
		return nil, errors.New("draining")
	}
	snap := s.cfg.Snapshot()
	if snap == nil {
		return nil, errors.New("the cluster has not been loaded yet")
	}
	if snap.Foreign != nil {
		return nil, snap.Foreign
	}
	want := s.conf().ReadyShards
	away := 0
	if verbose || want > 0 {
		missing = s.missing(ctx, snap)
		away = len(missing)
	}
	if verbose {
		missing = append(missing, s.health(snap)...)
	}
	if wrong := s.keeper.roster.Misplaced(snap); len(wrong) > 0 {
		e := wrong[0]
		return missing, fmt.Errorf("%s (%s)", e.Message, strings.TrimSuffix(e.Detail, "."))
	}
	if up := len(snap.Shards) - away; float64(up) < want*float64(len(snap.Shards)) {
		return missing, fmt.Errorf("%d of %d shards answer", up, len(snap.Shards))
	}
	return missing, nil
}

// missing returns a line for each shard that does not answer.
func (s *Server) missing(ctx context.Context, snap *directory.Snapshot) (lines []string) {
	down := s.readiness.look(ctx, s, snap)
	for i := range snap.Shards {
		name := snap.Shards[i].Name
		if err := down[name]; err != nil {
			if name == snap.Home {
				name += " (home)"
			}
			lines = append(lines, fmt.Sprintf("%s: %s", name, pgerr.From(err).Message))
		}
	}
	return lines
}

// health returns a line for each shard that has no primary as far as is known, and says what its servers are, without their addresses: whoever can reach the port may ask.
func (s *Server) health(snap *directory.Snapshot) (lines []string) {
	views := s.keeper.seeker.Views()
	for i := range snap.Shards {
		name := snap.Shards[i].Name
		if v := views[name]; v != nil && v.State != primary.Steady {
			roles := make([]string, len(v.Servers))
			for k := range v.Servers {
				roles[k] = v.Servers[k].Role.String()
			}
			lines = append(lines, fmt.Sprintf("%s is %s: %s", name, v.State, strings.Join(roles, ", ")))
		}
	}
	return lines
}

// look asks all shards at once whether they answer, unless the last answers are recent.
func (r *readiness) look(ctx context.Context, s *Server, snap *directory.Snapshot) map[string]error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < readyFor && r.snap == snap {
		return r.shard
	}
	var wg sync.WaitGroup
	errs := make([]error, len(snap.Shards))
	for i := range snap.Shards {
		errs[i] = errPanicked
		wg.Go(s.guarded("readiness", func() { errs[i] = s.answers(ctx, snap, &snap.Shards[i]) }))
	}
	wg.Wait()
	r.shard = map[string]error{}
	for i, err := range errs {
		if err != nil {
			r.shard[snap.Shards[i].Name] = err
		}
	}
	r.at, r.snap = time.Now(), snap
	return r.shard
}

// answers logs in to a shard as the service user, in a database with declared tables if
// there is one, because such a database says which shard it belongs to. A login that is
// turned away counts as an answer.
func (s *Server) answers(ctx context.Context, snap *directory.Snapshot, shard *directory.Shard) error {
	database := "postgres"
	if names := snap.Databases(); len(names) > 0 {
		database = names[0]
	}
	c, err := s.dialService(ctx, shard.Name, database)
	if err != nil {
		switch e := pgerr.From(err); e.Code {
		case pgerr.ConnectionFailure, pgerr.CannotConnectNow:
			return err
		case pgerr.ObjectNotInPrerequisiteState:
			return nil // the server answers; that it is the wrong one has been noted
		default:
			if ctx.Err() != nil {
				return err
			}
			return s.probe(ctx, s.pool.Shard(shard))
		}
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.Interrupt)()
	if _, err := c.Exec("SELECT"); err != nil {
		return pgerr.New(pgerr.ConnectionFailure, "shard %q does not answer", shard.Name).WithCause(err)
	}
	return nil
}
