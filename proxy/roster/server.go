package roster

import (
	"sync"

	"weft/directory"
	"weft/pgerr"
	"weft/pool"
)

// servers is what the shards' servers have said.
type servers struct {
	mu sync.Mutex
	// wrong are the servers that do not belong to their shard, by shard.
	wrong map[string]misplaced
	// systems are the system identifiers of the servers that do belong, by shard.
	systems map[string]string
	// connections is how many connections each server takes from users that are not superusers,
	// by shard.
	connections map[string]int
}

// misplaced is a server that has been refused.
type misplaced struct {
	login pool.Login
	err   *pgerr.Error
}

// note keeps the result of a check, and reports whether it is news that a server is wrong.
func (s *servers) note(l pool.Login, err *pgerr.Error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was, known := s.wrong[l.Shard]
	if err == nil {
		// Another database of the shard may still belong elsewhere.
		if known && was.login.Database == l.Database {
			delete(s.wrong, l.Shard)
		}
		if s.systems == nil {
			s.systems, s.connections = map[string]string{}, map[string]int{}
		}
		s.systems[l.Shard], s.connections[l.Shard] = l.Found.System, l.Found.Connections
		return false
	}
	if s.wrong == nil {
		s.wrong = map[string]misplaced{}
	}
	s.wrong[l.Shard] = misplaced{login: l, err: err}
	return !known || was.err.Message != err.Message || was.login.Address != l.Address
}

// misplaced returns why servers of a snapshot's shards have been refused.
func (s *servers) misplaced(snap *directory.Snapshot) []*pgerr.Error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*pgerr.Error
	for i := range snap.Shards {
		if m, ok := s.wrong[snap.Shards[i].Name]; ok {
			out = append(out, m.err)
		}
	}
	return out
}

// system returns the identifier of a shard's server, "" as long as it is not known.
func (s *servers) system(shard string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.systems[shard]
}

// room returns how many connections a shard's server takes, 0 if that is not known.
func (s *servers) room(shard string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connections[shard]
}
