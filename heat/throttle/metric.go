package throttle

import "sync/atomic"

// Metrics counts what rules have done since the proxy began, by origin and kind. Rules come and go, and
// their counts stay.
type Metrics struct {
	by map[Origin]map[Kind]*Metric
}

// Metric is one row of Metrics.
type Metric struct{ delayed, refused, wouldDelay, wouldRefuse atomic.Int64 }

// NewMetrics returns counts of zero.
func NewMetrics() *Metrics {
	m := &Metrics{by: map[Origin]map[Kind]*Metric{}}
	for _, o := range []Origin{Manual, Automatic, Declared} {
		m.by[o] = map[Kind]*Metric{}
		for _, k := range Kinds {
			m.by[o][k] = &Metric{}
		}
	}
	return m
}

func (m *Metrics) of(o Origin, k Kind) *Metric {
	if m == nil || m.by[o][k] == nil {
		return &Metric{} // of a newer version, counted for nobody
	}
	return m.by[o][k]
}

func (m *Metric) add(mode Mode, a action) {
	switch {
	case mode == Observe && a == actDelayed:
		m.wouldDelay.Add(1)
	case mode == Observe:
		m.wouldRefuse.Add(1)
	case a == actDelayed:
		m.delayed.Add(1)
	default:
		m.refused.Add(1)
	}
}

// Each calls f for each count.
func (m *Metrics) Each(f func(o Origin, k Kind, action string, n int64)) {
	for o, kinds := range m.by {
		for k, x := range kinds {
			f(o, k, "delayed", x.delayed.Load())
			f(o, k, "refused", x.refused.Load())
			f(o, k, "would_delay", x.wouldDelay.Load())
			f(o, k, "would_refuse", x.wouldRefuse.Load())
		}
	}
}
