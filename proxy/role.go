package proxy

import (
	"maps"
	"time"

	"weft/planner"
	"weft/pool"
	"weft/wire"
)

// knownRole is a role, and when a shard was asked for it.
type knownRole struct {
	role  *planner.Role
	asked time.Time
}

// roleLife is how long a known role is used. Its rights can be changed from other databases,
// which does not change the schema of this one.
const roleLife = time.Second

// roleAged reports whether the session's role has to be asked for again. Env.Role is nil unless
// the schema has policies.
func (rt *routing) roleAged() bool { return rt.env.Role != nil && time.Since(rt.roleAsked) > roleLife }

// role returns what decides which policies apply to the session: the same value as long as it
// does not change.
func (rt *routing) role(version int64, private bool) (*planner.Role, error) {
	key := rt.roleKey(version)
	e := rt.s.srv.memory.envs
	e.mu.Lock()
	known := e.roles[key]
	e.mu.Unlock()
	if !private && known != nil && time.Since(known.asked) <= roleLife {
		rt.roleAsked = known.asked
		return known.role, nil
	}
	rows, err := rt.ask(rt.s.held.party(), planner.RoleSQL)
	if err != nil {
		return nil, err
	}
	role := planner.NewRole(rows)
	if private {
		return role, nil
	}
	if known != nil && known.role.Bypass == role.Bypass && maps.Equal(known.role.Has, role.Has) {
		role = known.role
	}
	rt.roleAsked = time.Now()
	e.mu.Lock()
	if len(e.roles) >= maxEnvironments {
		clear(e.roles)
	}
	e.roles[key] = &knownRole{role, rt.roleAsked}
	e.mu.Unlock()
	return role, nil
}

// party returns the lane of a participant of the block, the home shard's if there is none. SET LOCAL ROLE and SET LOCAL
// search_path have been run by participants only.
func (h *held) party() *pool.Lane {
	if c := h.conn; c != nil && c.Status() != wire.TxIdle {
		return c.Lane()
	}
	if i := h.participant(); i >= 0 {
		return h.parked[i].Lane()
	}
	return h.s.lane
}
