package proxy

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"weft/heat"
)

const (
	// sampleEvery is how often the samples of sessions are added up.
	sampleEvery = 250 * time.Millisecond
	// decayEvery is how often the picture decays if nobody looks at it: a decay touches all of it,
	// and costs as much as some hundred samples.
	decayEvery = 500 * time.Millisecond
	// warmShare is the share of all work from which on the value of a key is asked for, and
	// maxWatched bounds how many values are asked for at a time.
	warmShare  = 0.002
	maxWatched = 64
)

// warmth is what the proxy knows of the work that keys, buckets and shards have.
type warmth struct {
	sampler *heat.Sampler
	// watch are the keys whose values are wanted, nil for none.
	watch atomic.Pointer[heat.Watch]
	// salt makes the names of keys whose values are not to be seen. It is another one in each
	// process, so nobody finds a value by trying.
	salt []byte

	mu      sync.Mutex
	picture *heat.Picture
	recent  *heat.Picture        // of the last moment
	pending float64              // seconds by which picture is yet to decay
	buckets int                  // how many the cluster has that picture numbers
	totals  map[string]heat.Load // by shard, since the beginning
	taken   float64              // samples
	missed  float64              // samples for which there was no room
}

func newWarmth() *warmth {
	return &warmth{sampler: heat.NewSampler(), salt: newSecret(sha256.Size), picture: heat.NewPicture(), recent: heat.NewRecent(), totals: map[string]heat.Load{}}
}

// run adds samples up until ctx is done. buckets is how many buckets the cluster has.
func (w *warmth) run(ctx context.Context, conf func() Heat, buckets func() int) {
	last := time.Now()
	w.gather(0, conf())
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := time.Now()
		w.gather(now.Sub(last).Seconds(), conf())
		w.number(buckets())
		last = now
	}
}

// gather adds up the samples since the last call, which was so many seconds ago.
func (w *warmth) gather(seconds float64, conf Heat) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sampler.Drain(seconds, float64(conf.Samples), w.add)
	w.taken, w.missed = w.sampler.Counts()
	w.recent.Decay(seconds)
	if w.pending += seconds; w.pending >= decayEvery.Seconds() {
		w.decay()
	}
	w.watch.Load().Found(w.picture.Learn)
	var wanted []heat.Name
	if conf.Hashed {
		w.picture.Forget()
	} else if conf.Samples > 0 {
		wanted = w.picture.Warm(warmShare, maxWatched)
	}
	w.watch.Store(heat.NewWatch(wanted))
}

// decay makes the picture one of this moment. mu is held.
func (w *warmth) decay() {
	if w.pending > 0 {
		w.picture.Decay(w.pending)
		w.pending = 0
	}
}

// number begins a new picture if buckets have other numbers now.
func (w *warmth) number(buckets int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.buckets != 0 && w.buckets != buckets {
		w.picture, w.recent, w.pending = heat.NewPicture(), heat.NewRecent(), 0
	}
	w.buckets = buckets
}

// add counts one sample. mu is held.
func (w *warmth) add(s *heat.Sample) {
	w.picture.Add(s)
	w.recent.Add(s)
	if s.Shard != "" {
		w.totals[s.Shard] = w.totals[s.Shard].Plus(s.Load())
	}
	for _, name := range s.Shards {
		w.totals[name] = w.totals[name].Plus(s.Load())
	}
}

// report returns some parts of what is known now. Without values, keys have none.
func (w *warmth) report(parts heat.Parts, values bool) heat.Report {
	w.mu.Lock()
	w.decay()
	r := w.picture.Some(parts)
	if parts&heat.MomentPart != 0 {
		r.Moment = w.recent.Moment()
	}
	w.mu.Unlock()
	if !values {
		hideValues(&r)
	}
	return r
}

// hideValues takes the values of keys out of a report.
func hideValues(r *heat.Report) {
	for i := range r.Keys.Entries {
		r.Keys.Entries[i].Value, r.Keys.Entries[i].Known = "", false
	}
}

// brief returns what verdicts are made of. Without values, keys have none.
func (w *warmth) brief(values bool, buckets int) heat.Brief {
	w.mu.Lock()
	w.decay()
	b := heat.NewBrief(w.picture, w.recent, buckets)
	w.mu.Unlock()
	if !values {
		hideValues(&b.Now)
	}
	return b
}

// instant returns the work of buckets and shards at this moment.
func (w *warmth) instant() heat.Instant {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.decay()
	return w.picture.Instant()
}

// since returns what was counted since the beginning.
func (w *warmth) since() (totals map[string]heat.Load, taken, missed float64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.totals), w.taken, w.missed
}

// nameOf returns a name for a key that tells nothing of its value.
func (w *warmth) nameOf(n heat.Name) string {
	h := hmac.New(sha256.New, w.salt)
	h.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32([]byte(n.Database), n.Group), n.ID))
	return "#" + hex.EncodeToString(h.Sum(nil)[:8])
}
