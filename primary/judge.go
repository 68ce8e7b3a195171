package primary

import (
	"slices"
	"time"
)

// Judge decides which server of a shard is the primary, from what was seen of the servers. It has no clock and talks to no server.
// Its methods must not be called by several goroutines at once. A zero Judge has no servers.
//
//	what is seen                                                state
//	the primary answers, and its generation is the known one    steady
//	the primary is silent, refuses, starts, or is in recovery   seeking
//	a server is primary, and its generation is higher           steady, with that server
//	a server is primary, and its generation is lower            as before: the server is stale
//	two primaries of the same timeline                          split
//	a server is primary, and its timeline is fenced             seeking: the server is stale
//	two primaries of the same timeline, and a ruling            steady, with the one that was accepted: the other one is stale
//	a server of another system                                  as before: the server is foreign
//	the primary answers again                                   steady
type Judge struct {
	servers []server
	// known is the highest generation that was seen or heard of. It only grows, within one system.
	known Generation
	// ruling is what an operator has said last. See Heed.
	ruling Ruling
	// fence is a timeline that is over, as the directory says. It is 0 if there is none. See Fence.
	fence uint32
	// primary is the address of the last server that was accepted. The server may be away now.
	primary string
	// led is the generation of primary when it was accepted.
	led   Generation
	state State
	since time.Time
	lag   Lag
	// attached is how far the standby has flushed that is furthest behind of those that the primary knows, 0 if none was attached in this generation.
	attached LSN
	behind   behind
	passages []passage // the oldest first
}

// server is what Judge knows of one server.
type server struct {
	address string
	seen    Sighting
	role    Role
	since   time.Time
	flushed LSN // how far the server has flushed as a standby, in this generation; 0 if it was not seen as one
}

// SetHosts says which servers the shard has from now on. What is known of those that stay is kept.
func (j *Judge) SetHosts(hosts []string, now time.Time) {
	next := make([]server, len(hosts))
	for i, h := range hosts {
		next[i] = server{address: h, since: now}
		if s := j.server(h); s != nil {
			next[i] = *s
		}
	}
	j.servers = next
	if j.server(j.primary) == nil {
		j.primary = ""
	}
	j.decide(now)
}

// Know says which generation the directory has. A lower one than is known already changes nothing. Another system than is known
// replaces what is known: an operator has said that the shard is another server from now on.
func (j *Judge) Know(g Generation, now time.Time) {
	switch {
	case g.System == "":
		return
	case j.known.System == "":
		g.Timeline = max(g.Timeline, j.known.Timeline)
		j.known = g
	case g.Foreign(j.known):
		j.known, j.primary, j.lag, j.passages = g, "", Lag{}, nil
	case g.Above(j.known):
		j.known = g
	case g.Timeline == j.known.Timeline && j.known.Fork == 0:
		j.known.Fork = g.Fork
	}
	j.decide(now)
}

// Heed says what an operator has ruled, and which generation the directory has with that. A new ruling replaces all that is known, also by
// a lower generation. A ruling that is known already changes nothing.
func (j *Judge) Heed(r Ruling, g Generation, now time.Time) {
	if r.Number == j.ruling.Number {
		return
	}
	j.ruling, j.known = r, g
	j.primary, j.led, j.lag, j.passages = "", Generation{}, Lag{}, nil
	j.attached, j.behind = 0, behind{}
	for i := range j.servers {
		j.servers[i].flushed = 0
	}
	j.decide(now)
}

// Fence says that a timeline and those before it are over: their primaries are not used any more, though no server may have a higher one
// yet. 0 takes that back.
func (j *Judge) Fence(timeline uint32, now time.Time) {
	j.fence = timeline
	j.decide(now)
}

// fenced reports whether the last primary must not be used any more, and no other has taken its place.
func (j *Judge) fenced() bool { return j.fence != 0 && j.known.Timeline <= j.fence }

// See notes what a probe has seen of a server. A server that is not among the hosts is ignored.
func (j *Judge) See(address string, seen Sighting, now time.Time) {
	s := j.server(address)
	if s == nil {
		return
	}
	s.seen = seen
	j.decide(now)
	if seen.Kind == Primary && j.state == Steady && j.primary == address {
		j.lag.Mark(seen.At, seen.LSN)
		if seen.Flushed != 0 {
			j.attached = seen.Flushed
		}
	}
	if seen.Kind == Standby && !seen.Generation.Foreign(j.known) {
		s.flushed = max(seen.LSN, seen.Received)
	}
	j.lookBehind(now)
}

// lookBehind finds the server that is furthest behind, of those that may be promoted: standbys that were seen in this generation.
func (j *Judge) lookBehind(now time.Time) {
	least := j.attached
	for i := range j.servers {
		if s := &j.servers[i]; s.address != j.primary && s.flushed != 0 && (least == 0 || s.flushed < least) {
			least = s.flushed
		}
	}
	if least == 0 {
		j.behind = behind{}
		return
	}
	j.behind.see(least, now, &j.lag)
}

