package supervisor

import (
	"net"
	"strconv"
)

// Roles of a server.
const (
	Primary = "primary"
	Standby = "standby"
)

// Status is one server as the supervisor knows it.
type Status struct {
	Shard   string `json:"shard"`
	Address string `json:"address"`
	Role    string `json:"role"` // of a server that does not run: what it will be
	Dir     string `json:"data_directory"`
	PID     int    `json:"pid,omitempty"` // 0: it does not run
	Frozen  bool   `json:"frozen,omitempty"`
	// Replaces: the standby has every acknowledged commit, and may be promoted.
	Replaces bool `json:"replaces,omitempty"`
}

// Servers returns the servers as they were a moment ago, in the order of their
// directories. Any goroutine may call it.
func (s *Supervisor) Servers() []Status { return *s.published.Load() }

// publish makes the present state that of Servers.
func (s *Supervisor) publish() {
	out := make([]Status, 0, len(s.servers))
	for _, m := range s.servers {
		st := Status{
			Shard: s.cfg.Name, Address: net.JoinHostPort("127.0.0.1", strconv.Itoa(m.cfg.Port)), Dir: m.cfg.Dir,
			Role: Standby, Frozen: m.frozen, Replaces: s.mayReplace(m),
		}
		if m == s.primary {
			st.Role = Primary
		}
		if m.runs() {
			st.PID = m.srv.PID()
		}
		out = append(out, st)
	}
	s.published.Store(&out)
}
