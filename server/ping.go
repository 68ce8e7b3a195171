package server

import (
	"context"
	"strconv"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/primary"
)

// durability asks a primary what its commits wait for. What the user's rights forbid is left out.
func durability(ctx context.Context, c *pool.Conn, h *Host) {
	for _, sql := range []string{primary.HastySQL, primary.HastyFileSQL} {
		if rows, err := exec(ctx, c, sql); err == nil {
			h.Hasty = append(h.Hasty, primary.ReadHasty(rows)...)
		}
	}
}

// halted asks a standby whether an operator has paused its replay.
func halted(ctx context.Context, c *pool.Conn) bool {
	rows, err := exec(ctx, c, "SELECT pg_catalog.pg_is_wal_replay_paused()")
	return err == nil && len(rows) == 1 && rows[0][0] == "t"
}

// prepared asks a server how many prepared transactions it can hold.
func prepared(ctx context.Context, c *pool.Conn) int {
	rows, err := exec(ctx, c, "SELECT pg_catalog.current_setting('max_prepared_transactions')")
	if err != nil || len(rows) != 1 {
		return -1
	}
	n, err := strconv.Atoi(rows[0][0])
	if err != nil {
		return -1
	}
	return n
}

// Ping finds out which hosts answer a query, which of them are standbys, and how far they
// are.
func (s *Servers) Ping(ctx context.Context, shards []directory.Shard, timeout time.Duration) Hosts {
	hosts := s.each(ctx, shards, timeout, func(ctx context.Context, shard *directory.Shard, h *Host) error {
		c, err := s.dialAny(ctx, shard, h)
		if err != nil {
			return err
		}
		defer c.Terminate()
		h.Seen.At = time.Now()
		seen, err := sight(ctx, c)
		if err != nil {
			return err
		}
		seen.At = h.Seen.At
		h.Prepared = prepared(ctx, c)
		h.Seen, h.Standby, h.Timeline, h.SyncNames = seen, seen.Kind == primary.Standby, int(seen.Generation.Timeline), seen.SyncNames
		if h.Standby {
			h.Halted = halted(ctx, c)
		} else {
			durability(ctx, c, h)
		}
		return nil
	})
	for i := range hosts {
		if h := &hosts[i]; h.Err != nil {
			h.Seen = primary.Failed(h.Err)
		}
	}
	return hosts
}

// Hosts are servers of shards that were asked.
type Hosts []Host

// Judge returns what the hosts of a shard are to it, as a proxy would judge that has asked them once.
func (h Hosts) Judge(shard *directory.Shard) *primary.View {
	var j primary.Judge
	now := time.Now()
	j.Know(shard.Generation(), now)
	j.Heed(shard.Ruling, shard.Generation(), now)
	j.SetHosts(shard.Hosts, now)
	j.Fence(shard.Fence, now)
	for range 2 { // how far standbys are behind is known when all have been asked
		for i := range h {
			if h[i].Shard == shard.Name {
				j.See(h[i].Address, h[i].Seen, now)
			}
		}
	}
	return j.View(now)
}
