package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"weft/quote"
)

// Importer imports one database into another.
type Importer struct {
	From, Into *pgx.ConnConfig
	Wish       Wish
	// Jobs is how many tables are copied at once.
	Jobs int
	// PgDump is the program, and Env the environment it runs in, beside what tells it of the source.
	PgDump string
	Env    []string
	// Say tells the operator what is going on.
	Say func(format string, args ...any)
	// At is called when a step is done, for tests; nil: nobody is told.
	At func(step string)
}

func (i *Importer) at(step string) {
	if i.At != nil {
		i.At(step)
	}
}

// sides are both databases, connected.
type sides struct {
	*source
	*target
}

func (s sides) close() {
	s.source.close()
	s.target.close()
}

func (i *Importer) open(ctx context.Context) (sides, error) {
	s, err := openSource(ctx, i.From)
	if err != nil {
		return sides{}, err
	}
	t, err := openTarget(ctx, i.Into)
	if err != nil {
		s.close()
		return sides{}, err
	}
	return sides{s, t}, nil
}

// Report is what Check has found.
type Report struct {
	Tables   []Row
	Findings []Finding
}

// Row is a table of a report.
type Row struct {
	Name, As, Key string
	Rows, Bytes   int64
}

// Failed reports whether the import cannot start.
func (r *Report) Failed() bool {
	return slices.ContainsFunc(r.Findings, func(f Finding) bool { return f.Level == Error })
}

// Check says what would be imported how, and what stands in the way. It changes nothing.
func (i *Importer) Check(ctx context.Context) (*Report, error) {
	s, err := i.open(ctx)
	if err != nil {
		return nil, err
	}
	defer s.close()
	report, _, err := i.check(ctx, s)
	return report, err
}

func (i *Importer) check(ctx context.Context, s sides) (*Report, *Survey, error) {
	sv, err := survey(ctx, s.source.conn)
	if err != nil {
		return nil, nil, fmt.Errorf("look at the source: %w", err)
	}
	p, err := s.prospect(ctx, sv.Tables)
	if err != nil {
		return nil, nil, fmt.Errorf("look at the target: %w", err)
	}
	r := &Report{Findings: Judge(sv, p, &i.Wish)}
	for k := range sv.Tables {
		t := &sv.Tables[k]
		row := Row{Name: t.name(), As: "home", Key: t.key(), Rows: t.Rows, Bytes: t.Bytes}
		switch d, w := p.Declared[t.name()], i.Wish.declaration(t); {
		case i.Wish.excludes(t):
			row.As = "not imported"
		case w != nil:
			row.As = w.Says
		case d.Reference:
			row.As = "reference"
		case len(d.Columns) > 0:
			row.As = "sharded by " + strings.Join(d.Columns, ", ")
		}
		r.Tables = append(r.Tables, row)
	}
	return r, sv, nil
}

// CheckError is that an import cannot start.
type CheckError struct{ *Report }

func (e *CheckError) Error() string { return "the import cannot start" }

// errRunning is that a process imports.
var errRunning = errors.New("the import is running already: another process has its lock on the source")

// Start imports the database and follows it until ctx ends, or until somebody has cut over. If an import has begun it goes
// on with that.
func (i *Importer) Start(ctx context.Context) error {
	s, err := i.open(ctx)
	if err != nil {
		return err
	}
	defer func() { s.close() }() // they may be others by then
	if ok, err := s.lock(ctx, retryFor/5); err != nil || !ok {
		return errors.Join(err, map[bool]error{false: errRunning}[ok])
	}
	job, err := s.job(ctx)
	if err != nil {
		return err
	}
	if job == nil {
		if err := i.prepare(ctx, s); err != nil {
			return err
		}
	} else {
		switch job.State {
		case CutOver, Finishing:
			return errors.New("the cut-over has begun: run weft import cutover again, or weft import abort")
		case Done:
			return errors.New("the import is done; weft import abort forgets it")
		}
		if job.Slot != s.slot || job.Source != describe(i.From) {
			return fmt.Errorf("an import from %s has begun; weft import abort ends it", job.Source)
		}
		if err := s.take(ctx); err != nil {
			return err
		}
		i.Say("going on with the import that began at %s", job.Started.Local().Format("2006-01-02 15:04:05"))
	}
	if job == nil || job.State == Preparing {
		if err := i.declare(ctx, s); err != nil {
			return err
		}
		if err := i.slot(ctx, s); err != nil {
			return err
		}
	} else if err := i.resume(ctx, s); err != nil {
		return err
	}
	return i.follow(ctx, &s, 0)
}

