package heat

import (
	"cmp"
	"slices"
)

// Entry is one thing that a Summary knows. What the thing has cost in truth is between Count-Error
// and Count. Load and Times are what was counted since the thing is known.
type Entry[K comparable] struct {
	Name  K         `json:"n"`
	Count float64   `json:"c"`
	Error float64   `json:"e,omitempty"`
	Load  Load      `json:"l"`
	Wide  float64   `json:"s,omitempty"` // of a statement: what its executions over several shards have cost, of Count
	Times Histogram `json:"h"`
	Age   float64   `json:"a"` // seconds since the thing is known

	Bucket int32  `json:"b"`           // of a key
	Value  string `json:"v,omitempty"` // of a key, once it is known
	Known  bool   `json:"k,omitempty"` // the value is known

	at int // the index in the heap
}

// Summary keeps the heaviest of many things in a bounded number of entries: Space-Saving with
// weights. A newcomer takes the place of the lightest entry, and its Error is what that one had.
type Summary[K comparable] struct {
	most    int
	entries map[K]*Entry[K]
	heap    []*Entry[K] // the lightest first
	floor   float64     // things without an entry have cost no more than this or the lightest entry
}

// NewSummary returns a summary of at most so many entries.
func NewSummary[K comparable](most int) *Summary[K] {
	return &Summary[K]{most: most, entries: make(map[K]*Entry[K], most)}
}

// Bound is what a thing without an entry may have cost at most.
func (s *Summary[K]) Bound() float64 {
	if len(s.heap) < s.most {
		return s.floor
	}
	return max(s.floor, s.heap[0].Count)
}

// Add says that a thing has cost something more. The caller adds to the entry's Load and Times.
func (s *Summary[K]) Add(name K, cost float64) *Entry[K] {
	e := s.entries[name]
	switch {
	case e != nil:
		e.Count += cost
		s.down(e.at)
		return e
	case len(s.heap) < s.most:
		e = &Entry[K]{Name: name, Error: s.floor, Count: s.floor + cost, at: len(s.heap)}
		s.heap = append(s.heap, e)
		s.entries[name] = e
		s.up(e.at)
		return e
	}
	e = s.heap[0]
	bound := s.Bound()
	delete(s.entries, e.Name)
	*e = Entry[K]{Name: name, Error: bound, Count: bound + cost}
	s.entries[name] = e
	s.down(0)
	return e
}

// Get returns the entry of a thing, nil if it has none.
func (s *Summary[K]) Get(name K) *Entry[K] { return s.entries[name] }

// Decay leaves a share f of everything, after so many seconds. Entries of less than least go.
func (s *Summary[K]) Decay(seconds, f, least float64) {
	s.floor *= f
	kept := s.heap[:0]
	for _, e := range s.heap {
		e.Count, e.Error, e.Wide, e.Load, e.Age = e.Count*f, e.Error*f, e.Wide*f, e.Load.Times(f), e.Age+seconds
		if e.Count < least {
			s.floor = max(s.floor, e.Count)
			delete(s.entries, e.Name)
			continue
		}
		e.Times.Decay(f)
		kept = append(kept, e)
	}
	if len(kept) == len(s.heap) {
		return // all have decayed alike: the order is that of a heap still
	}
	clear(s.heap[len(kept):])
	s.heap = kept
	slices.SortFunc(s.heap, func(a, b *Entry[K]) int { return cmp.Compare(a.Count, b.Count) })
	for i, e := range s.heap {
		e.at = i
	}
}

// Heaviest returns up to n entries, the heaviest first, and what things that are not among them may
// have cost at most.
func (s *Summary[K]) Heaviest(n int) Heaviest[K] {
	all := slices.Clone(s.heap)
	slices.SortFunc(all, heavier)
	out := Heaviest[K]{Bound: s.Bound()}
	for i, e := range all {
		if i == n {
			out.Bound = max(out.Bound, e.Count)
			break
		}
		out.Entries = append(out.Entries, *e)
	}
	return out
}

func heavier[K comparable](a, b *Entry[K]) int { return cmp.Compare(b.Count, a.Count) }

// Heaviest is what a summary knows, or several together.
type Heaviest[K comparable] struct {
	Entries []Entry[K] `json:"e"`
	Bound   float64    `json:"b"`
}

// Times returns f times as much of everything.
func (h Heaviest[K]) Times(f float64) Heaviest[K] {
	out := Heaviest[K]{Bound: h.Bound * f, Entries: slices.Clone(h.Entries)}
	for i := range out.Entries {
		e := &out.Entries[i]
		e.Count, e.Error, e.Wide, e.Load = e.Count*f, e.Error*f, e.Wide*f, e.Load.Times(f)
	}
	return out
}

// Merge returns up to n of what two know together. What one of them does not list may have cost its
// Bound there.
func (h Heaviest[K]) Merge(o Heaviest[K], n int) Heaviest[K] {
	byName := make(map[K]*Entry[K], len(o.Entries))
	for i := range o.Entries {
		byName[o.Entries[i].Name] = &o.Entries[i]
	}
	var all []*Entry[K]
	for _, e := range h.Entries {
		other := byName[e.Name]
		if other == nil {
			other = &Entry[K]{Count: o.Bound, Error: o.Bound}
		}
		delete(byName, e.Name)
		e.Count, e.Error, e.Load, e.Age = e.Count+other.Count, e.Error+other.Error, e.Load.Plus(other.Load), max(e.Age, other.Age)
		e.Wide += other.Wide
		e.Times.Merge(&other.Times, 1)
		if !e.Known {
			e.Known, e.Value = other.Known, other.Value
		}
		all = append(all, &e)
	}
	for _, e := range o.Entries {
		if byName[e.Name] != nil {
			e.Count, e.Error = e.Count+h.Bound, e.Error+h.Bound
			all = append(all, &e)
		}
	}
	slices.SortFunc(all, heavier)
	out := Heaviest[K]{Bound: h.Bound + o.Bound}
	for i, e := range all {
		if i == n {
			out.Bound = max(out.Bound, e.Count)
			break
		}
		out.Entries = append(out.Entries, *e)
	}
	return out
}

// up moves an entry that may be lighter than the one above it.
func (s *Summary[K]) up(i int) {
	for i > 0 && s.heap[i].Count < s.heap[(i-1)/2].Count {
		s.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

// down moves an entry that may be heavier than those below it.
func (s *Summary[K]) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(s.heap); c++ {
			if s.heap[c].Count < s.heap[least].Count {
				least = c
			}
		}
		if least == i {
			return
		}
		s.swap(i, least)
		i = least
	}
}

func (s *Summary[K]) swap(i, j int) {
	s.heap[i], s.heap[j] = s.heap[j], s.heap[i]
	s.heap[i].at, s.heap[j].at = i, j
}
