package queues

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"weft/heat/queue"
	"weft/heat/throttle"
)

const (
	// every is how often the hot keys are looked at.
	every = time.Second
	// maxKeys bounds the keys that have queues at a time.
	maxKeys = 32
)

// Want is a key that much of the work of its shard is about.
type Want struct {
	queue.Key
	Shard, Words, Hidden string
	// Writes: clients write the key. Hot: and they wait for each other. Locks: backends of the shard wait for locks.
	Writes, Hot, Locks bool
}

// Demand is how many transactions per second ask for a place at a key, by Key.Sum.
type Demand map[uint64]float64

// Config is what Queues need. All fields are required.
type Config struct {
	// Rows says what becomes of hot rows.
	Rows func() queue.Mode
	// Wants lists the keys, the hottest first.
	Wants func() []Want
	// Others asks the other proxies for their demand. silent is how many have not answered.
	Others func(ctx context.Context) (demand []Demand, silent int)
}

// Queues are the queues of hot keys. They are safe for concurrent use.
type Queues struct {
	cfg     Config
	table   atomic.Pointer[queue.Table]
	metrics queue.Metrics

	mu  sync.Mutex // one Second at a time
	hot map[queue.Key]*queue.Hot
}

// New returns Queues without queues.
func New(cfg Config) *Queues { return &Queues{cfg: cfg, hot: map[queue.Key]*queue.Hot{}} }

// Table returns the hot keys, nil if there are none.
func (q *Queues) Table() *queue.Table { return q.table.Load() }

// Metrics returns what has become of transactions since the proxy began.
func (q *Queues) Metrics() *queue.Metrics { return &q.metrics }

// Run works until ctx ends.
func (q *Queues) Run(ctx context.Context) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			q.Second(ctx)
		}
	}
}

// Second looks at the keys that are hot now.
func (q *Queues) Second(ctx context.Context) {
	q.mu.Lock()
	defer q.mu.Unlock()
	mode, now := q.cfg.Rows(), time.Now()
	wanted := map[queue.Key]bool{}
	var all []*queue.Hot
	if mode != "" {
		for _, w := range q.cfg.Wants() {
			if !w.Writes || wanted[w.Key] || len(all) == maxKeys {
				continue
			}
			h := q.hot[w.Key]
			if h == nil || h.Shard != w.Shard || h.Words != w.Words {
				h = q.open(&w, h, now)
			}
			h.Row.Judge(w.Hot, w.Locks, mode, now)
			wanted[w.Key], all = true, append(all, h)
		}
	}
	for k, h := range q.hot {
		switch {
		case wanted[k]:
		case h.Row.Judge(false, false, mode, now) && len(all) < maxKeys:
			all = append(all, h) // transactions wait, or have waited lately
		default:
			delete(q.hot, k)
			h.Row.Open(now)
		}
	}
	q.table.Store(queue.NewTable(all))
	if len(all) > 0 {
		q.split(ctx, all)
	}
}

// open makes the queue of a key. before is the same key as it was shown so far, nil for none.
func (q *Queues) open(w *Want, before *queue.Hot, now time.Time) *queue.Hot {
	h := &queue.Hot{Key: w.Key, Shard: w.Shard, Words: w.Words, Hidden: w.Hidden}
	if h.Row = queue.NewRow(&q.metrics, now); before != nil {
		h.Row = before.Row
	}
	q.hot[w.Key] = h
	return h
}

// split takes this proxy's part of the slots.
func (q *Queues) split(ctx context.Context, all []*queue.Hot) {
	others, silent := q.cfg.Others(ctx)
	now := time.Now()
	for _, h := range all {
		own := h.Row.Figures().Demand
		sum := own
		for _, d := range others {
			sum += d[h.Sum()]
		}
		h.Row.SetPart(throttle.Part(len(others)+silent+1, own, sum), now)
	}
}

// Demand is what clients of this proxy ask for.
func (q *Queues) Demand() Demand {
	out := Demand{}
	for _, h := range q.Table().All() {
		out[h.Sum()] = h.Row.Figures().Demand
	}
	return out
}
