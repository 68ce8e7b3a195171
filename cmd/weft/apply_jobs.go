package main

import (
	"context"
	"fmt"

	"weft/directory"
	"weft/reshard"
)

// applied is what weft apply says of jobs.
type applied struct {
	outlook []string // what will move once shards have joined
	running []string // jobs that go on from before
	started []string // jobs that are new
}

// compare tells which jobs a change starts, and which go on.
func compare(old, next *directory.Snapshot) applied {
	var a applied
	if old == nil {
		return a
	}
	joins := false
	for i := range next.Moves {
		m := &next.Moves[i]
		was := old.FindMove(m.ID)
		switch {
		case was == nil:
			a.started = append(a.started, fmt.Sprintf("job %s: %s", m.ID, m.Describe()))
			joins = joins || m.Kind == directory.MoveJoin
		case was.State == directory.MoveFailed && m.State != directory.MoveFailed, m.Kind == directory.MoveJoin && !was.Join.Reaches(m.Join):
			a.started = append(a.started, fmt.Sprintf("job %s: %s", m.ID, m.Describe()))
		case !m.Carries():
			a.running = append(a.running, fmt.Sprintf("job %s goes on (%s): %s", m.ID, m.State, m.Describe()))
		}
	}
	if !joins {
		return a
	}
	all := reshard.WithShards(next)
	for _, database := range reshard.ShardedDatabases(next) {
		n := 0
		from := next.PlacementOf(database, "")
		for b, to := range all.Balanced(from) {
			if to != from[b] {
				n++
			}
		}
		a.outlook = append(a.outlook, fmt.Sprintf("~ database %s: %d of %d buckets will move", database, n, next.BucketCount))
	}
	return a
}

// announce names the jobs that have been started.
func (a *applying) announce(ctx context.Context, jobs applied) error {
	for _, line := range jobs.started {
		fmt.Fprintln(a.out, line)
	}
	if len(jobs.started) == 0 {
		return nil
	}
	reg, ok := a.store.(directory.Registry)
	if !ok {
		return nil
	}
	proxies, err := reg.Proxies(ctx)
	if err != nil {
		return err
	}
	if len(proxies) == 0 {
		fmt.Fprintln(a.out, "no proxy is running: jobs begin when one is, start it with weft serve")
		return nil
	}
	fmt.Fprintln(a.out, "the proxies run the jobs: SELECT * FROM weft.moves shows them")
	return nil
}