// prepare makes the schema.
func (i *Importer) prepare(ctx context.Context, s sides) error {
	report, sv, err := i.check(ctx, s)
	if err != nil {
		return err
	}
	if report.Failed() {
		return &CheckError{report}
	}
	var statements []string
	if !i.Wish.NoSchema {
		if statements, err = i.dump(ctx, s.source); err != nil {
			return err
		}
	}
	i.at("import-dumped")
	tables := slices.DeleteFunc(sv.Tables, func(t Table) bool { return i.Wish.excludes(&t) })
	if err := s.begin(ctx, s.source, tables, i.Wish.Exclude, statements); err != nil {
		return err
	}
	i.at("import-schema")
	i.Say("schema of %d tables made by %d statements", len(tables), len(statements))
	return nil
}

// declare declares the tables, as far as they are not.
func (i *Importer) declare(ctx context.Context, s sides) error {
	links, err := readLinks(ctx, s.source.conn)
	if err != nil {
		return err
	}
	declared, err := s.declared(ctx)
	if err != nil {
		return err
	}
	for _, d := range Order(i.Wish.Declarations, links) {
		t := Table{Schema: d.Schema, Name: d.Name}
		if declared[t.name()].Active {
			continue
		}
		if _, err := s.target.conn.PgConn().Exec(ctx, d.Statement).ReadAll(); err != nil {
			return fmt.Errorf("declare %s: %w", t.name(), err)
		}
		i.Say("%s is %s", t.name(), d.Says)
		i.at("import-declared")
	}
	return nil
}

// slot makes the publication and the slot, and copies everything as of its beginning.
func (i *Importer) slot(ctx context.Context, s sides) error {
	job, err := s.job(ctx)
	if err != nil {
		return err
	}
	if err := s.publish(ctx, job.Tables); err != nil {
		return fmt.Errorf("make publication %s on the source: %w", s.slot, err)
	}
	i.at("import-published")
	snap, err := s.makeSlot(ctx)
	if err != nil {
		return err
	}
	defer snap.close()
	i.at("import-slot")
	if err := s.enter(ctx, Copying); err != nil {
		return err
	}
	i.Say("slot %s made at %s", s.slot, snap.at)
	i.at("import-copying")
	return i.copyAll(ctx, s, snap)
}

// resume copies the tables that are left, as of now: changes of them that are older are passed over later.
func (i *Importer) resume(ctx context.Context, s sides) error {
	ok, err := s.hasSlot(ctx)
	if err != nil {
		return err
	}
	if !ok {
		return fmt.Errorf("slot %s of the source is gone, and the changes it kept with it: run weft import abort --drop and start again", s.slot)
	}
	job, err := s.job(ctx)
	if err != nil || job.State != Copying {
		return err
	}
	snap, err := s.moment(ctx)
	if err != nil {
		return err
	}
	defer snap.close()
	return i.copyAll(ctx, s, snap)
}

