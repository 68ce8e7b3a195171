package proxy

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"weft/console"
	"weft/directory"
	"weft/proxy/peer"
	"weft/schema"
)

// movesTimeout bounds how long the tables about moves wait for the shards.
const movesTimeout = 10 * time.Second

// moveDatabases are the databases whose jobs are listed: all, or the asking client's and those that
// have a job now.
func (a adminSource) moveDatabases(snap *directory.Snapshot) []string {
	if a.srv.mover == nil {
		return nil
	}
	if a.database == "" {
		return snap.Databases()
	}
	out := []string{a.database}
	for i := range snap.Moves {
		if db := snap.Moves[i].Database; db != "" && !slices.Contains(out, db) {
			out = append(out, db)
		}
	}
	return out
}

// Moves implements console.Source.
func (a adminSource) Moves(ctx context.Context) []console.Move {
	ctx, cancel := context.WithTimeout(ctx, movesTimeout)
	defer cancel()
	snap := a.srv.cfg.Snapshot()
	var blockers []peer.Blocker
	if len(snap.Moves) > 0 {
		blockers = a.blockers(ctx)
	}
	out := shardMoves(snap)
	for _, db := range a.moveDatabases(snap) {
		list, err := a.srv.mover.Moves(ctx, snap.Home, db)
		if err != nil {
			a.srv.log.Warn("the moves of a database cannot be listed", "database", db, "err", err)
		}
		for i := range list {
			out = append(out, a.move(snap, db, &list[i], blockers))
		}
		for i := range snap.Moves { // jobs that have not been noted yet
			m := &snap.Moves[i]
			if m.Database == db && m.Carries() && !slices.ContainsFunc(list, func(r schema.MoveRecord) bool { return r.ID == m.ID }) {
				out = append(out, a.move(snap, db, &schema.MoveRecord{ID: m.ID, Kind: string(m.Kind), User: m.User, Proxy: m.Proxy, From: []string{}, To: []string{}}, blockers))
			}
		}
	}
	return out
}

// shardMoves lists the jobs by which shards join or leave, or have done so, which are jobs of no
// database.
func shardMoves(snap *directory.Snapshot) []console.Move {
	var out []console.Move
	for i := range snap.Moves {
		m := &snap.Moves[i]
		if m.Carries() {
			continue
		}
		c := shardMove(directory.PastMove{ID: m.ID, Kind: m.Kind, Shard: m.Shard, State: m.State, Reason: m.Reason, User: m.User, Proxy: m.Proxy})
		c.BlockedBy = m.Waits
		out = append(out, c)
	}
	for _, p := range snap.Past {
		out = append(out, shardMove(p))
	}
	return out
}

// shardMove is what the table of jobs shows of one by which a shard joins or leaves.
func shardMove(m directory.PastMove) console.Move {
	c := console.Move{Job: m.ID, Kind: string(m.Kind), State: string(m.State), Reason: m.Reason, From: []string{}, To: []string{}, User: m.User, Proxy: m.Proxy, Ended: m.Ended}
	if m.Kind == directory.MoveJoin {
		c.To = append(c.To, m.Shard)
	} else {
		c.From = append(c.From, m.Shard)
	}
	return c
}

// move tells of a job what its record and the directory say.
func (a adminSource) move(snap *directory.Snapshot, database string, r *schema.MoveRecord, blockers []peer.Blocker) console.Move {
	out := console.Move{
		Job: r.ID, Database: database, Kind: r.Kind, State: r.State, Reason: r.Reason, From: r.From, To: r.To, Done: r.Done, Buckets: r.Buckets, Rows: r.Rows, Bytes: r.Bytes,
		Rate: r.Rate, Median: r.Median, NinetyNinth: r.P99, Max: r.Max, ReadNinetyNinth: r.ReadP99, Rounds: r.Rounds, GivenUp: r.GivenUp, User: r.User, Proxy: r.Proxy,
		Started: r.Started, Ended: r.Ended,
	}
	m := snap.FindMove(r.ID)
	if m == nil {
		if out.State == "" { // its proxy has ended it and could not say so
			out.State = "done"
		}
		return out
	}
	out.State, out.Reason, out.Proxy, out.Ended = string(m.State), cmp.Or(m.Reason, m.Why), m.Proxy, time.Time{}
	left := int64(0)
	now, target := snap.PlacementOf(m.Database, m.Group), snap.Targets[m.ID]
	for b := range min(len(now), len(target)) {
		if now[b] != target[b] {
			left++
		}
	}
	out.Buckets = max(out.Buckets, left)
	out.Done = out.Buckets - left
	if m.State == directory.MoveRunning && out.Done > 0 {
		each := time.Since(r.Started) / time.Duration(out.Done)
		out.ETA = time.Now().Add(each * time.Duration(left)).Truncate(time.Second)
	}
	if at := slices.IndexFunc(blockers, func(b peer.Blocker) bool { return b.Job == m.ID }); at >= 0 {
		out.BlockedBy = describeBlocker(&blockers[at])
	} else if m.Waits != "" {
		out.BlockedBy = m.Waits
	} else if r.LastOutcome != "" && r.LastOutcome != schema.Carried && m.State == directory.MoveRunning {
		out.BlockedBy = r.LastOutcome
	}
	return out
}

