package proxy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"weft/directory"
	"weft/heat"
	"weft/pgerr"
	"weft/rebalance"
	"weft/schema"
)

// twoShards is a cluster of two shards with 16 buckets, of which shard-1 has the last four, and the
// work of its database app.
func twoShards(busy func(bucket int32) float64) (*directory.Snapshot, heat.Report) {
	snap := directory.New(16, "shard-0", []directory.Shard{{Name: "shard-0", Weight: 1, State: directory.ShardActive}, {Name: "shard-1", Weight: 1, State: directory.ShardActive}})
	r := heat.Report{Shards: map[string]heat.Shard{}, Databases: map[string]heat.Database{}}
	d := heat.Database{Buckets: map[int32]heat.Load{}, Squares: 1e9}
	for b := range snap.Placement {
		snap.Placement[b] = 0
		if b >= 12 {
			snap.Placement[b] = 1
		}
		d.Buckets[int32(b)] = heat.Load{Write: heat.Class{Busy: busy(int32(b))}}
	}
	r.Databases["app"] = d
	return snap, r
}

func alike(int32) float64 { return 1e6 }

// sizesOf are buckets of a thousand bytes and ten rows.
func sizesOf(n int) *schema.BucketSizes {
	s := &schema.BucketSizes{}
	for range n {
		s.Rows, s.Bytes = append(s.Rows, 10), append(s.Bytes, 1000)
	}
	return s
}

var byLoad = rebalance.Options{Strategy: rebalance.Load}

// A plan by load takes work off the busy shard, and says how much there is before and after.
func TestPlanByLoad(t *testing.T) {
	snap, r := twoShards(alike)
	l := newLayout(snap, "app", sizesOf(16), newWorkload(r, snap, "app", nil, time.Now()))
	moves := l.plan(byLoad)
	got := l.rows(moves, byLoad)
	want := "[[shard-0 shard-1 4 40 4000 1s 1.50 1.00 0.50 1.00 shard-0 has 1.50 times its share of the work, mostly of writes; what goes keeps backends busy for 4.0 ms per second]]"
	if fmt.Sprint(got) != want || len(l.left(moves, byLoad)) != 0 {
		t.Errorf("got %v, want %s", got, want)
	}
	// By size the words are others, and work is not looked at.
	l = newLayout(snap, "app", sizesOf(16), nil)
	if got := fmt.Sprint(l.rows(l.plan(rebalance.Options{}), rebalance.Options{})); !strings.HasSuffix(got, "times its share of the bytes]]") {
		t.Errorf("got %v", got)
	}
	snap.Shards[0].State = directory.ShardDraining
	l = newLayout(snap, "app", sizesOf(16), newWorkload(r, snap, "app", nil, time.Now()))
	if got := l.rows(l.plan(byLoad), byLoad); len(got) != 1 || got[0][2] != "12" || got[0][6] != "-" || got[0][10] != "shard-0 is to be empty" {
		t.Errorf("got %v", got)
	}
}

// Work that no bucket of the database brings counts for its shard.
func TestPlanBeside(t *testing.T) {
	snap, r := twoShards(alike)
	// shard-1 is as busy as shard-0, by tables at home and by another database.
	r.Shards["shard-1"] = heat.Shard{Loose: heat.Load{Read: heat.Class{Busy: 5e6}}}
	r.Databases["other"] = heat.Database{Buckets: map[int32]heat.Load{13: {Read: heat.Class{Busy: 3e6}}, 99: {Read: heat.Class{Busy: 1e12}}}}
	l := newLayout(snap, "app", sizesOf(16), newWorkload(r, snap, "app", nil, time.Now()))
	if moves := l.plan(byLoad); len(moves) != 0 || len(l.left(moves, byLoad)) != 0 {
		t.Errorf("%v, %v", moves, l.left(moves, byLoad))
	}
	r.Shards["shard-1"] = heat.Shard{Loose: heat.Load{Read: heat.Class{Busy: 5e8}}}
	l = newLayout(snap, "app", sizesOf(16), newWorkload(r, snap, "app", nil, time.Now()))
	moves := l.plan(byLoad)
	if left := l.left(moves, byLoad); len(moves) != 4 || len(left) != 1 || !strings.Contains(left[0].Message, "shard-1 stays at 1.9") || !strings.Contains(left[0].Detail, "no bucket") {
		t.Errorf("%v, %v", moves, left)
	}
}