// copyAll copies every table that has not been copied.
func (i *Importer) copyAll(ctx context.Context, s sides, snap *snapshot) error {
	job, err := s.job(ctx)
	if err != nil {
		return err
	}
	sources, err := readTables(ctx, s.source.conn)
	if err != nil {
		return err
	}
	targets, err := readTables(ctx, s.target.conn)
	if err != nil {
		return err
	}
	declared, err := s.declared(ctx)
	if err != nil {
		return err
	}
	var left []copying
	for _, c := range job.Tables {
		if c.At != 0 {
			continue
		}
		from, to := find(sources, c.Schema, c.Name), find(targets, c.Schema, c.Name)
		if from == nil {
			return fmt.Errorf("table %s.%s is gone on the source", c.Schema, c.Name)
		}
		if to == nil || from.definition() != to.definition() {
			e := &DefinitionError{Table: from.name(), Source: from.definition()}
			if to != nil {
				e.Target = to.definition()
			}
			return e
		}
		left = append(left, copying{from, declared[from.name()].Reference && to.Triggers})
	}
	// The largest first, so that none of them is left at the end for one connection alone.
	slices.SortStableFunc(left, func(a, b copying) int { return int(min(max(b.Bytes-a.Bytes, -1), 1)) })
	work := make(chan copying)
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		defer close(work)
		for _, c := range left {
			select {
			case work <- c:
			case <-gctx.Done():
				return nil
			}
		}
		return nil
	})
	var mu sync.Mutex
	done := len(job.Tables) - len(left)
	for range max(1, min(i.Jobs, len(left))) {
		g.Go(func() error {
			for c := range work {
				n, err := i.copyTable(gctx, s, snap, c)
				if err != nil {
					return fmt.Errorf("copy %s: %w", c.name(), err)
				}
				mu.Lock()
				done++
				i.Say("copied %s: %d rows (%d of %d tables)", c.name(), n, done, len(job.Tables))
				mu.Unlock()
				i.at("import-copied-table")
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	i.at("import-copied")
	for _, c := range left { // statistics are a help, not a promise
		_, _ = s.target.conn.Exec(ctx, "ANALYZE "+c.sql())
	}
	return s.enter(ctx, Following)
}

// copying is a table to copy.
type copying struct {
	*Table
	rows bool // by INSERT: weft does not copy into reference tables with triggers
}

// copyTable copies a table in one transaction, which notes what moment of the source it is as of.
func (i *Importer) copyTable(ctx context.Context, s sides, snap *snapshot, t copying) (int64, error) {
	from, moment, err := s.whole(ctx, snap, []Copied{{Schema: t.Schema, Name: t.Name}})
	if err != nil {
		return 0, err
	}
	defer closeConn(from)
	to, err := dial(ctx, s.target.cfg)
	if err != nil {
		return 0, err
	}
	defer closeConn(to)
	if err := silence(ctx, to); err != nil {
		return 0, err
	}
	if _, err := to.Exec(ctx, "BEGIN"); err != nil {
		return 0, err
	}
	// Whoever takes over waits until this transaction has ended.
	var one int
	if err := to.QueryRow(ctx, "SELECT 1 FROM weft_import.job WHERE run = $1 FOR SHARE", s.run).Scan(&one); err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			err = errTaken
		}
		return 0, err
	}
	n := int64(0)
	switch {
	case len(t.Columns) == 0:
		return 0, errors.New("it has no columns")
	case t.rows:
		n, err = copyByInsert(ctx, from, to, t.Table)
	default:
		n, err = copyByCopy(ctx, from, to, t.Table)
	}
	if err != nil {
		return n, err
	}
	i.at("import-rows-copied")
	tag, err := to.Exec(ctx, "UPDATE weft_import.tables SET at = $1::text::pg_lsn, rows = $2 WHERE schema = $3 AND name = $4 AND at IS NULL", moment.String(), n, t.Schema, t.Name)
	if err != nil {
		return n, err
	}
	if tag.RowsAffected() != 1 {
		return n, errTaken
	}
	_, err = to.Exec(ctx, "COMMIT")
	return n, err
}

func copyByCopy(ctx context.Context, from, to *pgx.Conn, t *Table) (int64, error) {
	columns := quote.Idents(t.columns())
	out := "COPY " + t.sql() + " (" + columns + ") TO STDOUT"
	if t.Partitioned {
		out = "COPY (SELECT " + columns + " FROM " + t.sql() + ") TO STDOUT"
	}
	r, w := io.Pipe()
	read := make(chan error, 1)
	go func() {
		_, err := from.PgConn().CopyTo(ctx, w, out)
		_ = w.CloseWithError(err) // nil is the end of the rows
		read <- err
	}()
	tag, err := to.PgConn().CopyFrom(ctx, r, "COPY "+t.sql()+" ("+columns+") FROM STDIN")
	_ = r.CloseWithError(errors.New("the target takes no more rows"))
	if failed := <-read; failed != nil && (err == nil || code(err) == "57014" || code(err) == "") {
		err = failed // it ended the copy
	}
	return tag.RowsAffected(), err
}

// copyByInsert copies a table row by row.
func copyByInsert(ctx context.Context, from, to *pgx.Conn, t *Table) (n int64, err error) {
	w := newWriter(&Relation{Schema: t.Schema, Name: t.Name, Columns: t.columns(), Key: make([]bool, len(t.Columns))}, t, nil)
	rows := from.PgConn().ExecParams(ctx, "SELECT "+w.columns()+" FROM "+t.sql(), nil, nil, nil, nil)
	for rows.NextRow() {
		s := w.insert(texts(rows.Values()))
		if _, err := to.PgConn().ExecParams(ctx, s.SQL, s.Args, nil, nil, nil).Close(); err != nil {
			return n, err
		}
		n++
	}
	_, err = rows.Close()
	return n, err
}

// texts makes values of what a server has answered.
func texts(row [][]byte) []Value {
	out := make([]Value, len(row))
	for i, b := range row {
		out[i].Kind = 'n'
		if b != nil {
			out[i] = Value{'t', slices.Clone(b)}
		}
	}
	return out
}
