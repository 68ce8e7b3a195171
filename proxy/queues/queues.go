package queues

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/heat/ferry"
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
	// Writes: clients write the key. Hot: and they wait for each other. Locks: backends of the shard wait for locks. Reads:
	// clients read the key.
	Writes, Hot, Locks, Reads bool
}

// Demand is how many transactions per second ask for a place at a key, by Key.Sum.
type Demand map[uint64]float64

// Config is what Queues need. All fields are required.
type Config struct {
	// Rows says what becomes of hot rows.
	Rows func() queue.Mode
	// Reads says what becomes of reads that are the same.
	Reads func() ferry.Mode
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
	shared  ferry.Metrics

	mu  sync.Mutex // one Second at a time
	hot map[queue.Key]*queue.Hot
}

// New returns Queues without queues.
func New(cfg Config) *Queues { return &Queues{cfg: cfg, hot: map[queue.Key]*queue.Hot{}} }

// Table returns the hot keys, nil if there are none.
func (q *Queues) Table() *queue.Table { return q.table.Load() }

// Metrics returns what has become of transactions since the proxy began.
func (q *Queues) Metrics() *queue.Metrics { return &q.metrics }

// Shared returns what has become of reads since the proxy began.
func (q *Queues) Shared() *ferry.Metrics { return &q.shared }

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
	m, now := modes{q.cfg.Rows(), q.cfg.Reads()}, time.Now()
	wanted := map[queue.Key]bool{}
	var all []*queue.Hot
	if m != (modes{}) {
		for _, w := range q.cfg.Wants() {
			w.Writes, w.Reads = w.Writes && m.rows != "", w.Reads && m.reads != ""
			if !w.Writes && !w.Reads || wanted[w.Key] || len(all) == maxKeys {
				continue
			}
			h := q.hot[w.Key]
			if h == nil || h.Shard != w.Shard || h.Words != w.Words || w.Writes && h.Row == nil || w.Reads && h.Pier == nil {
				h = q.open(&w, h, now)
			}
			m.judge(h, &w, now)
			wanted[w.Key], all = true, append(all, h)
		}
	}
	for k, h := range q.hot {
		switch {
		case wanted[k]:
		case m.judge(h, &Want{}, now) && len(all) < maxKeys:
			all = append(all, h) // sessions wait, or have waited lately
		default:
			delete(q.hot, k)
			if h.Row != nil {
				h.Row.Open(now)
			}
		}
	}
	q.table.Store(queue.NewTable(all))
	if slices.ContainsFunc(all, func(h *queue.Hot) bool { return h.Row != nil }) {
		q.split(ctx, all)
	}
}

// modes are what becomes of hot keys.
type modes struct {
	rows  queue.Mode
	reads ferry.Mode
}

// judge says to the queues of a key what is known of it. It reports whether they are of use.
func (m modes) judge(h *queue.Hot, w *Want, now time.Time) (useful bool) {
	if h.Row != nil {
		useful = h.Row.Judge(w.Hot, w.Locks, m.rows, now)
	}
	if h.Pier != nil {
		useful = h.Pier.Tick(m.reads, now) || useful
	}
	return useful
}

// open makes the queues of a key. before is the same key as it was shown so far, nil for none.
func (q *Queues) open(w *Want, before *queue.Hot, now time.Time) *queue.Hot {
	h := &queue.Hot{Key: w.Key, Shard: w.Shard, Words: w.Words, Hidden: w.Hidden}
	if before != nil {
		h.Row, h.Pier = before.Row, before.Pier
	}
	if w.Writes && h.Row == nil {
		h.Row = queue.NewRow(&q.metrics, now)
	}
	if w.Reads && h.Pier == nil {
		h.Pier = ferry.NewPier(&q.shared, now)
	}
	q.hot[w.Key] = h
	return h
}

// split takes this proxy's part of the slots.
func (q *Queues) split(ctx context.Context, all []*queue.Hot) {
	others, silent := q.cfg.Others(ctx)
	now := time.Now()
	for _, h := range all {
		if h.Row == nil {
			continue
		}
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
		if h.Row != nil {
			out[h.Sum()] = h.Row.Figures().Demand
		}
	}
	return out
}
