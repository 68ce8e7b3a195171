package server

import (
	"context"

	"weft/directory"
	"weft/pool"
	"weft/primary"
)

// Sight asks one server of a shard whether it is a primary, and for its generation.
func (s *Servers) Sight(ctx context.Context, shard *directory.Shard, address string) (primary.Sighting, error) {
	c, err := s.dialAny(ctx, shard, &Host{Shard: shard.Name, Address: address})
	if err != nil {
		return primary.Failed(err), err
	}
	defer c.Terminate()
	return sight(ctx, c)
}

// sight asks the server of a connection what it is.
func sight(ctx context.Context, c *pool.Conn) (primary.Sighting, error) {
	rows, err := exec(ctx, c, primary.Probe)
	if err != nil {
		return primary.Failed(err), err
	}
	seen, err := primary.ReadSighting(rows)
	if err != nil || seen.Kind != primary.Primary || seen.Generation.Timeline < 2 {
		return seen, err
	}
	// A role that may not read files of the server does not learn the fork. The address tells servers apart all the same.
	if rows, err := exec(ctx, c, primary.HistorySQL(seen.Generation.Timeline)); err == nil && len(rows) == 1 && len(rows[0]) == 1 {
		seen.Generation.Fork, _ = primary.ReadFork(rows[0][0])
	}
	return seen, nil
}
