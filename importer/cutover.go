package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"

	"weft/quote"
)

// Status is what an import looks like now.
type Status struct {
	*Job
	// Running: a process follows.
	Running bool
	// Slot reports whether there is one; Lag how many bytes of WAL it keeps, Behind how old the oldest change may be
	// that has not been applied.
	HasSlot bool
	Lag     int64
	Behind  time.Duration
}

// Status tells how far the import is.
func (i *Importer) Status(ctx context.Context) (*Status, error) {
	s, err := i.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	return i.status(ctx, s)
}

func (i *Importer) status(ctx context.Context, s sides) (*Status, error) {
	job, err := s.job(ctx)
	if err != nil {
		return nil, err
	}
	if job == nil {
		return nil, errNone
	}
	st := &Status{Job: job}
	err = s.source.conn.QueryRow(ctx, "SELECT count(*) > 0, coalesce(bool_or(active), false), coalesce(max(pg_current_wal_lsn() - confirmed_flush_lsn), 0)::bigint FROM pg_replication_slots WHERE slot_name = $1", s.slot).
		Scan(&st.HasSlot, &st.Running, &st.Lag)
	if err != nil {
		return nil, err
	}
	// Some WAL is always under way; what has been applied says how old it is.
	if st.Lag > 0 && job.State != Done {
		var now time.Time
		if err := s.source.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&now); err != nil {
			return nil, err
		}
		since := job.Started
		if job.Committed != nil {
			since = *job.Committed
		}
		st.Behind = max(0, now.Sub(since))
	}
	return st, nil
}

// CutoverOptions are how to cut over.
type CutoverOptions struct {
	MaxLag   time.Duration // the most that may be left to apply when it begins
	MaxPause time.Duration // the longest time that the source is read only before it is given up
	// Stopped: the operator has seen to it that nobody writes to the source.
	Stopped bool
	// Rows: compare what is in the rows, too, not only how many there are.
	Rows bool
}

// Cutover makes the source read only, brings the target to its last change, and ends the import. Until everything was found to be the
// same, any failure makes the source writable again.
func (i *Importer) Cutover(ctx context.Context, o CutoverOptions) error {
	s, err := i.open(ctx)
	if err != nil {
		return err
	}
	defer func() { s.close() }()
	job, err := s.job(ctx)
	if err != nil {
		return err
	}
	switch {
	case job == nil:
		return errNone
	case job.State == Done:
		i.Say("the import is done")
		return nil
	case job.State == Finishing: // a process has died in its last step
		return i.finish(ctx, s)
	case job.State != Following && job.State != CutOver:
		return fmt.Errorf("the import is %s: wait until it follows", job.State)
	}
	if err := i.mayCut(ctx, s, job, o); err != nil {
		return err
	}
	stop, err := i.stop(ctx, &s)
	if err != nil {
		return err
	}
	released := false
	release := func() {
		if !released {
			released = true
			stop.release()
		}
	}
	defer release()
	if err := i.cut(ctx, &s, job, stop, o); err != nil {
		undone, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		return errors.Join(err, i.uncut(undone, o))
	}
	i.at("import-compared")
	if _, err := s.target.conn.Exec(ctx, "UPDATE weft_import.job SET state = $1", string(Finishing)); err != nil {
		return fmt.Errorf("the source is read only, and everything is in weft: run weft import cutover again to finish: %w", err)
	}
	i.at("import-finishing")
	release()
	return i.finish(ctx, s)
}

// mayCut looks whether it makes sense to begin.
func (i *Importer) mayCut(ctx context.Context, s sides, job *Job, o CutoverOptions) error {
	st, err := i.status(ctx, s)
	if err != nil {
		return err
	}
	if st.Behind > o.MaxLag && st.Lag > 1<<20 {
		return fmt.Errorf("the target is %s behind, %d bytes of WAL: wait, or raise --max-lag", st.Behind.Round(time.Second), st.Lag)
	}
	var prepared int
	if err := s.source.conn.QueryRow(ctx, "SELECT count(*) FROM pg_prepared_xacts WHERE database = current_database()").Scan(&prepared); err != nil {
		return err
	}
	if prepared > 0 {
		return fmt.Errorf("the source has %d prepared transactions, which may be committed later: end them first", prepared)
	}
	return i.sameTables(ctx, s, job)
}

