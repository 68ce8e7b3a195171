package proxy

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"weft/directory"
	"weft/pgerr"
	"weft/rebalance"
	"weft/reshard"
	"weft/schema"
)

// assumedPace is how many bytes per second a plan expects a job to carry. It is what one pair of
// shards does on ordinary disks while others get half of the time.
const assumedPace = 20 << 20

// rebalance plans which buckets of the session's database should change shards. With dry_run it
// returns the plan, otherwise it starts a job and returns its ID.
func (u *utility) rebalance(ctx context.Context, args map[string]string) ([][]string, error) {
	srv := u.s.srv
	if err := srv.mover.MayMove(ctx, u.s.db.Name, u.s.login.user); err != nil {
		return nil, err
	}
	o, err := rebalanceOptions(args)
	if err != nil {
		return nil, err
	}
	var options directory.MoveOptions
	if err := moveOptions(args, &options); err != nil {
		return nil, err
	}
	sizes, err := srv.mover.SampleBuckets(ctx, u.s.db.Name)
	if err != nil {
		return nil, err
	}
	if args["dry_run"] == "true" {
		snap, err := srv.cfg.Directory.Load(ctx)
		if err != nil {
			return nil, err
		}
		return planRows(snap, planMoves(snap, u.s.db.Name, sizes, o), sizes), nil
	}
	move := u.newMove(directory.MoveRebalance)
	move.Options = options
	nothing := false
	err = srv.moving.jobs.update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		moves := planMoves(old, move.Database, sizes, o)
		if nothing = len(moves) == 0; nothing {
			return old, nil
		}
		target := slices.Clone(old.PlacementOf(move.Database, ""))
		for _, m := range moves {
			target[m.Bucket] = uint16(m.To)
		}
		return withMove(old, move, target)
	})
	if err != nil {
		return nil, err
	}
	if nothing {
		u.s.out.tell(&pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: "every shard is close enough to its share: there is nothing to move"})
		return [][]string{}, nil
	}
	return [][]string{{move.ID}}, nil
}

// rebalanceOptions reads the arguments that bound a plan.
func rebalanceOptions(args map[string]string) (o rebalance.Options, err error) {
	switch args["strategy"] { // as Citus calls them
	case "by_shard_count":
		args["strategy"] = string(rebalance.Buckets)
	case "by_disk_size":
		args["strategy"] = string(rebalance.Bytes)
	}
	if o.Strategy, err = rebalance.ParseStrategy(args["strategy"]); err != nil {
		return o, pgerr.New(pgerr.InvalidParameterValue, "%s", err.Error())
	}
	if o.Strategy == rebalance.Load || o.Strategy == rebalance.Mixed {
		return o, pgerr.New(pgerr.FeatureNotSupported, "the load of buckets is not counted, so strategy %q has nothing to go by", o.Strategy).
			WithHint("Use 'bytes' or 'buckets'. To take a busy bucket elsewhere, call weft.move_buckets.")
	}
	if text := args["threshold"]; text != "" {
		if o.Threshold, err = strconv.ParseFloat(text, 64); err != nil || !(o.Threshold > 0 && o.Threshold <= 1) {
			return o, pgerr.New(pgerr.InvalidParameterValue, "threshold %q is not a part of a shard's share, such as 0.1", text)
		}
	}
	if text := args["max_moves"]; text != "" {
		if o.MaxMoves, err = strconv.Atoi(text); err != nil || o.MaxMoves < 1 {
			return o, pgerr.New(pgerr.InvalidParameterValue, "max_moves %q is not a number of buckets", text)
		}
	}
	if v, given := args["dry_run"]; given && v != "true" && v != "false" {
		return o, pgerr.New(pgerr.InvalidParameterValue, "dry_run %q is not true or false", v)
	}
	return o, nil
}