// describeBlocker words who is in the way of a job.
func describeBlocker(b *peer.Blocker) string {
	what := "buckets of the job"
	if b.Bucket >= 0 {
		what = fmt.Sprintf("bucket %d", b.Bucket)
	}
	text := fmt.Sprintf("session %d of proxy %s, user %s", b.Session, b.Proxy, b.User)
	if b.Application != "" {
		text += ", application " + b.Application
	}
	text += ", " + b.State
	if !b.Since.IsZero() {
		text += " since " + b.Since.UTC().Format(time.RFC3339)
	}
	return text + ", has touched " + what
}

// blockers asks all proxies who is in the way of jobs.
func (a adminSource) blockers(ctx context.Context) []peer.Blocker {
	out := a.srv.moving.holds.Blockers()
	answers, silent := a.srv.circle.Ask(ctx, peer.Question{Blockers: true})
	for _, err := range silent {
		a.srv.log.Debug("another proxy did not answer", "err", err)
	}
	for _, b := range answers {
		var list []peer.Blocker
		if json.Unmarshal(b, &list) == nil {
			out = append(out, list...)
		}
	}
	return out
}

// MoveRounds implements console.Source.
func (a adminSource) MoveRounds(ctx context.Context) []console.Round {
	ctx, cancel := context.WithTimeout(ctx, movesTimeout)
	defer cancel()
	snap := a.srv.cfg.Snapshot()
	var out []console.Round
	for _, db := range a.moveDatabases(snap) {
		list, err := a.srv.mover.MoveRounds(ctx, snap.Home, db)
		if err != nil {
			a.srv.log.Warn("the rounds of a database's moves cannot be listed", "database", db, "err", err)
		}
		for _, r := range list {
			out = append(out, console.Round{
				Number: r.Number, Job: r.Job, Database: db, Ended: r.Ended, Ways: r.Ways, Buckets: r.Buckets, Outcome: r.Outcome, Rows: r.Rows, Bytes: r.Bytes, Writes: r.Writes, Reads: r.Reads,
			})
		}
	}
	return out
}

// Buckets implements console.Source.
func (a adminSource) Buckets(ctx context.Context, sizes bool) []console.Bucket {
	ctx, cancel := context.WithTimeout(ctx, movesTimeout)
	defer cancel()
	snap := a.srv.cfg.Snapshot()
	var known *schema.BucketSizes
	if sizes && a.database != "" && a.srv.mover != nil {
		var err error
		if known, err = a.srv.mover.SampleBuckets(ctx, a.database); err != nil {
			a.srv.log.Warn("what buckets hold cannot be told", "database", a.database, "err", err)
		}
	}
	to := a.destinations(snap)
	var out []console.Bucket
	for b, on := range snap.PlacementOf(a.database, "") {
		if int(on) >= len(snap.Shards) {
			continue
		}
		c := console.Bucket{Number: int64(b), Shard: snap.Shards[on].Name, MovingTo: to[b]}
		if known != nil && b < len(known.Rows) {
			c.Known, c.Rows, c.Bytes = true, int64(known.Rows[b]), int64(known.Bytes[b])
		}
		out = append(out, c)
	}
	return out
}

// destinations are the shards that jobs take buckets of the asking client's database to.
func (a adminSource) destinations(snap *directory.Snapshot) map[int]string {
	out := map[int]string{}
	for i := range snap.Moves {
		m := &snap.Moves[i]
		if m.Database != a.database || m.Group != "" {
			continue
		}
		now, target := snap.PlacementOf(m.Database, ""), snap.Targets[m.ID]
		for b := range min(len(now), len(target)) {
			if now[b] != target[b] && int(target[b]) < len(snap.Shards) {
				out[b] = snap.Shards[target[b]].Name
			}
		}
	}
	return out
}

// PauseMoves implements console.Control.
func (a adminSource) PauseMoves(ctx context.Context) (int, error) {
	ids, err := a.srv.moving.jobs.Pause(ctx, "paused on the admin console", func(*directory.Move) bool { return true })
	return len(ids), err
}

// ResumeMoves implements console.Control.
func (a adminSource) ResumeMoves(ctx context.Context) (int, error) {
	ids, err := a.srv.moving.jobs.Resume(ctx, func(m *directory.Move) bool { return m.State == directory.MovePaused })
	return len(ids), err
}