// sameTables looks whether the source has other tables than the target, or other columns.
func (i *Importer) sameTables(ctx context.Context, s sides, job *Job) error {
	sources, err := readTables(ctx, s.source.conn)
	if err != nil {
		return err
	}
	targets, err := readTables(ctx, s.target.conn)
	if err != nil {
		return err
	}
	for k := range sources {
		t := &sources[k]
		switch here := find(targets, t.Schema, t.Name); {
		case slices.Contains(job.Excluded, t.name()):
		case job.copied(t.Schema, t.Name) == nil:
			return fmt.Errorf("table %s was made on the source after the import began, and is not part of it: drop it, or begin again", t.name())
		case here == nil:
			return fmt.Errorf("table %s is gone in weft", t.name())
		case here.definition() != t.definition():
			return &DefinitionError{t.name(), t.definition(), here.definition()}
		}
	}
	return nil
}

// cut is the pause: nobody writes to the source any more.
func (i *Importer) cut(ctx context.Context, s *sides, job *Job, stop stopped, o CutoverOptions) error {
	if _, err := s.target.conn.Exec(ctx, "UPDATE weft_import.job SET state = $1", string(CutOver)); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, o.MaxPause, fmt.Errorf("the cut-over has taken longer than %s (--max-pause)", o.MaxPause))
	defer cancel()
	began := time.Now()
	if !o.Stopped {
		if err := s.quiet(ctx); err != nil {
			return causeOf(ctx, err)
		}
		i.Say("the source is read only")
	}
	i.at("import-read-only")
	last, err := s.last(ctx)
	if err != nil {
		return causeOf(ctx, err)
	}
	if err := stop.reach(ctx, last); err != nil {
		return causeOf(ctx, err)
	}
	i.Say("the last change, before %s, is applied", last)
	i.at("import-reached")
	if err := i.settle(ctx, *s); err != nil {
		return causeOf(ctx, err)
	}
	i.at("import-settled")
	from, _, err := s.whole(ctx, nil, job.Tables)
	if err != nil {
		return causeOf(ctx, err)
	}
	defer closeConn(from)
	list, err := i.compare(ctx, *s, job, from, !o.Rows)
	if err != nil {
		return causeOf(ctx, err)
	}
	for _, c := range list {
		if !c.Same() {
			return fmt.Errorf("%s differs: %d rows in the source, %d in weft; somebody has written there, or to the source past its being read only", c.Name, c.Source.Rows, c.Target.Rows)
		}
	}
	i.Say("%d tables are the same on both sides; the pause has taken %s so far", len(list), time.Since(began).Round(time.Millisecond))
	return nil
}

