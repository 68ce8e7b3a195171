package primary

import (
	"fmt"
)

// Trouble is something that is wrong with a shard, for operators.
type Trouble struct {
	// Wrong says what is wrong, in one line that names the shard.
	Wrong string `json:"problem"`
	// Next says what to do about it, with the command if there is one.
	Next string `json:"next"`
}

// State says in one word what a server is to its shard: primary, standby, stale, split, foreign, silent, or unknown for one that has not been asked or
// does not say what it is.
func (s *Server) State() string {
	if s.Role != Away {
		return s.Role.String()
	}
	switch s.Seen.Kind {
	case Unseen, Unable, Primary, Standby:
		return "unknown"
	}
	return "silent"
}

// Troubles says what is wrong with a shard and its servers. It is empty if all servers are the primary and its standbys.
func (v *View) Troubles(shard string) (out []Trouble) {
	if t, ok := v.unled(shard); ok {
		out = append(out, t)
	}
	for i := range v.Servers {
		if t, ok := v.troubleOf(&v.Servers[i], shard); ok {
			out = append(out, t)
		}
	}
	return out
}

// unled says what is wrong with a shard that has no primary that can be used.
func (v *View) unled(shard string) (t Trouble, ok bool) {
	switch {
	case v.State == Steady:
		return t, false
	case v.State == Split:
		return Trouble{
			fmt.Sprintf("shard %s is split, nothing is sent to it: %s", shard, v.Describe()),
			fmt.Sprintf("Find out which server has the right rows, and stop the other one, or run weft shard accept %s HOST:PORT with the right one.", shard),
		}, true
	}
	return Trouble{fmt.Sprintf("shard %s has no primary, clients wait for one: %s", shard, v.Describe()), v.unledNext(shard)}, true
}

// unledNext says what to do about a shard that has no primary.
func (v *View) unledNext(shard string) string {
	has := func(is func(*Server) bool) (at *Server) {
		for i := range v.Servers {
			if s := &v.Servers[i]; is(s) {
				at = s
			}
		}
		return at
	}
	if v.Fence != 0 && v.Generation.Timeline <= v.Fence {
		return fmt.Sprintf("Timeline %d is fenced: promote a standby, or run weft fence --shard %s --end if none will be.", v.Fence, shard)
	}
	if has(func(s *Server) bool { return s.Role == Follows }) != nil {
		return "Start the last primary again, or promote a standby: patronictl failover where Patroni runs the shard, pg_ctl promote elsewhere."
	}
	if s := has(func(s *Server) bool { return s.Role == Stale }); s != nil {
		return fmt.Sprintf("Start the server that is on timeline %d. If it is lost for good, run weft shard reset %s --yes: %s is used then, without what was written since its timeline.",
			v.Generation.Timeline, shard, s.Address)
	}
	if has(func(s *Server) bool { return s.Seen.Kind == Unable }) != nil {
		return "Let weft log in there: look at service.user in weft.yaml, pg_hba.conf and max_connections."
	}
	return fmt.Sprintf("Start the servers of %s, the last primary first.", shard)
}

// troubleOf says what is wrong with a server. A server that is away is no trouble of its own while the shard has no primary: the shard's names it.
func (v *View) troubleOf(s *Server, shard string) (t Trouble, ok bool) {
	g := s.Seen.Generation
	switch {
	case s.Role == Stale && v.Ruling.Bars(g.Timeline, s.Address):
		return Trouble{
			fmt.Sprintf("%s of shard %s is a primary that was decided against: %s was accepted", s.Address, shard, v.Ruling.Address),
			"Stop it, save rows that only it has, and make it a standby again: patronictl reinit, or a new base backup.",
		}, true
	case s.Role == Stale:
		return Trouble{
			fmt.Sprintf("%s of shard %s is stale: it is a primary on timeline %d, which is over, and nothing is sent there", s.Address, shard, g.Timeline),
			"Stop it, and make it a standby again: patronictl reinit, pg_rewind, or a new base backup.",
		}, true
	case s.Role == Foreign:
		return Trouble{
			fmt.Sprintf("%s is foreign to shard %s: its system identifier is %s, and that of the shard is %s", s.Address, shard, g.System, v.Generation.System),
			fmt.Sprintf("Correct the hosts of %s in cluster.yaml and run weft apply; with --adopt if the shard is to be that server from now on.", shard),
		}, true
	case v.State != Steady:
		return t, false
	case s.Role == Away:
		return Trouble{
			fmt.Sprintf("%s of shard %s %s", s.Address, shard, s.Seen.Kind),
			"Start it or let weft log in there, or take it out of the hosts in cluster.yaml and run weft apply.",
		}, true
	case s.Role == Follows && g.Timeline != v.Generation.Timeline:
		return Trouble{
			fmt.Sprintf("%s of shard %s is a standby on timeline %d, and the primary is on %d: it is not read", s.Address, shard, g.Timeline, v.Generation.Timeline),
			fmt.Sprintf("Let it follow %s: primary_conninfo with recovery_target_timeline = 'latest', pg_rewind, or patronictl reinit.", v.Primary),
		}, true
	}
	return t, false
}
