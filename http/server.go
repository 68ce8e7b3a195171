package http

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// Server serves a Handler on one listener.
type Server struct {
	http http.Server
	done chan error

	listener net.Listener
	retired  atomic.Bool
}

// Start serves cfg on l until Close. It owns l.
func Start(cfg Config, l net.Listener) *Server {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{listener: l, done: make(chan error, 1)}
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
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// closeGrace is how long requests may take that a server was answering when it retired.
const closeGrace = 5 * time.Second

// Retire takes no more requests, because another process does at the same address. Requests that are being answered are
// answered, and their connections closed.
func (s *Server) Retire() {
	s.retired.Store(true)
	_ = s.listener.Close()
	// Shutdown would hang up on connections whose request has not been read yet.
	s.http.SetKeepAlivesEnabled(false)
}

// Close ends the server and every request it is answering, and waits. After Retire these requests get a moment.
func (s *Server) Close() error {
	if s.retired.Load() {
		ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
		defer cancel()
		_ = s.http.Shutdown(ctx)
	}
	err := s.http.Close()
	if serr := <-s.done; !errors.Is(serr, http.ErrServerClosed) && !(s.retired.Load() && errors.Is(serr, net.ErrClosed)) {
		err = errors.Join(err, serr)
	}
	s.done <- http.ErrServerClosed // for a second Close
	if err != nil {
		return fmt.Errorf("close http: %w", err)
	}
	return nil
}
