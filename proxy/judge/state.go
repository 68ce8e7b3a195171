package judge

import (
	"maps"
	"slices"
	"sync"
	"time"

	"weft/heat/limit"
	"weft/heat/trend"
	"weft/heat/verdict"
)

// State is what a proxy knows of the findings, as it tells others.
type State struct {
	// Off: this proxy does not judge, and knows nothing.
	Off      bool                    `json:"off,omitempty"`
	Findings []verdict.Finding       `json:"findings"`
	Words    map[string]verdict.Word `json:"words,omitempty"` // of shards, by name
	Age      float64                 `json:"age"`             // seconds since they were made
	// Dismissed are the warnings that nobody wants to see, and for how many seconds.
	Dismissed map[string]float64 `json:"dismissed,omitempty"`
	Notes     Notes              `json:"notes,omitzero"`
	// Limits are how many backends of shards may work for clients.
	Limits limit.Limits `json:"limits,omitempty"`
}

// Notes are what the proxy that judges finds out more slowly than every second. They are never changed.
type Notes struct {
	// Advice is what would relieve saturated shards.
	Advice []Advice `json:"advice,omitempty"`
	// Skews are how evenly the work of databases was spread, and Loads what shards had to do.
	Skews map[string]trend.Skew `json:"skews,omitempty"`
	Loads map[string]trend.Load `json:"loads,omitempty"`
}

// Advice is one step that would relieve a shard. It names no key.
type Advice struct {
	Database, Shard, Why, SQL string
}

// maxDismissed bounds the warnings that are dismissed at a time.
const maxDismissed = 1000

// record is the state of a proxy. It is safe for concurrent use.
type record struct {
	mu        sync.Mutex
	off       bool
	findings  []verdict.Finding // never changed
	words     map[string]verdict.Word
	made      time.Time
	dismissed map[string]time.Time // until when
	notes     Notes
	limits    limit.Limits // never changed
}

// note replaces the notes.
func (r *record) note(n Notes) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = n
}

// limit replaces the limits.
func (r *record) limit(limits limit.Limits) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.limits = limits
}

// set replaces what was found.
func (r *record) set(found []verdict.Finding, words map[string]verdict.Word, made time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off, r.findings, r.words, r.made = false, found, words, made
}

// clear forgets what was found: this proxy does not judge.
func (r *record) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.off, r.findings, r.words, r.made, r.notes, r.limits = true, nil, nil, time.Time{}, Notes{}, nil
}

// dismiss hides a warning for a while. With 0 it is shown again.
func (r *record) dismiss(id string, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(r.dismissed, func(_ string, until time.Time) bool { return !until.After(now) })
	if d <= 0 {
		delete(r.dismissed, id)
		return
	}
	if r.dismissed == nil {
		r.dismissed = map[string]time.Time{}
	}
	if len(r.dismissed) < maxDismissed || !r.dismissed[id].IsZero() {
		r.dismissed[id] = now.Add(d)
	}
}

// learn takes over what another proxy has dismissed, as far as it is not known here.
func (r *record) learn(dismissed map[string]float64) {
	for _, id := range slices.Sorted(maps.Keys(dismissed)) {
		r.mu.Lock()
		known := r.dismissed[id].After(time.Now())
		r.mu.Unlock()
		if !known {
			r.dismiss(id, time.Duration(dismissed[id]*float64(time.Second)))
		}
	}
}

// state returns what is known now. Ages of findings are those of now.
func (r *record) state() State {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	s := State{Off: r.off, Findings: slices.Clone(r.findings), Words: r.words, Dismissed: map[string]float64{}, Notes: r.notes, Limits: r.limits}
	if !r.made.IsZero() {
		s.Age = now.Sub(r.made).Seconds()
	}
	for i := range s.Findings {
		s.Findings[i].Age += s.Age
	}
	for id, until := range r.dismissed {
		if left := until.Sub(now).Seconds(); left > 0 {
			s.Dismissed[id] = left
		}
	}
	return s
}

// Warnings returns the findings that people are to be told of.
func (s *State) Warnings() []verdict.Finding {
	return slices.DeleteFunc(verdict.Warnings(s.Findings), func(f verdict.Finding) bool { return s.Dismissed[f.WarningID()] > 0 })
}

// Without returns the state without values of keys.
func (s State) Without() State {
	s.Findings = slices.Clone(s.Findings)
	for i := range s.Findings {
		s.Findings[i].Value, s.Findings[i].Known = "", false
	}
	return s
}
