package primary

import (
	"strings"
	"time"
)

// State says whether a shard has a primary.
type State uint8

// The states of a shard.
const (
	// Unknown says that there is no evidence: servers have not been probed yet, or do not let weft log in.
	Unknown State = iota
	// Steady says that View.Primary is the primary.
	Steady
	// Seeking says that no server is proven to be the primary.
	Seeking
	// Split says that two servers are primaries of the same timeline. Neither is used.
	Split
)

// String returns the state in one word.
func (s State) String() string { return [...]string{"unknown", "steady", "seeking", "split"}[s] }

// Role is what a server is to its shard.
type Role uint8

// The roles of servers.
const (
	// Away says that the server does not answer, or has not been probed.
	Away Role = iota
	// Leads says that the server is the primary.
	Leads
	// Follows says that the server is a standby.
	Follows
	// Stale says that the server is a primary of a generation that is over.
	Stale
	// Rival says that the server is a primary beside another one of the same timeline.
	Rival
	// Foreign says that the server belongs to another system.
	Foreign
)

// String returns the role in one word.
func (r Role) String() string {
	return [...]string{"away", "primary", "standby", "stale", "split", "foreign"}[r]
}

// View is what is known of the servers of a shard. It is never changed.
type View struct {
	State State
	// Since is when the state began. A steady state begins again with each generation.
	Since time.Time
	// Primary is the address of the server that is the primary, or was the last one. Empty: none is known.
	Primary string
	// Generation is the highest that is known. Servers of lower generations are not used.
	Generation Generation
	// Ruling is what an operator has said last.
	Ruling Ruling
	// Fence, if not 0, is a timeline that is over, as the directory says. Its primaries are not used, nor are those of lower ones.
	Fence uint32
	// Horizon says what the primary's standbys have.
	Horizon Horizon
	// Servers are in the order of the shard's hosts.
	Servers []Server

	passages []passage // the oldest first
}

// Server is what is known of one server.
type Server struct {
	Address string
	Role    Role
	// Since is when the server got the role.
	Since time.Time
	// Seen is the last sighting.
	Seen Sighting
	// Lag is how far a standby is behind, if LagKnown.
	Lag      time.Duration
	LagBytes uint64
	LagKnown bool
	// Fresh is a time before which everything is there that the primary had committed, for a standby that has the history of the
	// shard's generation. Zero: not known.
	Fresh time.Time
}

// Has reports whether a server is a standby that has the history of the shard's generation, and no other. It is false for all standbys while a
// ruling names the primary: a standby does not say which of the primaries of its timeline it follows.
func (v *View) Has(s *Server) bool {
	return s.Role == Follows && v.Generation.System != "" && !v.Ruling.Accepts(v.Generation.Timeline) && s.Seen.Generation.System == v.Generation.System && s.Seen.Generation.Timeline == v.Generation.Timeline
}

// Open reports whether work may be sent to the shard.
func (v *View) Open() bool { return v == nil || v.State == Steady || v.State == Unknown }

// Answers reports whether the server at an address answers as a primary or a standby of the shard.
func (v *View) Answers(address string) bool {
	if v == nil {
		return false
	}
	for i := range v.Servers {
		if s := &v.Servers[i]; s.Address == address {
			return s.Role == Leads || s.Role == Follows
		}
	}
	return false
}

// Standbys returns the addresses of the servers that are standbys.
func (v *View) Standbys() []string {
	var out []string
	for i := range v.Servers {
		if v.Servers[i].Role == Follows {
			out = append(out, v.Servers[i].Address)
		}
	}
	return out
}

// Suspect returns what the last primary has answered.
func (v *View) Suspect() Kind {
	for i := range v.Servers {
		if v.Servers[i].Address == v.Primary {
			return v.Servers[i].Seen.Kind
		}
	}
	return Unseen
}

// Describe says what each server is, for an error.
func (v *View) Describe() string {
	var parts []string
	for i := range v.Servers {
		s := &v.Servers[i]
		text := s.Address + " " + s.Seen.Kind.String()
		if s.Role == Stale && v.Ruling.Bars(s.Seen.Generation.Timeline, s.Address) {
			parts = append(parts, text+" (an operator has accepted "+v.Ruling.Address+")")
			continue
		}
		switch s.Role {
		case Stale, Foreign, Rival:
			text += " of " + map[Role]string{Stale: "an old timeline", Foreign: "another system", Rival: "the same timeline"}[s.Role] + " (" + s.Seen.Generation.String() + ")"
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}
