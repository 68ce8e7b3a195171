package judge

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"weft/directory"
	"weft/heat/limit"
	"weft/heat/verdict"
)

const (
	// Every is how often findings are made.
	Every = time.Second
	// StaleAfter is the age from which on findings are not to be relied on.
	StaleAfter = 5 * time.Second
	// silentAfter is how many answers a proxy must miss to be passed over.
	silentAfter = 3
	// askTimeout bounds how long an answer of a proxy or a shard may take.
	askTimeout = 900 * time.Millisecond
)

// Config is what a Judge needs. All fields but Limits and Judged are required.
type Config struct {
	// Self is the ID of this proxy.
	Self string
	Log  *slog.Logger
	// On reports whether this proxy judges at all.
	On func() bool
	// Proxies lists the live proxies. A proxy without a directory is alone: it returns itself.
	Proxies func(context.Context) ([]directory.Proxy, error)
	// Ask asks another proxy for its state.
	Ask func(ctx context.Context, other directory.Proxy) (State, error)
	// Facts collects what all proxies know, without the words of shards.
	Facts func(context.Context) *verdict.Facts
	// Word asks a shard what its backends do.
	Word func(ctx context.Context, shard string) (verdict.Word, error)
	// Guarded returns f for a goroutine that may panic.
	Guarded func(f func()) func()
	// Limits returns the limits of shards, with those of before and the facts of so many seconds. Nil: there are none.
	Limits func(before limit.Limits, facts *verdict.Facts, seconds float64) limit.Limits
	// Judged is called by the proxy that judges, with what it has found in this second. Nil: nobody acts on it.
	Judged func(ctx context.Context, facts *verdict.Facts, found []verdict.Finding)
}

// Judge finds what is hot, or knows it from the proxy that does. State and Dismiss may be called by
// several goroutines.
type Judge struct {
	cfg    Config
	record record
	judges atomic.Bool

	// Second alone uses what follows.
	order   []directory.Proxy
	missed  map[string]int   // answers, by proxy
	tracker *verdict.Tracker // nil while another proxy judges
	words   map[string]verdict.Word
	last    time.Time // when this proxy judged last
}

// New returns a Judge.
func New(cfg Config) *Judge { return &Judge{cfg: cfg, missed: map[string]int{}} }

// State returns what is known now.
func (j *Judge) State() State { return j.record.state() }

// Judges reports whether this proxy is the one that judges.
func (j *Judge) Judges() bool { return j.judges.Load() }

// Note keeps what the proxy that judges has found out beside its findings. The others hear of it with those.
func (j *Judge) Note(n Notes) { j.record.note(n) }

// Dismiss hides the warning of that id for a while, or shows it again if d is 0.
func (j *Judge) Dismiss(id string, d time.Duration) { j.record.dismiss(id, d) }

// Run works until ctx ends.
func (j *Judge) Run(ctx context.Context) {
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		j.Second(ctx)
	}
}

// Second judges, or hears what another proxy has found.
func (j *Judge) Second(ctx context.Context) {
	if !j.cfg.On() {
		j.tracker = nil
		j.judges.Store(false)
		j.record.clear()
		return
	}
	j.list(ctx)
	for _, p := range j.order {
		if p.ID == j.cfg.Self {
			j.judge(ctx)
			return
		}
		asking, stop := context.WithTimeout(ctx, askTimeout)
		state, err := j.cfg.Ask(asking, p)
		stop()
		if err != nil {
			if j.missed[p.ID]++; j.missed[p.ID] < silentAfter {
				return
			}
			continue
		}
		delete(j.missed, p.ID)
		j.record.learn(state.Dismissed)
		if state.Off {
			continue
		}
		if j.tracker != nil {
			j.cfg.Log.Debug("another proxy judges what is hot", "proxy", p.ID)
			j.tracker = nil
		}
		j.judges.Store(false)
		j.record.note(state.Notes)
		j.record.limit(state.Limits)
		j.record.set(state.Findings, state.Words, time.Now().Add(-time.Duration(state.Age*float64(time.Second))))
		return
	}
}

// list reads which proxies there are. If the directory does not say, they are those of before.
func (j *Judge) list(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	list, err := j.cfg.Proxies(ctx)
	if err != nil {
		return
	}
	j.order = slices.SortedFunc(slices.Values(list), func(a, b directory.Proxy) int {
		return cmp.Or(cmp.Compare(a.Epoch, b.Epoch), cmp.Compare(a.ID, b.ID))
	})
	for id := range j.missed {
		if !slices.ContainsFunc(list, func(p directory.Proxy) bool { return p.ID == id }) {
			delete(j.missed, id)
		}
	}
}

// judge makes findings.
func (j *Judge) judge(ctx context.Context) {
	before := j.record.state()
	if j.tracker == nil {
		j.cfg.Log.Debug("this proxy judges what is hot")
		j.tracker, j.words, j.last = verdict.NewTracker(before.Findings), before.Words, time.Now()
	}
	facts := j.cfg.Facts(ctx)
	if facts == nil || ctx.Err() != nil {
		return
	}
	now := time.Now()
	elapsed := now.Sub(j.last).Seconds()
	j.last = now
	j.words = j.ask(ctx, facts.Servers, elapsed)
	for i := range facts.Servers {
		facts.Servers[i].Word = j.words[facts.Servers[i].Name]
	}
	found := j.tracker.Second(facts, elapsed)
	if j.cfg.Limits != nil {
		j.record.limit(j.cfg.Limits(before.Limits, facts, elapsed))
	}
	j.judges.Store(true)
	j.record.set(found, j.words, now)
	begun, ended := verdict.Changes(before.Findings, found)
	for i := range begun {
		j.tell(slog.LevelWarn, "a warning has begun", &begun[i], before.Dismissed)
	}
	for i := range ended {
		j.tell(slog.LevelInfo, "a warning has ended", &ended[i], before.Dismissed)
	}
	if j.cfg.Judged != nil {
		j.cfg.Judged(ctx, facts, found)
	}
}

// tell writes about a warning, without values of keys and texts of statements.
func (j *Judge) tell(level slog.Level, message string, f *verdict.Finding, dismissed map[string]float64) {
	id := f.WarningID()
	if dismissed[id] > 0 {
		return
	}
	facts := []any{"id", id, "kind", f.Kind, "verdict", f.Verdict, "shard", f.On}
	add := func(name, value string) {
		if value != "" {
			facts = append(facts, name, value)
		}
	}
	add("reason", string(f.Reason))
	add("class", string(f.Class))
	add("database", f.Database)
	add("user", f.User)
	if bucket := max(f.In, f.Bucket); f.Kind == verdict.Key || f.Kind == verdict.Bucket {
		facts = append(facts, "bucket", bucket)
	}
	facts = append(facts, "share", float64(int(1000*f.Share))/1000, "seconds", int(f.Age))
	j.cfg.Log.Log(context.Background(), level, message, facts...)
}

// ask asks all shards what their backends do, and returns what is known of them now.
func (j *Judge) ask(ctx context.Context, servers []verdict.Server, elapsed float64) map[string]verdict.Word {
	ctx, stop := context.WithTimeout(ctx, askTimeout)
	defer stop()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]verdict.Word{}
	for _, s := range servers {
		before := j.words[s.Name]
		wg.Go(j.cfg.Guarded(func() {
			word, err := j.cfg.Word(ctx, s.Name)
			if err != nil {
				j.cfg.Log.Debug("a shard does not say what its backends do", "shard", s.Name, "err", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			out[s.Name] = before.Then(word, elapsed)
		}))
	}
	wg.Wait()
	return out
}
