package server

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"weft/directory"
	"weft/pool"
	"weft/primary"
)

// roleSQL asks a server whether it is a standby, for its timeline, and how far its log
// goes. What a server's role or the user's rights forbid is NULL or not evaluated. A
// standby that follows nobody knows the timeline of its last checkpoint.
const roleSQL = `SELECT r.standby,
  CASE WHEN r.standby THEN coalesce((SELECT received_tli FROM pg_catalog.pg_stat_wal_receiver), (SELECT greatest(c.timeline_id, r.min_recovery_end_timeline) FROM pg_catalog.pg_control_checkpoint() c, pg_catalog.pg_control_recovery() r))
    ELSE ('x' || pg_catalog.left(pg_catalog.pg_walfile_name(pg_catalog.pg_current_wal_lsn()), 8))::pg_catalog.bit(32)::pg_catalog.int4 END,
  pg_catalog.pg_wal_lsn_diff(CASE WHEN r.standby THEN pg_catalog.pg_last_wal_replay_lsn() ELSE pg_catalog.pg_current_wal_lsn() END, '0/0')::pg_catalog.int8
FROM (SELECT pg_catalog.pg_is_in_recovery() AS standby) r`

// durability asks a primary what its commits wait for. What the user's rights forbid is left out.
func durability(ctx context.Context, c *pool.Conn, h *Host) {
	rows, err := exec(ctx, c, "SELECT pg_catalog.current_setting('synchronous_standby_names')")
	if err != nil || len(rows) != 1 {
		return
	}
	h.SyncNames = rows[0][0]
	for _, sql := range []string{primary.HastySQL, primary.HastyFileSQL} {
		if rows, err := exec(ctx, c, sql); err == nil {
			h.Hasty = append(h.Hasty, primary.ReadHasty(rows)...)
		}
	}
}

// Ping finds out which hosts answer a query, which of them are standbys, and how far they
// are.
func (s *Servers) Ping(ctx context.Context, shards []directory.Shard, timeout time.Duration) []Host {
	return s.each(ctx, shards, timeout, func(ctx context.Context, shard *directory.Shard, h *Host) error {
		c, err := s.dialAny(ctx, shard, h)
		if err != nil {
			return err
		}
		defer c.Terminate()
		rows, err := exec(ctx, c, roleSQL)
		if err != nil {
			return err
		}
		if len(rows) != 1 || len(rows[0]) != 3 {
			return fmt.Errorf("%s does not say what it is", h.Address)
		}
		h.Standby = rows[0][0] == "t"
		h.Timeline, _ = strconv.Atoi(rows[0][1])             // empty: unknown
		h.Position, _ = strconv.ParseInt(rows[0][2], 10, 64) // empty: unknown
		if !h.Standby {
			durability(ctx, c, h)
		}
		return nil
	})
}