// planMoves plans the moves of a database.
func planMoves(snap *directory.Snapshot, database string, sizes *schema.BucketSizes, o rebalance.Options) []rebalance.Move {
	shards := make([]rebalance.Shard, len(snap.Shards))
	for i := range snap.Shards {
		sh := &snap.Shards[i]
		shards[i] = rebalance.Shard{Name: sh.Name, Weight: sh.Weight, Closed: sh.State != directory.ShardActive}
		if sh.State == directory.ShardDraining {
			shards[i].Weight = 0
		}
	}
	placement := snap.PlacementOf(database, "")
	var costs []rebalance.Cost
	var now, pins, buckets []int
	for b, at := range placement {
		if at == directory.Unused {
			continue
		}
		pin := rebalance.Unpinned
		if b >= snap.BucketCount && shards[at].Weight > 0 {
			pin = int(at) // a value was pinned there
		}
		for _, p := range snap.Pins {
			if i := slices.IndexFunc(snap.Shards, func(s directory.Shard) bool { return s.Name == p.Shard }); b >= p.First && b <= p.Last && i >= 0 {
				pin = i
			}
		}
		c := rebalance.Cost{}
		if b < len(sizes.Bytes) {
			c.Bytes = sizes.Bytes[b]
		}
		costs, now, pins, buckets = append(costs, c), append(now, int(at)), append(pins, pin), append(buckets, b)
	}
	moves := rebalance.Plan(costs, shards, now, pins, o)
	for i := range moves {
		moves[i].Bucket = buckets[moves[i].Bucket]
	}
	return moves
}

// planRows sums a plan up, a row for each pair of shards.
func planRows(snap *directory.Snapshot, moves []rebalance.Move, sizes *schema.BucketSizes) [][]string {
	type sum struct {
		from, to, buckets int
		rows, bytes       float64
	}
	var sums []*sum
	for _, m := range moves {
		i := slices.IndexFunc(sums, func(s *sum) bool { return s.from == m.From && s.to == m.To })
		if i < 0 {
			i, sums = len(sums), append(sums, &sum{from: m.From, to: m.To})
		}
		s := sums[i]
		s.buckets++
		s.bytes += m.Bytes
		if m.Bucket < len(sizes.Rows) {
			s.rows += sizes.Rows[m.Bucket]
		}
	}
	slices.SortFunc(sums, func(a, b *sum) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	out := [][]string{}
	for _, s := range sums {
		takes := time.Duration(s.bytes / assumedPace * float64(time.Second)).Round(time.Second)
		out = append(out, []string{
			snap.Shards[s.from].Name, snap.Shards[s.to].Name, strconv.Itoa(s.buckets),
			fmt.Sprintf("%.0f", math.Round(s.rows)), fmt.Sprintf("%.0f", math.Round(s.bytes)), max(time.Second, takes).String(),
		})
	}
	return out
}

// newMove is a job of the session's user in its database, run by this proxy.
func (u *utility) newMove(kind directory.MoveKind) directory.Move {
	return directory.Move{
		ID: reshard.NewJobID(), Database: u.s.db.Name, Kind: kind, User: u.s.login.user, Proxy: u.s.srv.cfg.Proxy, State: directory.MovePreparing,
	}
}

// withMove adds a job with its target. A database has one job at a time.
func withMove(old *directory.Snapshot, move directory.Move, target []uint16) (*directory.Snapshot, error) {
	next := old.Clone()
	if m := next.Carrying(move.Database); m != nil {
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "job %s moves rows of this database already", m.ID).
			WithHint("Wait for it with weft.wait_move(%s), or end it with weft.cancel_move(%s).", "'"+m.ID+"'", "'"+m.ID+"'")
	}
	if next.Unsettled(move.Database) {
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "a table of this database is being declared, or its declaration taken back").
			WithHint("Wait until it is done. weft.tables shows its state.")
	}
	next.Moves = append(next.Moves, move)
	if next.Targets == nil {
		next.Targets = map[string][]uint16{}
	}
	next.Targets[move.ID] = target
	return next, nil
}
