package proxy

import (
	"weft/console"
	"weft/primary"
)

// Replicas implements console.Source.
func (a adminSource) Replicas() []console.Replica {
	snap := a.srv.cfg.Snapshot()
	views := a.srv.keeper.seeker.Views()
	var out []console.Replica
	for i := range snap.Shards {
		v := views[snap.Shards[i].Name]
		if v == nil {
			continue
		}
		for k := range v.Servers {
			out = append(out, replicaOf(snap.Shards[i].Name, &v.Servers[k]))
		}
	}
	return out
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