// View returns what is known now.
func (j *Judge) View(now time.Time) *View {
	v := &View{State: j.state, Since: j.since, Primary: j.primary, Generation: j.known, Ruling: j.ruling, Fence: j.fence, Horizon: j.behind.horizon(now, &j.lag), passages: j.passages}
	for i := range j.servers {
		s := &j.servers[i]
		out := Server{Address: s.address, Role: s.role, Since: s.since, Seen: s.seen}
		if s.role == Follows {
			out.Lag, out.LagBytes, out.LagKnown = j.lag.Of(s.seen.LSN, now)
		}
		if v.Has(&out) {
			out.Fresh = j.lag.Fresh(s.seen.LSN)
		}
		v.Servers = append(v.Servers, out)
	}
	return v
}

// server returns what is known of the server at an address, nil if it is not among the hosts.
func (j *Judge) server(address string) *server {
	for i := range j.servers {
		if j.servers[i].address == address {
			return &j.servers[i]
		}
	}
	return nil
}

// decide finds the state of the shard and the roles of its servers.
func (j *Judge) decide(now time.Time) {
	top := j.top()
	state, led := j.stateWith(top), j.led
	switch {
	case state == Steady && len(top) == 1:
		j.accept(top[0])
	case state == Split && top[0].seen.Generation.Above(j.known) && j.known.System != "":
		// The generations before are over, whichever of the rivals remains.
		j.known = Generation{System: j.known.System, Timeline: top[0].seen.Generation.Timeline}
	}
	if state != j.state || j.led.Above(led) || j.since.IsZero() {
		j.state, j.since = state, now
	}
	for i := range j.servers {
		s := &j.servers[i]
		if role := j.roleOf(s, top); role != s.role || s.since.IsZero() {
			s.role, s.since = role, now
		}
	}
}

// stateWith returns the state of a shard whose primaries of the highest timeline are top.
func (j *Judge) stateWith(top []*server) State {
	was := j.server(j.primary)
	seen := func(k Kind) bool {
		return slices.ContainsFunc(j.servers, func(s server) bool { return s.seen.Kind == k })
	}
	switch {
	case len(top) > 1 || len(top) == 1 && top[0].seen.Generation.Parted(j.known):
		return Split
	case len(top) == 1 && was == nil && j.known.Timeline == 0 && seen(Unseen):
		return Unknown // another server may have a higher generation
	case len(top) == 1 && j.follows(top[0], was):
		return Steady
	case len(top) == 0 && j.fenced():
		return Seeking
	case len(top) == 0 && was != nil && was.seen.Kind == Unable && j.state == Steady:
		return Steady // the server answers, and nothing says that it is another than before
	case len(top) == 0 && seen(Unable), was == nil && seen(Unseen):
		return Unknown
	}
	return Seeking
}

// follows reports whether a primary may take the place of the last one, which may be nil. With a higher generation it may. With the
// same one it is the same data at another address, and the last one may still be alive if it is only silent.
func (j *Judge) follows(s, was *server) bool {
	return was == nil || was == s || s.seen.Generation.Above(j.led) ||
		was.seen.Kind != Silent && was.seen.Kind != Unreachable && was.seen.Kind != Unseen
}

// top returns the primaries of the highest timeline, if that is not below the known one. A server that has two addresses is returned
// once.
func (j *Judge) top() []*server {
	system, highest := j.known.System, j.known.Timeline
	var out []*server
	for i := range j.servers {
		s := &j.servers[i]
		g := s.seen.Generation
		if s.seen.Kind != Primary || system != "" && g.System != system || g.Timeline < highest || g.Timeline <= j.fence || j.ruling.Bars(g.Timeline, s.address) {
			continue
		}
		if g.Timeline > highest {
			out = out[:0]
		}
		system, highest = g.System, g.Timeline
		twin := slices.IndexFunc(out, func(o *server) bool { return o.seen.Started.Equal(s.seen.Started) })
		switch {
		case twin < 0:
			out = append(out, s)
		case s.address == j.primary:
			out[twin] = s
		}
	}
	return out
}

// accept makes a server the primary.
func (j *Judge) accept(s *server) {
	g := s.seen.Generation
	if g.Above(j.led) { // the directory may have been told of the generation before
		if j.led.Timeline != 0 {
			j.passages = pass(j.passages, j.led, g, s.seen.Parent, &j.lag)
		}
		j.lag.Fork(g.Fork)
		j.attached, j.behind = 0, behind{}
		for i := range j.servers {
			j.servers[i].flushed = 0
		}
	}
	if g.Fork == 0 && g.Timeline == j.known.Timeline {
		g.Fork = j.known.Fork
	}
	j.known, j.led, j.primary = g, g, s.address
}

// roleOf returns the role of a server of a shard whose primaries of the highest timeline are top.
func (j *Judge) roleOf(s *server, top []*server) Role {
	g := s.seen.Generation
	leads := j.state == Steady && slices.ContainsFunc(top, func(o *server) bool { return o.seen.Started.Equal(s.seen.Started) })
	switch {
	case s.seen.Kind != Primary && s.seen.Kind != Standby:
		return Away
	case g.Foreign(j.known):
		return Foreign
	case s.seen.Kind == Standby:
		return Follows
	case j.known.System != "" && j.known.Above(g) || g.Timeline <= j.fence:
		return Stale
	case leads:
		return Leads
	case j.ruling.Bars(g.Timeline, s.address):
		return Stale
	case j.state == Split:
		return Rival
	}
	return Away
}
