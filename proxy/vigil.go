package proxy

import (
	"context"
	"encoding/json"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/proxy/peer"
	"weft/proxy/vigil"
)

// newVigil returns what watches the other proxies.
func newVigil(s *Server) *vigil.Vigil {
	return vigil.New(vigil.Config{
		Self: s.cfg.Proxy, Log: s.log,
		Proxies:  func(ctx context.Context) ([]directory.Proxy, error) { return s.cfg.Directory.Proxies(ctx) },
		Backends: backendsOf, Exec: s.execAnywhere,
		Steady:  func() bool { return s.keeper.pulse.steady(time.Now()) },
		Guarded: func(f func()) func() { return s.guarded("other proxies", f) },
	})
}

// watchPeers watches the other proxies until ctx ends. A proxy without a directory knows no others.
func (s *Server) watchPeers(ctx context.Context) {
	if s.cfg.Directory != nil && s.cfg.Proxy != "" {
		s.keeper.vigil.Run(ctx)
	}
}

// backendsOf asks a proxy for its backends.
func backendsOf(ctx context.Context, other directory.Proxy, known uint64) (a peer.Backends, err error) {
	rows, err := peer.Ask(ctx, other, peer.Question{Backends: true, Known: known})
	if err != nil {
		return a, err
	}
	return a, json.Unmarshal(rows, &a)
}

// execAnywhere runs a query of the service user on a shard, in whichever database there is. A shard
// that does not answer until ctx ends is left.
func (s *Server) execAnywhere(ctx context.Context, shard, sql string) ([][]string, error) {
	database := "postgres"
	if names := s.cfg.Snapshot().Databases(); len(names) > 0 {
		database = names[0]
	}
	c, err := s.dialService(ctx, shard, database)
	if err != nil {
		return nil, err
	}
	defer c.Terminate()
	defer context.AfterFunc(ctx, c.(*pool.Spare).Abandon)()
	return c.Exec(sql)
}