// A bucket that is one key stays, and the client is told what to do about the key.
func TestPlanOneKey(t *testing.T) {
	snap, r := twoShards(func(b int32) float64 {
		if b == 5 {
			return 100e6
		}
		return 1e6
	})
	r.Keys.Entries = []heat.Entry[heat.Name]{{Name: heat.Name{Database: "app", Group: 1, ID: 7}, Bucket: 5, Load: heat.Load{Write: heat.Class{Busy: 90e6}}}}
	l := newLayout(snap, "app", sizesOf(16), newWorkload(r, snap, "app", nil, time.Now()))
	moves := l.plan(byLoad)
	for _, m := range moves {
		if m.Bucket == 5 {
			t.Errorf("%+v", m)
		}
	}
	left := l.left(moves, byLoad)
	if len(moves) != 11 || len(left) != 1 || !strings.Contains(left[0].Detail, "bucket 5") || !strings.Contains(left[0].Hint, "weft.isolate") || !strings.Contains(left[0].Hint, "bucket = 5") {
		t.Errorf("%d moves, %+v", len(moves), left)
	}
}

// What a rebalance has moved of late stays.
func TestPlanRests(t *testing.T) {
	snap, r := twoShards(alike)
	now := time.Now()
	job := func(kind string, ended time.Time) []schema.MoveRecord {
		return []schema.MoveRecord{{ID: "j", Kind: kind, Origin: map[string]string{"shard-1": "0-11"}, Ended: ended}}
	}
	plan := func(jobs []schema.MoveRecord) (int, string) {
		l := newLayout(snap, "app", sizesOf(16), newWorkload(r, snap, "app", jobs, now))
		moves := l.plan(byLoad)
		return len(moves), fmt.Sprint(l.left(moves, byLoad))
	}
	if n, left := plan(job("rebalance", now.Add(-time.Minute))); n != 0 || !strings.Contains(left, "shard-0 stays at 1.50") {
		t.Errorf("%d moves, %s", n, left)
	}
	for name, jobs := range map[string][]schema.MoveRecord{
		"long ago": job("rebalance", now.Add(-time.Hour)), "by hand": job("move", now), "given up and forgotten": job("rebalance", time.Time{}),
		"other numbers":  {{Kind: "rebalance", Ended: now, Count: 8, Origin: map[string]string{"shard-1": "0-7"}}},
		"no such bucket": {{Kind: "rebalance", Ended: now, Origin: map[string]string{"shard-1": "0-700"}}},
	} {
		if n, left := plan(jobs); n != 4 || left != "[]" {
			t.Errorf("%s: %d moves, %s", name, n, left)
		}
	}
	snap.Moves = []directory.Move{{ID: "j", Database: "app"}}
	if n, _ := plan(job("rebalance", time.Time{})); n != 0 {
		t.Errorf("%d moves while the job runs", n)
	}
}

// A database without work is refused.
func TestPlanUnknown(t *testing.T) {
	snap, r := twoShards(alike)
	for database, want := range map[string]bool{"app": true, "idle": false} {
		err := newWorkload(r, snap, database, nil, time.Now()).known(2, rebalance.Load)
		var e *pgerr.Error
		if want != (err == nil) || err != nil && (!errors.As(err, &e) || e.Code != "55000" || e.Hint == "") {
			t.Errorf("%s: %v", database, err)
		}
	}
}
