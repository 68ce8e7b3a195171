package sequence

import (
	"slices"
	"sync"

	"weft/primary"
)

// Mark is how far a proxy has drawn from a sequence.
type Mark struct {
	// Low and High are the least and the greatest value, and Last is the last one.
	Low  int64 `json:"low"`
	High int64 `json:"high"`
	Last int64 `json:"last"`
	// LSN is where the log of the home shard was after the last draw, on its timeline.
	LSN      primary.LSN `json:"lsn"`
	Timeline uint32      `json:"timeline"`
}

// Marks are what a proxy remembers of its draws: after a failover of the home shard the sequences may have gone back, and are raised above
// the marks of all proxies. Its methods may be called by several goroutines. A zero Marks is empty.
type Marks struct {
	mu sync.Mutex
	// told is the highest timeline of the home shard for which a mark was asked. What is drawn on a lower one must not be used any more: other
	// proxies do not know of it.
	told uint32
	by   map[[2]string]*marked
}

type marked struct {
	Mark
	epoch int64
}

// Note notes values that were drawn from a sequence, and reports whether they may be used. epoch is as for Take: marks of another epoch
// are forgotten.
func (m *Marks) Note(database, sequence string, epoch int64, timeline uint32, values []int64, at primary.LSN) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if timeline < m.told {
		return false
	}
	if len(values) == 0 {
		return true
	}
	key := [2]string{database, sequence}
	k := m.by[key]
	if k == nil || k.epoch != epoch {
		if m.by == nil {
			m.by = map[[2]string]*marked{}
		}
		k = &marked{Mark: Mark{Low: values[0], High: values[0]}, epoch: epoch}
		m.by[key] = k
	}
	k.Low, k.High = min(k.Low, slices.Min(values)), max(k.High, slices.Max(values))
	k.Last, k.LSN, k.Timeline = values[len(values)-1], at, timeline
	return true
}

// Tell returns the mark of a sequence, nil if nothing was drawn from it. From now on no value is used that was drawn on a lower
// timeline than this one and is not below the mark.
func (m *Marks) Tell(database, sequence string, timeline uint32) *Mark {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.told = max(m.told, timeline)
	if k := m.by[[2]string{database, sequence}]; k != nil {
		mark := k.Mark
		return &mark
	}
	return nil
}
