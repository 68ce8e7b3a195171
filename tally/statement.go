package tally

import (
	"sync/atomic"
	"time"
)

// Owner is whose statements are counted together.
type Owner struct{ User, Database string }

// Statement counts the executions of one normalised text by one owner.
type Statement struct {
	owner Owner
	norm  string
	size  int64
	since time.Time

	calls, errors, total, rows, shards atomic.Int64
	min, max                           atomic.Int64 // of the calls; min is one more than it, 0 if there is none
	kind                               atomic.Uint32
	used                               atomic.Int64 // when, as Now tells it
	gone                               atomic.Bool  // the table has it no more
}

// Call is one execution.
type Call struct {
	At     int64 // when it ended, as Now tells it
	Time   int64 // how long it took, in nanoseconds
	Rows   int64
	Shards int32
	Kind   Kind
	// Failed executions count among the calls too, but not in the times.
	Failed bool
	// Goes on: there will be more of it, so it is not a call of its own.
	GoesOn bool
}

// Add counts an execution.
func (st *Statement) Add(c Call) {
	st.used.Store(c.At)
	if !c.GoesOn {
		st.calls.Add(1)
	}
	if c.Failed {
		st.errors.Add(1)
		return
	}
	st.total.Add(c.Time)
	if c.Rows > 0 {
		st.rows.Add(c.Rows)
	}
	st.shards.Add(int64(c.Shards))
	if k := uint32(c.Kind); st.kind.Load() != k {
		st.kind.Store(k)
	}
	for {
		m := st.min.Load()
		if m != 0 && m <= c.Time+1 || st.min.CompareAndSwap(m, c.Time+1) {
			break
		}
	}
	for {
		m := st.max.Load()
		if m >= c.Time || st.max.CompareAndSwap(m, c.Time) {
			break
		}
	}
}

// Counts is what a Statement has counted.
type Counts struct {
	Owner
	Norm  string
	Since time.Time // counts begin there
	Kind  Kind      // of the last call

	Calls, Errors, Rows, Shards int64
	Total, Min, Max             time.Duration
}

// Mean is the time of a call that did not fail.
func (c Counts) Mean() time.Duration {
	if n := c.Calls - c.Errors; n > 0 {
		return c.Total / time.Duration(n)
	}
	return 0
}

func (st *Statement) read() Counts {
	return Counts{
		Owner: st.owner, Norm: st.norm, Since: st.since, Kind: Kind(st.kind.Load()),
		Calls: st.calls.Load(), Errors: st.errors.Load(), Rows: st.rows.Load(), Shards: st.shards.Load(),
		Total: time.Duration(st.total.Load()), Min: time.Duration(max(st.min.Load()-1, 0)), Max: time.Duration(st.max.Load()),
	}
}
