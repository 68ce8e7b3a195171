package verdict

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

const (
	// QuietFor is for how many seconds something must be below half of its threshold to end.
	QuietFor = 15.0
	// longestStep bounds for how long one call of Second counts: a process that stood still has not
	// seen that all was quiet.
	longestStep = 2.0
	// maxTracks bounds what is followed at a time.
	maxTracks = 1024
)

// grade is where a figure is: below half of its threshold, between, or over it.
type grade uint8

const (
	below grade = iota
	between
	over
)

func gradeOf(x, threshold float64) grade {
	switch {
	case x >= threshold:
		return over
	case x >= threshold/2:
		return between
	}
	return below
}

// Tracker follows findings from second to second. One goroutine may use it at a time.
type Tracker struct {
	tracks  map[subject]*track
	drifts  drifts
	rhythms rhythms
}

type subject struct {
	Object
	verdict Verdict
}

// track is what became of one possible finding in the last seconds.
type track struct {
	f     Finding
	last  uint8   // one bit for each second that was over the threshold, the last one lowest
	quiet float64 // seconds below half of the threshold
	on    bool
	grade grade // of this second
}

// NewTracker returns a tracker that goes on from the findings of another one.
func NewTracker(before []Finding) *Tracker {
	t := &Tracker{tracks: map[subject]*track{}, rhythms: rhythms{}}
	for i := range before {
		f := before[i]
		t.tracks[subject{f.Object, f.Verdict}] = &track{f: f, last: 3, on: true}
	}
	return t
}

// Second judges the facts of a second, and returns what is found now, the most work first. elapsed is how many
// seconds have passed since the last call.
func (t *Tracker) Second(facts *Facts, elapsed float64) (now []Finding) {
	elapsed = min(max(elapsed, 0), longestStep)
	for _, k := range t.tracks {
		k.grade = below
		k.f.Age += elapsed
		if facts.Hidden {
			k.f.Value, k.f.Known = "", false
		}
	}
	t.drifts.look(facts, elapsed)
	t.rhythms.hear(facts, elapsed)
	newScene(t, facts).judge()
	for s, k := range t.tracks {
		k.last = k.last << 1 & 7
		k.quiet += elapsed
		if k.grade == over {
			k.last |= 1
		}
		if k.grade != below {
			k.quiet = 0
		}
		switch {
		case !k.on && bits.OnesCount8(k.last) >= 2:
			k.on, k.f.Age = true, 0
			t.number(k)
		case k.on && k.quiet >= QuietFor:
			delete(t.tracks, s)
			continue
		case !k.on && k.last == 0:
			delete(t.tracks, s)
			continue
		}
		if k.on {
			now = append(now, k.f)
		}
	}
	slices.SortFunc(now, byWeight)
	return now
}

// byWeight orders findings: the most work first.
func byWeight(a, b Finding) int {
	return cmp.Or(
		cmp.Compare(b.Share, a.Share), cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Verdict, b.Verdict), cmp.Compare(a.Database, b.Database), cmp.Compare(a.Shard, b.Shard),
		cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Text, b.Text), cmp.Compare(a.User, b.User),
	)
}

// note says how a thing is graded in this second. Of a thing that is below, only what is followed
// already is kept.
func (t *Tracker) note(g grade, f Finding) {
	s := subject{f.Object, f.Verdict}
	k := t.tracks[s]
	if k == nil {
		if g != over || len(t.tracks) >= maxTracks {
			return
		}
		k = &track{}
		t.tracks[s] = k
	}
	if g < k.grade {
		return
	}
	f.Age, f.Number = k.f.Age, k.f.Number
	if !f.Known {
		f.Known, f.Value = k.f.Known, k.f.Value
	}
	if g == below {
		f.Reason = cmp.Or(k.f.Reason, f.Reason) // why it was hot is what matters until it ends
	}
	k.f, k.grade = f, g
}

// number tells a warning apart from others with the same id.
func (t *Tracker) number(k *track) {
	for again := true; again; {
		again = false
		for _, o := range t.tracks {
			if o != k && o.on && o.f.Warns() && o.f.WarningID() == k.f.WarningID() && o.f.Object != k.f.Object && k.f.Number < math.MaxUint8 {
				k.f.Number++
				again = true
				break
			}
		}
	}
}

// age is for how many seconds a thing has had a verdict, 0 if it has not.
func (t *Tracker) age(o Object, v Verdict) float64 {
	if k := t.tracks[subject{o, v}]; k != nil && k.on {
		return k.f.Age
	}
	return 0
}
