package proxy

// Options of weft's own that a session can set.

// scatter reports whether the client wants statements over several shards.
func (s *Session) scatter() bool {
	v, ok := s.settings.Get("weft.scatter")
	return !ok || v != "off"
}

// maxGatherBytes bounds the rows that one statement may carry through weft.
func (s *Session) maxGatherBytes() int64 { return 1 << 30 }

// maxParallelShards bounds how many shards work for a statement at once; 0 is no
// bound.
func (s *Session) maxParallelShards() int { return 0 }
