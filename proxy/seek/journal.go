package seek

import (
	"log/slog"
	"sync"
	"time"

	"weft/primary"
	"weft/tally"
)

// journal counts and logs what becomes of one shard. Its methods take the time, and talk to no server.
type journal struct {
	log   *slog.Logger
	shard string

	mu sync.Mutex
	// led is the view with which clients went on last, nil if there was none.
	led *primary.View
	// next is the view of a primary that clients do not use yet, nil if there is none.
	next *primary.View
	// suspected is when the present pause of clients began, zero while they go on.
	suspected time.Time
	// searched is when the present search for a primary began, zero while the shard has one.
	searched time.Time
	// pause is how long the last pause took.
	pause time.Duration
	// said says that the log has the beginning of the present pause.
	said bool
	// sought is how long all searches have taken that are over.
	sought time.Duration
	// promoted and returned are the times from the first suspicion until clients went on, at another server or at the same one.
	promoted, returned *tally.Histogram
	lines              lines
	// servers is what the log says of servers that do not lead, by address.
	servers map[string]*told
}

// told is what the log says of a server.
type told struct {
	lags  time.Time // since when the server was too far behind, zero if it is not
	away  bool
	wrong primary.Role // Stale or Foreign, if the server is
}

func newJournal(log *slog.Logger, shard string) *journal {
	return &journal{
		log: log, shard: shard, servers: map[string]*told{},
		promoted: tally.NewHistogram(tally.Durations), returned: tally.NewHistogram(tally.Durations),
	}
}

// note takes down that the view of the shard has changed. Clients that wait go on when opened is called.
func (j *journal) note(was, now *primary.View, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	began := j.search(now, at)
	if (!now.Open() || becomes(was, now)) && j.suspected.IsZero() {
		j.suspected = at
	}
	if began && !j.said {
		if j.said = j.lines.allow(at); j.said {
			j.log.Warn("a shard has no primary: clients wait for one", j.lines.attrs("shard", j.shard, "reason", reason(now), "state", now.State.String(), "servers", now.Describe())...)
		}
	}
	if now.State == primary.Split && was.State != primary.Split {
		j.log.Error("two servers of a shard are primaries of the same timeline: nothing is sent to either", "shard", j.shard, "servers", now.Describe(),
			"next", "stop the wrong one, or weft shard accept names the right one")
	}
	switch {
	case now.State != primary.Steady:
		j.next = nil
	case j.suspected.IsZero():
		j.led = now
	default:
		j.next = now
	}
	j.wrong(now)
}

// search takes down whether a primary is sought, and reports whether a search begins. mu is held.
func (j *journal) search(now *primary.View, at time.Time) (began bool) {
	switch {
	case !now.Open() && j.searched.IsZero():
		j.searched = at
		return true
	case now.Open() && !j.searched.IsZero():
		j.sought += at.Sub(j.searched)
		j.searched = time.Time{}
	}
	return false
}

// reason says what the last primary has answered.
func reason(v *primary.View) string {
	if v.Primary == "" {
		return "no server is a primary"
	}
	return v.Primary + " " + v.Suspect().String()
}

// opened takes down that clients go on: what was in doubt is settled, and nothing makes them wait any more.
func (j *journal) opened(at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.suspected.IsZero() {
		return
	}
	before, now, said := j.led, j.next, j.said
	j.pause = at.Sub(j.suspected)
	j.suspected, j.next, j.said = time.Time{}, nil, false
	if now == nil {
		return // servers do not say what they are
	}
	j.led = now
	pause := j.pause.Round(time.Millisecond).String()
	switch {
	case before != nil && (now.Generation.Above(before.Generation) || now.Ruling != before.Ruling && now.Primary != before.Primary):
		j.promoted.Add(0, int64(j.pause))
		j.log.Warn("a shard has another primary", "shard", j.shard, "from", before.Primary, "to", now.Primary, "timeline", now.Generation.Timeline,
			"fork", now.Generation.Fork.String(), "generation", now.Generation.String(), "pause", pause)
	case before != nil:
		j.returned.Add(0, int64(j.pause))
		if said {
			j.log.Info("a shard has its primary again", "shard", j.shard, "primary", now.Primary, "timeline", now.Generation.Timeline, "pause", pause)
		}
	default:
		j.log.Info("a shard has a primary", "shard", j.shard, "primary", now.Primary, "timeline", now.Generation.Timeline)
	}
}

