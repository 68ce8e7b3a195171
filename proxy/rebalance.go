package proxy

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/pgerr"
	"weft/rebalance"
	"weft/reshard"
)

// assumedPace is how many bytes per second a plan expects a job to carry. It is what one pair of
// shards does on ordinary disks while others get half of the time.
const assumedPace = 20 << 20

// rebalanceCall is a call of weft.rebalance.
type rebalanceCall struct{ *utility }

// run plans which buckets of the session's database should change shards. With dry_run it
// returns the plan, otherwise it starts a job and returns its ID.
func (u rebalanceCall) run(ctx context.Context, args map[string]string) ([][]string, error) {
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
	dry := args["dry_run"] == "true"
	work, err := u.workload(ctx, &o, dry)
	if err != nil {
		return nil, err
	}
	sizes, err := srv.mover.SampleBuckets(ctx, u.s.db.Name)
	if err != nil {
		return nil, err
	}
	if dry {
		snap, err := srv.cfg.Directory.Load(ctx)
		if err != nil {
			return nil, err
		}
		l := newLayout(snap, u.s.db.Name, sizes, work)
		moves := l.plan(o)
		u.tellPlan(l, moves, o)
		return l.rows(moves, o), nil
	}
	move := u.newMove(directory.MoveRebalance)
	move.Options = options
	var l *layout
	var moves []rebalance.Move
	err = srv.moving.jobs.Update(ctx, func(old *directory.Snapshot) (*directory.Snapshot, error) {
		l = newLayout(old, move.Database, sizes, work)
		if moves = l.plan(o); len(moves) == 0 {
			return old, nil
		}
		target := slices.Clone(old.PlacementOf(move.Database, ""))
		for _, m := range moves {
			target[l.numbers[m.Bucket]] = uint16(m.To)
		}
		return withMove(old, move, target)
	})
	if err != nil {
		return nil, err
	}
	u.tellPlan(l, moves, o)
	if len(moves) == 0 {
		return [][]string{}, nil
	}
	return [][]string{{move.ID}}, nil
}

// tellPlan tells the client what no plan changes.
func (u rebalanceCall) tellPlan(l *layout, moves []rebalance.Move, o rebalance.Options) {
	notices := l.left(moves, o)
	if len(moves) == 0 && len(notices) == 0 {
		notices = append(notices, &pgerr.Error{Severity: pgerr.SeverityNotice, Code: "00000", Message: "every shard is close enough to its share: there is nothing to move"})
	}
	for _, n := range notices {
		u.s.out.tell(n)
	}
}

// workload asks all proxies for the work that buckets have, if the strategy is about work: nil if it
// is not. A plan may be made without a proxy that does not answer, a job may not.
func (u rebalanceCall) workload(ctx context.Context, o *rebalance.Options, dry bool) (*workload, error) {
	if o.Strategy != rebalance.Load && o.Strategy != rebalance.Mixed {
		return nil, nil
	}
	srv, database := u.s.srv, u.s.db.Name
	r, silent := srv.heatOfAll(ctx, heat.AllParts, false)
	if len(silent) > 0 && !dry {
		return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "it is not known what the clients of all proxies do").WithDetail("%v", errors.Join(silent...)).
			WithHint("Try again. A proxy that has died is forgotten after some seconds.")
	}
	u.s.route.warnSilent(silent, "what its clients do is not counted")
	snap, err := srv.cfg.Directory.Load(ctx)
	if err != nil {
		return nil, err
	}
	jobs, err := srv.mover.Moves(ctx, snap.Home, database)
	if err != nil {
		return nil, err
	}
	w := newWorkload(r, snap, database, jobs, time.Now())
	o.Samples = w.samples
	return w, w.known(len(snap.Shards), o.Strategy)
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
