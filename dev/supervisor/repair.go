package supervisor

import (
	"context"
	"os"
	"time"

	"weft/pgserver"
)

// task is a server to bring up as a standby.
type task struct {
	cfg     pgserver.Config
	primary *pgserver.Server
	clean   bool // a former primary whose log is whole on the new one
	strays  bool // a standby that does not find its way by itself
}

// repair is what became of a task.
type repair struct {
	server  *server
	primary *pgserver.Server
	srv     *pgserver.Server
	err     error
}

// beginRepair makes a standby of a server beside Run, which hears of the end.
func (s *Supervisor) beginRepair(ctx context.Context, m *server) {
	t := task{cfg: m.cfg, primary: s.primary.srv, clean: m.clean, strays: m.strays}
	m.repairing, m.frozen = true, false
	s.repairs.Go(func() {
		srv, err := s.bringUp(ctx, t)
		s.repaired <- repair{server: m, primary: t.primary, srv: srv, err: err} // there is room for each server's
	})
}

// bringUp makes the directory a standby's, by rewinding or copying where that is
// needed, and starts the standby.
func (s *Supervisor) bringUp(ctx context.Context, t task) (*pgserver.Server, error) {
	if t.cfg.Exists() {
		if err := t.cfg.End(ctx); err != nil {
			return nil, err
		}
	}
	began := time.Now()
	how := "started"
	switch {
	case !t.cfg.Exists():
		how = "copied"
	case t.strays:
		how = "copied"
		if err := os.RemoveAll(t.cfg.Dir); err != nil {
			return nil, err
		}
	case !t.cfg.IsStandby() && !t.clean:
		copied, err := t.cfg.Rewind(ctx, t.primary)
		if err != nil {
			return nil, err
		}
		if how = "rewound"; copied {
			how = "copied"
		}
	}
	srv, err := t.cfg.Standby(ctx, t.primary)
	if err != nil {
		return nil, err
	}
	if err := srv.DropSlots(ctx); err != nil {
		s.log.Error("slots of a standby not dropped", "server", t.cfg.Name, "err", err)
	}
	s.log.Info("standby runs", "server", t.cfg.Name, "how", how, "primary", t.primary.Addr(), "took", time.Since(began).Round(time.Millisecond))
	return srv, nil
}

// join takes in what became of a repair.
func (s *Supervisor) join(ctx context.Context, r repair) {
	m := r.server
	m.repairing = false
	if r.err != nil {
		if ctx.Err() == nil {
			s.log.Error("standby does not start", "server", m.name(), "err", r.err, "next_try_in", m.delay(time.Now()))
		}
		return
	}
	m.started(r.srv, time.Now())
	s.watch(r.srv)
	m.due, m.pause = time.Time{}, max(m.pause, firstPause)
	if r.primary != s.primary.srv && s.primary.runs() && m != s.primary {
		if err := r.srv.Follow(ctx, s.primary.srv); err != nil {
			s.log.Error("standby does not follow the new primary", "server", m.name(), "err", err)
			m.strays = true
		}
	}
}