// wrong logs, once each, which servers are primaries and not the shard's. mu is held.
func (j *journal) wrong(v *primary.View) {
	for i := range v.Servers {
		s := &v.Servers[i]
		t := j.of(s.Address)
		switch {
		case s.Role != primary.Stale && s.Role != primary.Foreign:
			if s.Role != primary.Away {
				t.wrong = 0
			}
		case t.wrong != s.Role:
			t.wrong = s.Role
			j.log.Error("a server is a primary and not the shard's: nothing is sent there", "shard", j.shard, "address", s.Address, "is", s.Role.String(),
				"generation", s.Seen.Generation.String(), "shard is at", v.Generation.String())
		}
	}
}

// awayAfter is for how long a standby does not answer before the log says so.
const awayAfter = 5 * time.Second

// look logs, once each, which standbys are further behind than limit or do not answer, and which are well again. It is called now and then.
// With limit 0 no standby is too far behind.
func (j *journal) look(v *primary.View, limit time.Duration, at time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range v.Servers {
		s := &v.Servers[i]
		t := j.of(s.Address)
		answers := s.Role != primary.Away
		switch {
		case v.State != primary.Steady || s.Address == v.Primary:
		case !answers && !t.away && s.Seen.Kind != primary.Unseen && at.Sub(s.Since) >= awayAfter:
			t.away = true
			j.log.Warn("a standby of a shard is away", "shard", j.shard, "address", s.Address, "reason", s.Seen.Kind.String())
		case answers && t.away:
			t.away = false
			j.log.Info("a server of a shard is back", "shard", j.shard, "address", s.Address, "is", s.Role.String())
		}
		switch {
		case s.Role != primary.Follows || !s.LagKnown:
		case t.lags.IsZero() && limit > 0 && s.Lag > limit:
			t.lags = at
			j.log.Warn("a standby is far behind", "shard", j.shard, "address", s.Address, "lag", s.Lag.Round(time.Millisecond).String(), "bytes", s.LagBytes, "limit", limit.String())
		case !t.lags.IsZero() && s.Lag <= limit/2:
			j.log.Info("a standby has caught up", "shard", j.shard, "address", s.Address, "after", at.Sub(t.lags).Round(time.Second).String())
			t.lags = time.Time{}
		}
	}
}

// of returns what the log says of a server. mu is held.
func (j *journal) of(address string) *told {
	t := j.servers[address]
	if t == nil {
		t = &told{}
		j.servers[address] = t
	}
	return t
}

// Account is what was counted of a shard.
type Account struct {
	View *primary.View
	// Sought is for how long the shard had no primary, in all.
	Sought time.Duration
	// Promoted and Returned count the pauses, from the first suspicion until clients went on: at another server, or at the same one.
	Promoted, Returned *tally.Histogram
}

// account returns what was counted until a time.
func (j *journal) account(v *primary.View, at time.Time) Account {
	j.mu.Lock()
	defer j.mu.Unlock()
	a := Account{View: v, Sought: j.sought, Promoted: j.promoted, Returned: j.returned}
	if !j.searched.IsZero() {
		a.Sought += at.Sub(j.searched)
	}
	return a
}

// paused returns how long the last pause of clients took, and whether they go on.
func (j *journal) paused() (pause time.Duration, over bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.pause, j.suspected.IsZero()
}

// lines bounds how often the log tells of searches: a server that comes and goes would fill it.
type lines struct {
	window time.Time // when the present window began
	used   int
	unsaid int // how many were left out since the last line
}

// A shard has so many lines about searches in a window.
const (
	lineWindow = time.Minute
	lineLimit  = 6
)

// allow reports whether the log may tell of another search.
func (l *lines) allow(at time.Time) bool {
	if at.Sub(l.window) >= lineWindow {
		l.window, l.used = at, 0
	}
	if l.used >= lineLimit {
		l.unsaid++
		return false
	}
	l.used++
	return true
}

// attrs adds how many searches the log does not have.
func (l *lines) attrs(args ...any) []any {
	if l.unsaid > 0 {
		args = append(args, "unsaid", l.unsaid)
		l.unsaid = 0
	}
	return args
}
