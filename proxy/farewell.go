package proxy

import (
	"sync/atomic"
	"time"
)

// Drain says how sessions end when a proxy does.
type Drain struct {
	// Timeout is how long running transactions may take. Default 30s.
	Timeout time.Duration
	// Idle is what becomes of idle sessions meanwhile.
	Idle DrainIdle
}

// DrainIdle says what becomes of idle sessions when a proxy ends.
type DrainIdle uint8

// What becomes of them.
const (
	// DrainClose: they end at once.
	DrainClose DrainIdle = iota
	// DrainSpread: they end one by one, over the most part of the time that is left, so that not all clients come to the other
	// proxies at once.
	DrainSpread
	// DrainKeep: they go on until their clients leave, or the time is over.
	DrainKeep
)

// spreadShare is the share of the time over which sessions end one by one. The rest is for their transactions.
const spreadShare = 0.8

// farewell says when sessions end because the proxy does. Its methods may be called by several goroutines.
type farewell struct {
	begun atomic.Bool
	plan  atomic.Pointer[drainPlan] // nil: sessions end at once
}

// drainPlan is how sessions end.
type drainPlan struct {
	idle  DrainIdle
	began time.Time
	over  time.Duration // how long it takes until the last is told
}

// begin says that sessions end from now on. end is when they are cut off.
func (f *farewell) begin(idle DrainIdle, now, end time.Time) {
	f.plan.Store(&drainPlan{idle, now, time.Duration(spreadShare * float64(end.Sub(now)))})
	f.begun.Store(true)
}

// due reports whether a session is to end as soon as it is idle.
func (f *farewell) due(session int32, now time.Time) bool {
	if !f.begun.Load() {
		return false
	}
	p := f.plan.Load()
	switch {
	case p == nil || p.idle == DrainClose:
		return true
	case p.idle == DrainKeep:
		return false
	}
	// Numbers of sessions count up; multiplied like this they are spread evenly.
	share := float64(uint32(session)*2654435769) / (1 << 32)
	return now.Sub(p.began) >= time.Duration(share*float64(p.over))
}
