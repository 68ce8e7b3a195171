package proxy

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/reshard/carrier"
	"weft/schema"
	"weft/tally"
)

// roundLog has the home shards remember what became of rounds. What has not been written yet is kept
// here for a second at most while rounds go on.
type roundLog struct {
	s *Server

	mu      sync.Mutex
	unsaved map[string][]schema.MoveRound // by job
	saved   map[string]time.Time          // when the rounds of a job were last written
}

const (
	// saveEvery is how often rounds are written.
	saveEvery = time.Second
	// maxUnsaved bounds the rounds that are kept while the home shard cannot be reached.
	maxUnsaved = 1000
)

// note takes the report of a round.
func (h *roundLog) note(r carrier.Report) {
	h.s.metrics.move(&r)
	var ways []string
	n := 0
	for _, p := range r.Pairs {
		ways = append(ways, fmt.Sprintf("%s -> %s: %s", p.From, p.To, schema.Ranges(p.Buckets)))
		n += len(p.Buckets)
	}
	round := schema.MoveRound{
		Job: r.Job, Ended: time.Now(), Ways: strings.Join(ways, "; "), Buckets: int64(n), Outcome: r.Outcome, Rows: r.Rows, Bytes: r.Bytes,
		Writes: float64(r.Writes) / 1e6, Reads: float64(r.Reads) / 1e6,
	}
	if round.Outcome == "" {
		round.Outcome = "not known here"
	}
	h.mu.Lock()
	if h.unsaved == nil {
		h.unsaved, h.saved = map[string][]schema.MoveRound{}, map[string]time.Time{}
	}
	if list := append(h.unsaved[r.Job], round); len(list) <= maxUnsaved {
		h.unsaved[r.Job] = list
	}
	due := time.Since(h.saved[r.Job]) > saveEvery
	h.mu.Unlock()
	if due {
		h.save(r.Job)
	}
}

// flush writes the rounds of a job whose run has ended.
func (h *roundLog) flush(job string) {
	h.save(job)
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.saved, job)
}

// save writes the rounds of a job to its home shard. What cannot be written is kept for the next
// time.
func (h *roundLog) save(job string) {
	h.mu.Lock()
	list := h.unsaved[job]
	delete(h.unsaved, job)
	if h.saved != nil {
		h.saved[job] = time.Now()
	}
	h.mu.Unlock()
	snap := h.s.cfg.Snapshot()
	m := snap.FindMove(job)
	if len(list) == 0 || m == nil {
		return
	}
	ctx, cancel := context.WithTimeout(h.s.ctx, installTimeout)
	defer cancel()
	if err := h.s.mover.NoteRounds(ctx, snap.Home, m.Database, job, list); err != nil {
		h.s.log.Warn("rounds of a move are not noted", "job", job, "err", err)
		h.mu.Lock()
		defer h.mu.Unlock()
		h.unsaved[job] = append(list, h.unsaved[job]...)
	}
}

// remembered is the mover of rows, which writes down all rounds of a job before the job is over.
type remembered struct {
	*schema.Mover
	history *roundLog
}

// FinishMove implements carrier.Rows.
func (r remembered) FinishMove(ctx context.Context, snap *directory.Snapshot, m directory.Move) error {
	r.history.save(m.ID)
	return r.Mover.FinishMove(ctx, snap, m)
}

// moveMetrics is what was counted of moves that this proxy has run, and of statements that rounds
// have held here.
type moveMetrics struct {
	mu          sync.Mutex
	rows, bytes int64
	outcomes    map[string]int64

	writes, reads, holds *tally.Histogram
	held                 atomic.Int64 // statements that wait now
}

func newMoveMetrics() *moveMetrics {
	return &moveMetrics{
		outcomes: map[string]int64{"carried": 0, "gave_way": 0},
		writes:   tally.NewHistogram(tally.Durations), reads: tally.NewHistogram(tally.Durations), holds: tally.NewHistogram(tally.Durations),
	}
}

// move counts a round.
func (m *metrics) move(r *carrier.Report) {
	outcome := "gave_way"
	if r.Outcome == schema.Carried {
		outcome = "carried"
	}
	m.moves.mu.Lock()
	m.moves.rows += r.Rows
	m.moves.bytes += r.Bytes
	m.moves.outcomes[outcome]++
	m.moves.mu.Unlock()
	m.moves.writes.Add(0, int64(r.Writes))
	if r.Reads > 0 {
		m.moves.reads.Add(0, int64(r.Reads))
	}
}
