package supervisor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Orders of Do.
const (
	Kill   = "kill"   // end the primary without a word
	Switch = "switch" // stop the primary in good order, and promote a standby
	Freeze = "freeze" // stop every process of the primary where it stands
	Thaw   = "thaw"   // let a frozen server go on
)

// order is one call of Do.
type order struct {
	what  string
	reply chan answer
}

// answer is what an order has done.
type answer struct {
	text string
	err  error
}

// switchWait is how long Switch waits for a standby that may be promoted, and switchPause the
// time between two looks.
const (
	switchWait  = 30 * time.Second
	switchPause = 100 * time.Millisecond
)

// errNotYet is wrapped by the error of an order that may succeed soon.
var errNotYet = errors.New("no standby has every acknowledged commit yet")

// Do carries an order out and says what has happened. Run must be running, and goes on while
// Do waits for a standby.
func (s *Supervisor) Do(ctx context.Context, what string) (string, error) {
	for end := time.Now().Add(switchWait); ; {
		text, err := s.do(ctx, what)
		if !errors.Is(err, errNotYet) || time.Now().After(end) {
			return text, err
		}
		select {
		case <-ctx.Done():
			return "", context.Cause(ctx)
		case <-time.After(switchPause):
		}
	}
}

func (s *Supervisor) do(ctx context.Context, what string) (string, error) {
	o := order{what: what, reply: make(chan answer, 1)}
	select {
	case s.orders <- o:
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	select {
	case a := <-o.reply:
		return a.text, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

func (s *Supervisor) obey(ctx context.Context, what string) answer {
	if what != Thaw && !s.primary.runs() {
		return answer{err: fmt.Errorf("%s has no primary that runs now", s.cfg.Name)}
	}
	var text string
	var err error
	switch what {
	case Kill:
		text, err = s.kill(ctx)
	case Switch:
		text, err = s.switchOver(ctx)
	case Freeze:
		text, err = s.freeze()
	case Thaw:
		text, err = s.thaw()
	default:
		err = fmt.Errorf("there is no order %q", what)
	}
	s.publish()
	return answer{text, err}
}

// kill kills the primary, and returns when the shard has one again.
func (s *Supervisor) kill(ctx context.Context) (string, error) {
	began, old := time.Now(), s.primary.srv
	old.Kill()
	s.replace(ctx)
	if !s.primary.runs() {
		return "", fmt.Errorf("killed %s, and no server of %s runs as primary yet", old.Addr(), s.cfg.Name)
	}
	return s.tellPrimary(fmt.Sprintf("killed %s, process %d", old.Addr(), old.PID()), began), nil
}

// tellPrimary says which server is the primary after something was done.
func (s *Supervisor) tellPrimary(done string, began time.Time) string {
	p := s.primary.srv
	return fmt.Sprintf("%s; the primary is %s, process %d, after %.1f s", done, p.Addr(), p.PID(), time.Since(began).Seconds())
}

// switchOver stops the primary in good order and promotes a standby that has all of its
// log.
func (s *Supervisor) switchOver(ctx context.Context) (string, error) {
	old := s.primary
	if len(s.servers) == 1 {
		return "", fmt.Errorf("%s has no standby: start weft dev with --replicas 1", s.cfg.Name)
	}
	if old.frozen {
		return "", fmt.Errorf("the primary of %s is frozen: thaw it first, or kill it", s.cfg.Name)
	}
	if s.candidate(ctx) == nil {
		return "", fmt.Errorf("%s: %w: weft status shows how far they are", s.cfg.Name, errNotYet)
	}
	began := time.Now()
	s.hangUp()
	if err := old.srv.Stop(ctx); err != nil {
		s.replace(ctx)
		return "", err
	}
	if err := old.cfg.End(ctx); err != nil {
		return "", err
	}
	next, err := s.wholeOne(ctx)
	if err != nil {
		s.restart(ctx)
		return "", fmt.Errorf("%w: %s is the primary still", err, old.srv.Addr())
	}
	if !s.promote(ctx, next) {
		s.look(ctx)
		return "", errors.New("the standby was not promoted, see the log")
	}
	old.clean = true
	s.log.Warn("switched over", "from", old.srv.Addr(), "to", next.srv.Addr(), "took", time.Since(began).Round(time.Millisecond))
	return s.tellPrimary("stopped "+old.srv.Addr(), began), nil
}

// wholeOne returns a standby that has all of the stopped primary's log.
func (s *Supervisor) wholeOne(ctx context.Context) (*server, error) {
	control, err := s.primary.cfg.Control(ctx)
	if err != nil {
		return nil, err
	}
	if !control.Clean {
		return nil, errors.New("the primary did not stop in good order")
	}
	// The shutdown checkpoint is the last of the log: what lies beyond its beginning
	// is the checkpoint itself.
	for end := time.Now().Add(answerLimit); ; time.Sleep(10 * time.Millisecond) {
		best := s.candidate(ctx)
		if best == nil {
			return nil, errors.New("no standby answers")
		}
		got, err := best.srv.Received(ctx)
		if err == nil && got > control.Checkpoint {
			return best, nil
		}
		if time.Now().After(end) {
			return nil, errors.New("no standby has all of the primary's log")
		}
	}
}

func (s *Supervisor) freeze() (string, error) {
	m := s.primary
	if m.frozen {
		return "", fmt.Errorf("%s is frozen already", m.srv.Addr())
	}
	m.srv.Pause()
	m.frozen = true
	return fmt.Sprintf("froze %s, process %d: weft dev thaw %s lets it go on", m.srv.Addr(), m.srv.PID(), s.cfg.Name), nil
}

func (s *Supervisor) thaw() (string, error) {
	for _, m := range s.servers {
		if m.frozen && m.runs() {
			m.srv.Resume()
			m.frozen = false
			return fmt.Sprintf("%s goes on", m.srv.Addr()), nil
		}
	}
	return "", fmt.Errorf("no server of %s is frozen", s.cfg.Name)
}
