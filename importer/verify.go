package importer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"weft/quote"
)

// Compared is a table on both sides.
type Compared struct {
	Name           string
	Source, Target Sum
}

// Sum is what is compared of a table.
type Sum struct {
	Rows int64
	Hash string // empty: not asked for
}

// Same reports whether both sides are.
func (c *Compared) Same() bool { return c.Source == c.Target }

// Verify compares all tables at one moment: it stops the changes of the target at a position of the source, and reads the source
// as of that position. With counts only the numbers of rows are compared.
func (i *Importer) Verify(ctx context.Context, counts bool) ([]Compared, error) {
	s, err := i.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { s.close() }()
	job, err := s.job(ctx)
	if err != nil {
		return nil, err
	}
	switch {
	case job == nil:
		return nil, errNone
	case job.State == Done:
		return nil, errors.New("the import is done: there is nothing to compare")
	case job.State == Preparing || job.State == Copying:
		return nil, fmt.Errorf("the import is %s: there is nothing to compare yet", job.State)
	}
	// Nothing may be applied that is younger than the snapshot will be.
	stop, err := i.stop(ctx, &s)
	if err != nil {
		return nil, err
	}
	defer stop.release()
	from, at, err := s.whole(ctx, nil, job.Tables)
	if err != nil {
		return nil, err
	}
	defer closeConn(from) // whose locks keep TRUNCATE away meanwhile
	if err := stop.reach(ctx, at); err != nil {
		return nil, err
	}
	return i.compare(ctx, s, job, from, counts)
}

// errNone is that there is no import.
var errNone = errors.New("this database has no import: weft import start begins one")

// compare reads both sides of every table: the source by one reader, because others would wait behind a TRUNCATE that waits for it, and
// i.Jobs tables of the target at once.
func (i *Importer) compare(ctx context.Context, s sides, job *Job, from *pgx.Conn, counts bool) ([]Compared, error) {
	tables, err := readTables(ctx, s.target.conn)
	if err != nil {
		return nil, err
	}
	out := make([]Compared, len(job.Tables))
	here := make([]*Table, len(job.Tables))
	for k, c := range job.Tables {
		if here[k] = find(tables, c.Schema, c.Name); here[k] == nil {
			return nil, fmt.Errorf("table %s is gone in weft", Name(c.Schema, c.Name))
		}
		out[k].Name = here[k].name()
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(1 + max(1, i.Jobs))
	g.Go(func() error {
		for k, t := range here {
			var err error
			if out[k].Source, err = sum(gctx, from, t, counts); err != nil {
				return fmt.Errorf("read %s of the source: %w", t.name(), err)
			}
		}
		return nil
	})
	for k, t := range here {
		g.Go(func() error {
			c, err := dial(gctx, s.target.cfg)
			if err != nil {
				return err
			}
			defer closeConn(c)
			if out[k].Target, err = sum(gctx, c, t, counts); err != nil {
				return fmt.Errorf("read %s in weft: %w", t.name(), err)
			}
			return nil
		})
	}
	return out, g.Wait()
}

// sum reads what is compared of a table: the order of rows plays no part in it.
func sum(ctx context.Context, c *pgx.Conn, t *Table, counts bool) (s Sum, err error) {
	if counts {
		err = c.QueryRow(ctx, "SELECT count(*) FROM "+t.sql()).Scan(&s.Rows)
		return s, err
	}
	columns := make([]string, len(t.Columns))
	for i := range t.Columns {
		columns[i] = quote.Ident(t.Columns[i].Name)
	}
	err = c.QueryRow(ctx, "SELECT count(*), coalesce(pg_catalog.sum(pg_catalog.hashtextextended(ROW("+strings.Join(columns, ", ")+")::text, 0)::numeric), 0)::text FROM "+t.sql()).Scan(&s.Rows, &s.Hash)
	return s, err
}

// stopped makes the target stand still at a position of the source.
type stopped interface {
	// reach brings the target to everything that the source has committed before at, and to nothing else.
	reach(ctx context.Context, at LSN) error
	release()
}

// stop stops whoever follows, or makes this process the one that would.
func (i *Importer) stop(ctx context.Context, s *sides) (stopped, error) {
	ok, err := s.lock(ctx, 0)
	if err != nil {
		return nil, err
	}
	if ok {
		return &alone{i, s}, s.take(ctx)
	}
	c, err := dial(ctx, s.target.cfg)
	if err != nil {
		return nil, err
	}
	h := &holding{s: s, conn: c, done: make(chan struct{}), over: make(chan struct{})}
	if err := h.reach(ctx, 0); err != nil {
		closeConn(c)
		return nil, err
	}
	go h.beat()
	return h, nil
}

// alone follows by itself: nobody else does.
type alone struct {
	i *Importer
	s *sides
}

func (a *alone) reach(ctx context.Context, at LSN) error { return a.i.follow(ctx, a.s, at) }

func (a *alone) release() {
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	_ = a.s.unlock(ctx) // the connection ends soon
}

// holding asks the process that follows. It must ask again and again: the other one waits for no dead.
type holding struct {
	s    *sides
	conn *pgx.Conn // of the beat
	done chan struct{}
	over chan struct{}
}

const (
	holdFor   = 10 * time.Second
	answersIn = 2 * time.Minute
)

func (h *holding) reach(ctx context.Context, at LSN) error {
	_, err := h.s.target.conn.Exec(ctx, "UPDATE weft_import.job SET hold_at = $1::text::pg_lsn, held_at = NULL, hold_until = clock_timestamp() + $2 * interval '1 second'", at.String(), holdFor.Seconds())
	if err != nil {
		return err
	}
	for deadline := time.Now().Add(answersIn); time.Now().Before(deadline); {
		var there bool
		if err := h.s.target.conn.QueryRow(ctx, "SELECT coalesce(held_at = hold_at AND hold_at = $1::text::pg_lsn, false) FROM weft_import.job", at.String()).Scan(&there); err != nil || there {
			return err
		}
		if err := sleep(ctx, pollEvery/4); err != nil {
			return err
		}
		if at == 0 { // nobody beats yet
			_, _ = h.s.target.conn.Exec(ctx, "UPDATE weft_import.job SET hold_until = clock_timestamp() + $1 * interval '1 second'", holdFor.Seconds())
		}
	}
	return errors.New("the process that follows the source does not come to a stop: look at what it says")
}

// beat keeps the other process waiting.
func (h *holding) beat() {
	defer close(h.over)
	for {
		select {
		case <-h.done:
			return
		case <-time.After(holdFor / 5):
		}
		ctx, stop := context.WithTimeout(context.Background(), holdFor/2)
		_, _ = h.conn.Exec(ctx, "UPDATE weft_import.job SET hold_until = clock_timestamp() + $1 * interval '1 second' WHERE hold_at IS NOT NULL", holdFor.Seconds())
		stop()
	}
}

func (h *holding) release() {
	close(h.done)
	<-h.over
	ctx, stop := context.WithTimeout(context.Background(), 5*time.Second)
	defer stop()
	_, _ = h.conn.Exec(ctx, "UPDATE weft_import.job SET hold_at = NULL, held_at = NULL, hold_until = NULL") // it runs out by itself
	closeConn(h.conn)
}
