package proxy

import (
	"encoding/json"

	"weft/console"
	"weft/directory"
	"weft/heat"
	"weft/proxy/peer"
	"weft/proxy/throttler"
	"weft/proxy/vigil"
	"weft/tally"
)

// Peers says how a proxy and others reach each other.
type Peers struct {
	// Secret is what other proxies must know to ask this one. Nil: no proxy may ask.
	Secret directory.Secret
	// Beside is the processes that share this one's address. Nil: there are none.
	Beside peer.Beside
}

// Answer answers a question of another proxy that has come to a process with the same address. It reports
// false if the question is not for this process.
func (s *Server) Answer(channel, challenge, message []byte) ([]byte, bool) {
	answer, err := s.asked.Answer(channel, challenge, message)
	return answer, err == nil
}

// newCircle returns the other proxies of the cluster.
func newCircle(s *Server) *peer.Circle {
	var live peer.Proxies
	if s.cfg.Directory != nil {
		live = s.cfg.Directory
	}
	return peer.NewCircle(live, s.cfg.Proxy, s.log, s.guarded)
}

// answer carries out a question of another proxy.
func (s *Server) answer(q peer.Question) ([]byte, error) {
	view := console.Named(q.View)
	switch {
	case q.Backends:
		list, opened := s.pool.Processes(q.Known, vigil.AskEvery)
		return json.Marshal(peer.Backends{List: list, Opened: opened})
	case q.Blockers:
		return json.Marshal(s.moving.holds.Blockers())
	case q.Verdicts:
		return json.Marshal(s.keeper.verdicts.state(q.All))
	case q.Throttles:
		return json.Marshal(throttler.Figures(s.keeper.throttles.Table().All()))
	case q.Queues:
		return json.Marshal(s.keeper.queues.Demand())
	case q.Drawn != "":
		return json.Marshal(s.keeper.floors.told(q))
	case q.Dismiss != "":
		s.keeper.verdicts.judge.Dismiss(q.Dismiss, seconds(q.Seconds))
	case q.Tape != nil:
		s.startTape(q.Tape)
	case q.TapeStop != "":
		s.counts.tapes.stop(q.TapeStop)
	case q.Taped != "":
		return json.Marshal(s.taped(q.Taped))
	case q.Heat && q.Brief:
		return json.Marshal(s.keeper.verdicts.brief(q.All))
	case q.Heat && q.Instant:
		return json.Marshal(s.counts.heat.instant())
	case q.Heat:
		parts := heat.AllParts
		if q.Parts != nil {
			parts = *q.Parts
		}
		return json.Marshal(s.counts.heat.report(parts, q.All))
	case q.Reset:
		s.resetStatements(q.User, q.All)
	case q.Kill && q.Session != 0:
		return json.Marshal(s.register.killSession(q.Session))
	case q.Kill:
		s.register.killOn(q.Database, nil)
		s.leave(q.Database)
	case q.Database != "":
		return json.Marshal(s.register.occupants(q.Database, nil))
	case view != nil && view.Spread:
		return view.Table(s.ctx, adminSource{srv: s}, console.Viewer{User: q.User, All: q.All}).JSON(), nil
	}
	return []byte("[]"), nil
}

// resetStatements forgets what statements have cost: all statements, or those of one user.
func (s *Server) resetStatements(user string, all bool) {
	s.counts.statements.Reset(func(o tally.Owner) bool { return all || o.User == user })
}
