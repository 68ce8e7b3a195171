package crash

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"weft/directory"
	"weft/vindex"
)

// isolate asks P for a job that takes a key to a shard of its own choice, in a bucket of its own.
func (m *moving) isolate(d *death) {
	t := m.t
	t.Helper()
	snap := m.snapshot()
	key := int64(1 + m.r.IntN(moveKeys))
	id := vindex.ID(value[int64](t, m.eye(0), "select hashint8extended($1, 0)", key))
	place := snap.PlacementOf(m.db, "")
	at, alone := snap.Isolated[m.db][id]
	if !alone {
		at = snap.TopBucket(id)
	}
	d.a = int(place[at])
	for d.b = d.a; d.b == d.a || d.victim == "home" && d.b == 0; {
		d.b = m.r.IntN(4)
	}
	m.with(0, func(c *pgx.Conn) {
		d.job = value[string](t, c, "select weft.isolate('pair', $1, $2, max_pause => $3)", fmt.Sprint(key), snap.Shards[d.b].Name, d.maxPause())
	})
	snap = m.snapshot()
	d.buckets = []int{snap.Isolated[m.db][id]}
	m.load.put(key, d.buckets[0])
	m.load.concerns(snap.PlacementOf(m.db, ""), d.buckets, func(int) []int { return []int{d.a, d.b} })
}

// drain asks P for a job that takes all buckets off a shard. They go to all others.
func (m *moving) drain(d *death) {
	t := m.t
	t.Helper()
	snap := m.snapshot()
	place := snap.PlacementOf(m.db, "")
	for len(d.buckets) == 0 {
		if d.a = m.r.IntN(4); d.victim == "home" && d.a == 0 {
			continue
		}
		d.buckets = bucketsOn(place, d.a)
	}
	m.with(0, func(c *pgx.Conn) {
		d.job = value[string](t, c, "select * from weft.drain_shard($1, max_pause => $2)", snap.Shards[d.a].Name, d.maxPause())
	})
	m.aim(d, place)
}

// bucketsOn lists the buckets that a placement has on a shard.
func bucketsOn(place []uint16, shard int) (list []int) {
	for b, at := range place {
		if int(at) == shard {
			list = append(list, b)
		}
	}
	return list
}

// aim says what the job of a cell moves, by its target, and chooses one of the shards that take.
func (m *moving) aim(d *death, place []uint16) {
	target := m.snapshot().Targets[d.job]
	if target == nil { // the job is over already
		target = place
	}
	d.b = int(target[d.buckets[0]])
	m.load.concerns(place, d.buckets, func(b int) []int { return []int{d.a, int(target[b])} })
}

// restore takes back what the next cell would not expect: a shard that takes no buckets.
func (m *moving) restore(d *death) {
	t := m.t
	t.Helper()
	for _, s := range m.snapshot().Shards {
		if s.State == directory.ShardActive {
			continue
		}
		m.with(0, func(c *pgx.Conn) {
			within(t, 15*time.Second, s.Name+" takes buckets again", func() bool {
				_, err := exec(c, patience, "select weft.set_shard_state($1, 'active')", s.Name)
				return err == nil
			})
		})
	}
}

// ask sends a statement to P, in the background.
func (m *moving) ask(d *death, sql string, args ...any) {
	asked := make(chan error, 1)
	d.asked = asked
	target := m.weft[0].ConnString("postgres", "dbname="+m.db)
	go func() {
		ctx, stop := context.WithTimeout(context.Background(), patience)
		defer stop()
		c, err := pgx.Connect(ctx, target)
		if err == nil {
			_, err = c.Exec(ctx, sql, args...)
			_ = c.Close(ctx)
		}
		asked <- err
	}()
}
