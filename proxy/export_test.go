package proxy

import (
	"context"
	"fmt"

	"weft/pgerr"
)

// OptionsOf returns weft's parameters as they are in effect in a session. It must
// be called on the session's own goroutine.
func (s *Server) OptionsOf(pid int32) string {
	s.register.mu.Lock()
	sess := s.register.sessions[pid]
	s.register.mu.Unlock()
	if err := sess.record.learnOptions(); err != nil {
		return err.Error()
	}
	o := sess.record.inEffect
	return fmt.Sprint(o.maxGatherBytes, " ", o.scatter, " ", o.maxParallelShards)
}

// ParseBytes, ShowBytes and StartupWords are for tests of what they take.
func ParseBytes(value string) (int64, error) {
	n, err := parseBytes("x", value)
	if err != nil {
		return 0, err
	}
	return n, nil
}

// ShowBytes is showBytes.
func ShowBytes(n int64) string { return showBytes(n) }

// StartupWords is startupWords.
func StartupWords(text string) []string { return startupWords(text) }

// Connected reports whether the client of a session is still there.
func (s *Server) Connected(pid int32) bool { return s.register.connected(pid) }

// Keep runs f as a goroutine of the server's own.
func (s *Server) Keep(f func(context.Context)) { s.crew.Go(s.kept("test", f)) }

// Panics is how many were counted.
func (s *Server) Panics() int64 { return s.panics.count.Load() }

// ErrorOf is what the client of a session would be told.
func (s *Server) ErrorOf(pid int32, err error) *pgerr.Error {
	s.register.mu.Lock()
	defer s.register.mu.Unlock()
	return s.register.sessions[pid].asPanic(pgerr.From(err))
}

// Waiting is how many clients wait for a backend.
func (s *Server) Waiting() (n int) {
	for _, l := range s.pool.Lanes() {
		n += l.Waiting
	}
	return n
}
