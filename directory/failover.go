package directory

import (
	"context"
	"maps"
	"time"

	"weft/primary"
)

// MaxFailovers is how many failovers of a shard are kept.
const MaxFailovers = 100

// Failovers is a Store that remembers failovers.
type Failovers interface {
	// NoteFailover stores what is known of a failover, together with what is stored of the same one already. Of each shard the last
	// MaxFailovers are kept.
	NoteFailover(ctx context.Context, f Failover) error

	// Failovers lists what is stored, ordered by shard and timeline.
	Failovers(ctx context.Context) ([]Failover, error)
}

// Failover is a change of a shard's primary, as proxies have seen it.
type Failover struct {
	Shard string    `json:"shard"`
	At    time.Time `json:"at"`
	// From and To are addresses; From is empty if it is not known.
	From         string `json:"from,omitempty"`
	To           string `json:"to"`
	FromTimeline uint32 `json:"from_timeline"`
	Timeline     uint32 `json:"timeline"`
	// Fork is where the new timeline begins, and Last is how far the old primary is known to have written. 0: not known.
	Fork primary.LSN `json:"fork"`
	Last primary.LSN `json:"last"`
	// Waited says that the old primary had acknowledged nothing beyond Fork that a standby had not received, and Held is the furthest that one had received.
	Waited bool        `json:"waited,omitempty"`
	Held   primary.LSN `json:"held,omitempty"`
	// Kept is a time before which nothing was lost, on the clock of a proxy. Zero: not known.
	Kept time.Time `json:"kept,omitzero"`
	// Pauses are what clients have noticed, by proxy.
	Pauses map[string]Pause `json:"pauses,omitempty"`
}

// Pause is for how long clients of a proxy have waited, and how many at most at a time.
type Pause struct {
	Sessions int64   `json:"sessions"`
	Millis   float64 `json:"millis"`
}

// Lost returns how many bytes of the old primary's log the new one lacks, at least, without what was not acknowledged for certain. known is false if that
// cannot be told.
func (f *Failover) Lost() (bytes uint64, known bool) {
	last := f.Last
	if f.Waited {
		last = f.Held
	}
	if f.Fork == 0 || last == 0 {
		return 0, false
	}
	if last <= f.Fork {
		return 0, true
	}
	return uint64(last - f.Fork), true
}

// Pause returns what clients of all proxies have noticed: how many have waited, and the longest wait.
func (f *Failover) Pause() (all Pause) {
	for _, p := range f.Pauses {
		all.Sessions += p.Sessions
		all.Millis = max(all.Millis, p.Millis)
	}
	return all
}

// With returns what is known of a failover by f and by other.
func (f Failover) With(other Failover) Failover {
	if other.At.Before(f.At) {
		f.At = other.At
	}
	if f.From == "" {
		f.From, f.FromTimeline = other.From, other.FromTimeline
	}
	if f.Fork == 0 {
		f.Fork = other.Fork
	}
	f.Last, f.Held = max(f.Last, other.Last), max(f.Held, other.Held)
	f.Waited = f.Waited || other.Waited // a proxy that was started later does not know
	if other.Kept.After(f.Kept) {
		f.Kept = other.Kept
	}
	pauses := maps.Clone(other.Pauses)
	if pauses == nil {
		pauses = map[string]Pause{}
	}
	maps.Copy(pauses, f.Pauses)
	f.Pauses = pauses
	return f
}
