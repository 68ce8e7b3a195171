package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"weft/takeover"
)

// Names under which listening sockets are handed over.
const (
	clientSocket  = "clients"
	standbySocket = "standbys"
	httpSocket    = "http"
)

const (
	// settle is how long sessions go on undisturbed after a takeover, at least: clients that have just connected send their first
	// statements in this time.
	settle = time.Second
	// startups is how long clients may take to log in that the old process accepted before the takeover.
	startups = 10 * time.Second
)

// place is this process's among those with the same run_dir. All of it is nil without a run_dir.
type place struct {
	seat   *takeover.Seat
	hand   *takeover.Hand // until this process is ready; nil if there is no process to take over from
	beside *takeover.Beside
	handed chan struct{} // closed when another process has taken over
}

// takeSeat gets the seat of run_dir, or what the process that has it hands over.
func (s *Server) takeSeat(ctx context.Context) error {
	s.place.handed = make(chan struct{})
	dir := s.opt.Config.RunDir
	if dir == "" {
		return nil
	}
	seat, hand, err := takeover.Take(ctx, s.meeting(), s.opt.Takeover)
	if err != nil {
		return err
	}
	s.place.seat, s.place.hand = seat, hand
	switch {
	case hand != nil:
		s.log.Info("taking over: the old process serves until this one is ready", "pid", hand.PID)
	case s.opt.Takeover:
		s.log.Warn("no process to take over from: starting as if without --takeover", "run_dir", dir)
	}
	return nil
}

// meeting says how processes meet.
func (s *Server) meeting() takeover.Config {
	return takeover.Config{Dir: s.opt.Config.RunDir, Log: s.log, Guard: s.opt.panics.Guarded}
}

// join makes this process known to those with the same run_dir, under its ID as a proxy.
func (s *Server) join(id string) (err error) {
	if s.opt.Config.RunDir == "" {
		return nil
	}
	s.place.beside, err = takeover.Join(s.meeting(), id)
	if err == nil {
		s.closers = append(s.closers, s.place.beside.Close)
	}
	return err
}

// serveBeside does what the processes with the same run_dir ask for.
func (s *Server) serveBeside(front frontend) {
	if b := s.place.beside; b != nil {
		s.background("run_dir", func(ctx context.Context) error {
			return b.Serve(ctx, takeover.Local{Cancel: front.Cancel, Answer: front.Answer})
		})
	}
}

// open listens at an address, by the old process's socket if there is one.
func (s *Server) open(name, address string) (net.Listener, error) {
	if h := s.place.hand; h != nil {
		if l := h.Listener(name, address); l != nil {
			return l, nil
		}
		s.log.Info("the old process does not listen here: listening anew", "socket", name, "address", address)
	}
	return net.Listen("tcp", address)
}

// takeOver tells the old process that this one accepts clients, and lets the next one take over.
func (s *Server) takeOver() {
	if h := s.place.hand; h != nil {
		seat, err := h.Ready()
		s.place.hand, s.place.seat = nil, seat
		if err != nil {
			s.log.Warn("the old process has gone before this one was ready: serving alone", "pid", h.PID, "err", err)
		} else {
			s.log.Info("took over: the old process accepts no more clients", "pid", h.PID)
		}
	}
	seat := s.place.seat
	if seat == nil {
		return
	}
	s.background("takeover", func(ctx context.Context) error {
		if err := seat.Serve(ctx, takeover.Giver{Sockets: s.sockets, Yield: s.yield}); err != nil {
			return err
		}
		select {
		case <-s.place.handed:
			<-ctx.Done() // done, which is no failure of the server
			return nil
		default:
			return errors.New("it ended by itself")
		}
	})
}

// sockets are what is handed over.
func (s *Server) sockets() ([]takeover.Socket, error) {
	if s.draining.Load() {
		return nil, takeover.ErrEnding
	}
	cfg := s.config.Load()
	list := []takeover.Socket{{Name: clientSocket, Address: cfg.Listen, Listener: s.listener}}
	if s.standbys != nil {
		list = append(list, takeover.Socket{Name: standbySocket, Address: cfg.ListenStandby, Listener: s.standbys})
	}
	if s.httpListener != nil {
		list = append(list, takeover.Socket{Name: httpSocket, Address: cfg.HTTP.Listen, Listener: s.httpListener})
	}
	return list, nil
}

// yield accepts no more: another process does.
func (s *Server) yield(pid int) {
	s.log.Info("handed over: this process accepts no more clients", "pid", pid)
	s.handed.Store(true)
	s.hangUp()
	if s.http != nil {
		s.http.Retire()
	}
	close(s.place.handed)
}

// outlast lets sessions go on after a takeover until those that had just begun can be over: as long as limits.drain_delay says, and until
// the clients that were being let in have a session.
func (s *Server) outlast(ctx context.Context, failed <-chan error) error {
	delay := max(settle, s.config.Load().Limits.DrainDelay)
	s.log.Info("leaving: sessions go on for now", "for", delay)
	over := time.After(delay)
	yctx, stop := context.WithTimeout(ctx, startups)
	defer stop()
	(*s.front.Load()).Yield(yctx)
	select {
	case err := <-failed:
		return errors.Join(fmt.Errorf("after the takeover: %w", err), s.Close())
	case <-over:
	case <-ctx.Done(): // asked to end: drain at once
	}
	return nil
}

// leaveSeat lets a new process start as if there had been none, or gives a takeover up.
func (s *Server) leaveSeat() {
	if s.place.hand != nil {
		_ = s.place.hand.Close()
	}
	if s.place.seat != nil {
		_ = s.place.seat.Close() // what is left of it is in nobody's way
	}
}