// causeOf says why a context has ended, if it has.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// quiet makes the source read only for everybody who connects, and ends those who are connected.
func (s *source) quiet(ctx context.Context) error {
	database := quote.Ident(s.conn.Config().Database)
	if _, err := s.conn.Exec(ctx, "ALTER DATABASE "+database+" SET default_transaction_read_only = on"); err != nil {
		return fmt.Errorf("make the source read only: %w", err)
	}
	var since time.Time
	if err := s.conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&since); err != nil {
		return err
	}
	for {
		var n int
		err := s.conn.QueryRow(ctx, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() AND backend_start <= $1
			AND pid <> pg_backend_pid() AND application_name <> $2 AND backend_type = 'client backend'`, since, application).Scan(&n)
		if err != nil {
			return fmt.Errorf("end the sessions of the source: %w", err)
		}
		if n == 0 {
			return nil
		}
		if err := sleep(ctx, pollEvery/4); err != nil {
			return err
		}
	}
}

// last returns a position after everything that was committed, and sees to it that the stream gets there.
func (s *source) last(ctx context.Context) (LSN, error) {
	var text string
	if err := s.conn.QueryRow(ctx, "SELECT pg_logical_emit_message(true, 'weft', 'cutover')::text").Scan(&text); err != nil {
		return 0, err
	}
	if err := s.conn.QueryRow(ctx, "SELECT pg_current_wal_flush_lsn()::text").Scan(&text); err != nil {
		return 0, err
	}
	return pglogrepl.ParseLSN(text)
}

// settle sets the sequences to where those of the source are, and fills the materialized views.
func (i *Importer) settle(ctx context.Context, s sides) error {
	sequences, err := readSequences(ctx, s.source.conn)
	if err != nil {
		return err
	}
	have, err := readList(ctx, s.target.conn, "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind = 'S'")
	if err != nil {
		return err
	}
	set := 0
	for _, q := range sequences {
		if !slices.Contains(have, q.Schema+"."+q.Name) {
			continue // of a table that stays behind
		}
		if _, err := s.target.conn.Exec(ctx, fmt.Sprintf("SELECT pg_catalog.setval(%s, %d, %t)", quote.Literal(quote.Name(q.Schema, q.Name)), q.Last, q.Called)); err != nil {
			return fmt.Errorf("set sequence %s.%s: %w", q.Schema, q.Name, err)
		}
		set++
	}
	views, err := materialized(ctx, s.source.conn)
	if err != nil {
		return err
	}
	for _, v := range views {
		if _, err := s.target.conn.Exec(ctx, "REFRESH MATERIALIZED VIEW "+v); err != nil {
			return fmt.Errorf("refresh %s: %w", v, err)
		}
	}
	i.Say("%d sequences set, %d materialized views refreshed", set, len(views))
	return nil
}

// uncut makes the source writable again, and follows on. Its connections are new: those of the cut-over may be closed, because a
// context has ended.
func (i *Importer) uncut(ctx context.Context, o CutoverOptions) error {
	const advice = "the source may still be read only: run weft import cutover again, or weft import abort: %w"
	s, err := i.open(ctx)
	if err != nil {
		return fmt.Errorf(advice, err)
	}
	defer s.close()
	if err := s.loud(ctx, o.Stopped); err != nil {
		return fmt.Errorf(advice, err)
	}
	_, err = s.target.conn.Exec(ctx, "UPDATE weft_import.job SET state = $1 WHERE state = $2", string(Following), string(CutOver))
	return err
}

// loud makes the source writable again, unless the operator has stopped it.
func (s *source) loud(ctx context.Context, stopped bool) error {
	if stopped {
		return nil
	}
	_, err := s.conn.Exec(ctx, "ALTER DATABASE "+quote.Ident(s.conn.Config().Database)+" RESET default_transaction_read_only")
	return err
}

// finish drops what was made on the source. It stays read only.
func (i *Importer) finish(ctx context.Context, s sides) error {
	if err := s.clean(ctx); err != nil {
		return err
	}
	i.at("import-cleaned")
	if _, err := s.target.conn.Exec(ctx, "UPDATE weft_import.job SET state = $1", string(Done)); err != nil {
		return err
	}
	i.Say("the import is done: clients may write to weft. The source is read only")
	return nil
}

// Abort ends an import: the slot and the publication go, and with drop the imported tables, too. An import that is done is only
// forgotten.
func (i *Importer) Abort(ctx context.Context, drop bool) error {
	s, err := i.open(ctx)
	if err != nil {
		return err
	}
	defer s.close()
	job, err := s.job(ctx)
	if err != nil {
		return err
	}
	if job == nil {
		if err := s.clean(ctx); err != nil { // of one that has left nothing else
			return err
		}
		i.Say("there is no import")
		return nil
	}
	if job.State == Done && drop {
		return errors.New("the import is done, and the rows in weft are the only ones that are written: leave --drop out to forget the import, or drop the tables yourself")
	}
	// Whoever imports must not write any more, and hears of it.
	if err := s.take(ctx); err != nil {
		return err
	}
	if job.State == CutOver || job.State == Finishing {
		if err := s.loud(ctx, false); err != nil {
			return err
		}
		i.Say("the source is writable again")
	}
	if err := s.clean(ctx); err != nil {
		return err
	}
	i.Say("slot and publication %s are dropped", s.slot)
	i.at("import-cleaned")
	if drop && len(job.Tables) > 0 {
		var names []string
		have, err := readTables(ctx, s.target.conn)
		if err != nil {
			return err
		}
		for _, c := range job.Tables {
			if t := find(have, c.Schema, c.Name); t != nil {
				names = append(names, t.sql())
			}
		}
		if len(names) > 0 {
			if _, err := s.target.conn.PgConn().Exec(ctx, "DROP TABLE "+strings.Join(names, ", ")+" CASCADE").ReadAll(); err != nil {
				return fmt.Errorf("drop the imported tables: %w", err)
			}
			i.Say("%d tables are dropped; types, functions and sequences of the schema stay", len(names))
		}
	}
	_, err = s.target.conn.PgConn().Exec(ctx, "DROP SCHEMA weft_import CASCADE").ReadAll()
	return err
}
