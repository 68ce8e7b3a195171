package http

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Server serves a Handler on one listener.
type Server struct {
	http http.Server
	addr net.Addr
	done chan error
}

// Start serves cfg on l until Close. It owns l.
func Start(cfg Config, l net.Listener) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{addr: l.Addr(), done: make(chan error, 1)}
	s.http = http.Server{
		Handler: Handler(cfg),
		// Slow senders must not pile up. No limit on writing: a CPU profile
		// takes as long as its caller asks.
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          slog.NewLogLogger(cfg.Log.Handler(), slog.LevelDebug),
	}
	if cfg.TLS != nil {
		s.http.TLSConfig = cfg.TLS
		go func() { s.done <- s.http.ServeTLS(l, "", "") }()
		return s
	}
	go func() { s.done <- s.http.Serve(l) }()
	return s
}

// Addr is where the server listens.
func (s *Server) Addr() net.Addr { return s.addr }

// Close ends the server and every request it is answering, and waits.
func (s *Server) Close() error {
	err := s.http.Close()
	if serr := <-s.done; !errors.Is(serr, http.ErrServerClosed) {
		err = errors.Join(err, serr)
	}
	s.done <- http.ErrServerClosed // for a second Close
	if err != nil {
		return fmt.Errorf("close http: %w", err)
	}
	return nil
}
