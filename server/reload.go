package server

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"weft/console"
)

// Reload reads the configuration again. What can change in a running proxy does;
// what cannot is said, in the log and in what is returned. If anything is wrong
// with the file nothing changes at all.
func (s *Server) Reload(context.Context) (notes []string, err error) {
	s.reading.Lock()
	defer s.reading.Unlock()
	defer func() {
		if err != nil {
			s.log.Error("configuration not reloaded, all is as it was", "err", err)
		}
	}()
	if s.opt.Load == nil {
		return nil, errors.New("this weft was not started from a file")
	}
	read, err := s.opt.Load()
	if err != nil {
		return nil, err
	}
	if err := read.Validate(); err != nil {
		return nil, err
	}
	old := s.config.Load()
	next, restart := old.Keep(read)
	opt := s.opt
	opt.Config = next
	parts, err := loadParts(opt) // certificates too, which may be new under the same names
	if err != nil {
		return nil, err
	}
	f := s.front.Load()
	if f == nil {
		return nil, errors.New("the proxy has not started yet")
	}
	if err := (*f).Reconfigure(parts.proxyConfig()); err != nil {
		return nil, err
	}
	if s.opt.Level != nil {
		var level slog.Level
		_ = level.UnmarshalText([]byte(next.Log.Level)) // validated: one of the four
		s.opt.Level.Set(level)
	}
	if s.tracer != nil {
		s.tracer.SetRatio(float64(next.Tracing.Ratio))
	}
	if parts.tls != nil {
		s.tls.Store(parts.tls)
	}
	s.config.Store(&next)
	changed := old.Changes(next)
	s.log.Info("configuration reloaded", "changed", strings.Join(changed, "; "), "needs a restart", strings.Join(restart, ", "))
	for _, c := range changed {
		notes = append(notes, "changed: "+c)
	}
	for _, r := range restart {
		notes = append(notes, "needs a restart: "+r)
	}
	if len(notes) == 0 {
		notes = []string{"nothing has changed; certificates were read again"}
	}
	return notes, nil
}

// settings is the configuration in effect, for people.
func (s *Server) settings() []console.Setting {
	list := s.config.Load().Settings()
	out := make([]console.Setting, len(list))
	for i, l := range list {
		out[i] = console.Setting{Name: l.Path, Value: l.Value, Reload: l.Reload}
	}
	return out
}
