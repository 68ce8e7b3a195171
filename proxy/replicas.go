package proxy

import (
	"slices"
	"time"

	"weft/console"
	"weft/pgerr"
	"weft/pool"
	"weft/primary"
)

// Replicas implements console.Source.
func (a adminSource) Replicas() []console.Replica {
	snap := a.srv.cfg.Snapshot()
	views := a.srv.keeper.seeker.Views()
	now := time.Now()
	var out []console.Replica
	for i := range snap.Shards {
		v := views[snap.Shards[i].Name]
		if v == nil {
			continue
		}
		for k := range v.Servers {
			r := replicaOf(snap.Shards[i].Name, &v.Servers[k])
			if v.Servers[k].Role == primary.Follows && a.srv.pool.Shard(&snap.Shards[i]).Ejected(r.Address, now) {
				r.State = "ejected"
			}
			out = append(out, r)
		}
	}
	return out
}

// Eject implements console.Control.
func (a adminSource) Eject(address string) error {
	sh, err := a.standbyAt(address)
	if err == nil {
		sh.Eject(address)
		a.srv.log.Info("a standby is not read until an operator admits it", "shard", sh.Name, "address", address)
	}
	return err
}

// Admit implements console.Control.
func (a adminSource) Admit(address string) error {
	sh, err := a.standbyAt(address)
	if err == nil {
		sh.Admit(address)
		a.srv.log.Info("an operator has admitted a standby", "shard", sh.Name, "address", address)
	}
	return err
}

// standbyAt returns the shard that has a server at an address, which must not be the primary.
func (a adminSource) standbyAt(address string) (*pool.Shard, error) {
	snap := a.srv.cfg.Snapshot()
	for i := range snap.Shards {
		name := snap.Shards[i].Name
		switch v := a.srv.keeper.seeker.View(name); {
		case !slices.Contains(snap.Shards[i].Hosts, address):
		case v.Primary == address && v.State == primary.Steady:
			return nil, pgerr.New(pgerr.ObjectNotInPrerequisiteState, "%s is the primary of shard %q, and no standby", address, name).WithHint("DRAIN SHARD %s lets clients wait for it.", name)
		default:
			return a.srv.pool.Shard(&snap.Shards[i]), nil
		}
	}
	return nil, pgerr.New(pgerr.UndefinedObject, "no shard has a server at %q", address).WithHint("SHOW REPLICAS has the addresses.")
}

// replicaOf words what is known of a server.
func replicaOf(shard string, s *primary.Server) console.Replica {
	r := console.Replica{Shard: shard, Address: s.Address, State: s.State(), Since: s.Since}
	switch s.Seen.Kind {
	case primary.Primary:
		r.Role, r.Sync = "primary", s.Seen.SyncStates
	case primary.Standby:
		r.Role = "standby"
	}
	if r.Role != "" {
		r.System, r.Timeline, r.LSN = s.Seen.Generation.System, int64(s.Seen.Generation.Timeline), s.Seen.LSN.String()
	}
	if s.LagKnown {
		r.Lag = &console.Behind{Bytes: int64(s.LagBytes), Time: s.Lag}
	}
	switch {
	case s.Seen.Kind == primary.Silent:
		r.Error = s.Seen.Kind.String()
	case s.Seen.Err != nil:
		r.Error = s.Seen.Err.Error()
	}
	return r
}

// generationText is the text of a generation, empty if the generation is not known.
func generationText(g primary.Generation) string {
	if g.System == "" {
		return ""
	}
	return g.String()
}
