package job

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"weft/directory"
	"weft/reshard/carrier"
	"weft/schema"
)

// history has the home shards remember what became of rounds. What has not been written yet is kept
// here for a second at most while rounds go on.
type history struct {
	cfg    Config
	counts counts

	mu      sync.Mutex
	unsaved map[string][]schema.MoveRound // by job
	saved   map[string]time.Time          // when the rounds of a job were last written
}

func newHistory(cfg Config) *history {
	return &history{cfg: cfg, counts: newCounts(), unsaved: map[string][]schema.MoveRound{}, saved: map[string]time.Time{}}
}

const (
	// saveEvery is how often rounds are written, saveTimeout how long that may take.
	saveEvery   = time.Second
	saveTimeout = 10 * time.Second
	// maxUnsaved bounds the rounds that are kept while the home shard cannot be reached.
	maxUnsaved = 1000
)

// note takes the report of a round.
func (h *history) note(ctx context.Context, r *carrier.Report) {
	h.counts.add(r)
	round := recordOf(r, time.Now())
	h.mu.Lock()
	if list := append(h.unsaved[r.Job], round); len(list) <= maxUnsaved {
		h.unsaved[r.Job] = list
	}
	due := time.Since(h.saved[r.Job]) > saveEvery
	h.mu.Unlock()
	if due {
		h.save(ctx, r.Job)
	}
}

// recordOf is what is written of a round.
func recordOf(r *carrier.Report, now time.Time) schema.MoveRound {
	var ways []string
	n := 0
	for _, p := range r.Pairs {
		ways = append(ways, fmt.Sprintf("%s -> %s: %s", p.From, p.To, schema.Ranges(p.Buckets)))
		n += len(p.Buckets)
	}
	round := schema.MoveRound{
		Job: r.Job, Ended: now, Ways: strings.Join(ways, "; "), Buckets: int64(n), Outcome: r.Outcome, Rows: r.Rows, Bytes: r.Bytes,
		Writes: float64(r.Writes) / 1e6, Reads: float64(r.Reads) / 1e6,
	}
	if round.Outcome == "" {
		round.Outcome = "not known here"
	}
	return round
}

// flush writes the rounds of a job whose run has ended.
func (h *history) flush(ctx context.Context, job string) {
	h.save(ctx, job)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.saved, job)
}

// save writes the rounds of a job to its home shard. What cannot be written is kept for the next
// time.
func (h *history) save(ctx context.Context, job string) {
	h.mu.Lock()
	list := h.unsaved[job]
	delete(h.unsaved, job)
	h.saved[job] = time.Now()
	h.mu.Unlock()
	snap := h.cfg.Snapshot()
	m := snap.FindMove(job)
	if len(list) == 0 || m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, saveTimeout)
	defer cancel()
	if err := h.cfg.Shards.NoteRounds(ctx, snap.Home, m.Database, job, list); err != nil {
		h.cfg.Log.Warn("rounds of a move are not noted", "job", job, "err", err)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unsaved[job] = append(list, h.unsaved[job]...)
	}
}

// remembered is what carries rows, and writes down all rounds of a job before the job is over.
type remembered struct {
	carrier.Rows
	save func(job string)
}

// FinishMove implements carrier.Rows.
func (r remembered) FinishMove(ctx context.Context, snap *directory.Snapshot, m directory.Move) error {
	r.save(m.ID)
	return r.Rows.FinishMove(ctx, snap, m)
}
