package verdict

import (
	"math"

	"weft/heat"
)

const (
	// beat is after how many seconds the same second comes again.
	beat = 60
	// beatTimes is how many times the mean of its minute a second must have to stand out, and leastBeat how many statements.
	beatTimes = 5.0
	leastBeat = 20.0
	// beats is for how many minutes in a row the same second must stand out.
	beats = 10
	// maxRhythms bounds the things whose seconds are counted.
	maxRhythms = 256
)

// rhythm is when within a minute the statements of a thing come.
type rhythm struct {
	counts [beat]float32 // of this minute, by second
	minute int64
	kept   float64 // what the picture of the last moment has counted
	peak   int     // the second that stands out
	run    int     // for how many minutes
	heard  bool    // in this second
	idle   int     // minutes without statements
}

// hear takes the statements per second that the picture of the last moment shows at a time, in seconds. That picture keeps half
// of all for another second, so what is new is what was not there before.
func (r *rhythm) hear(rate float64, at int64, elapsed float64) {
	const mean = heat.RecentHalfLife / math.Ln2
	n := max(0, rate*mean-r.kept*math.Exp2(-elapsed/heat.RecentHalfLife))
	r.kept, r.heard = rate*mean, true
	if minute := at / beat; minute != r.minute {
		if minute != r.minute+1 {
			r.run = 0
		}
		r.close()
		r.minute = minute
	}
	r.counts[at%beat] += float32(n)
}

// close ends a minute.
func (r *rhythm) close() {
	sum, most := 0.0, 0
	for i, n := range r.counts {
		sum += float64(n)
		if n > r.counts[most] {
			most = i
		}
	}
	least := float32(max(leastBeat, beatTimes*sum/beat))
	if r.run > 0 { // a burst may be counted a second earlier or later than a minute ago
		for _, s := range []int{r.peak, (r.peak + 1) % beat, (r.peak + beat - 1) % beat} {
			if r.counts[s] >= least {
				most = s
				break
			}
		}
	}
	away := (most - r.peak + beat) % beat
	switch {
	case r.counts[most] < least:
		r.run = 0
	case r.run > 0 && (away <= 1 || away == beat-1):
		r.run++
	default:
		r.run = 1
	}
	r.peak = most
	if r.idle++; sum > 0 {
		r.idle = 0
	}
	r.counts = [beat]float32{}
}

// regular reports whether statements come in the same second of each minute.
func (r *rhythm) regular() bool { return r != nil && r.run >= beats }

// rhythms are those of shards and statements.
type rhythms map[Object]*rhythm

// hear takes the facts of a second.
func (all rhythms) hear(f *Facts, elapsed float64) {
	for name, sh := range f.Recent.Shards {
		all.note(Object{Kind: Shard, Shard: name}, sh.Load.Calls(), f.At, elapsed)
	}
	for i := range f.Recent.Statements.Entries {
		e := &f.Recent.Statements.Entries[i]
		all.note(statementObject(e.Name), e.Load.Calls(), f.At, elapsed)
	}
	for o, r := range all {
		if !r.heard {
			r.hear(0, f.At, elapsed)
		}
		if r.heard = false; r.idle >= beats {
			delete(all, o)
		}
	}
}

func (all rhythms) note(o Object, calls float64, at int64, elapsed float64) {
	r := all[o]
	if r == nil {
		if len(all) >= maxRhythms {
			return
		}
		r = &rhythm{minute: at / beat, kept: math.Inf(1)} // what came before is not known
		all[o] = r
	}
	r.hear(calls, at, elapsed)
}
