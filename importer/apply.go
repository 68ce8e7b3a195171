package importer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// applier writes batches into the target, over a connection of its own.
type applier struct {
	conn  *pgx.Conn
	run   string
	at    func(step string)
	names map[string]string // of prepared statements, by text
}

func newApplier(ctx context.Context, t *target, at func(string)) (*applier, error) {
	c, err := dial(ctx, t.cfg)
	if err != nil {
		return nil, fmt.Errorf("connect to weft: %w", err)
	}
	if err := silence(ctx, c); err != nil {
		closeConn(c)
		return nil, err
	}
	return &applier{conn: c, run: t.run, at: at, names: map[string]string{}}, nil
}

// rowsError is a statement that has concerned another number of rows than it must.
type rowsError struct {
	Statement
	got int64
}

func (e *rowsError) Error() string {
	args := make([]string, len(e.Args))
	for i, a := range e.Args {
		args[i] = "NULL"
		if a != nil {
			args[i] = string(a[:min(len(a), 100)])
		}
	}
	return fmt.Sprintf("the target differs from the source: %d rows instead of %d by %s with (%s)", e.got, e.Rows, e.SQL, strings.Join(args, ", "))
}

// bound is a change, with what writes its table.
type bound struct {
	*Change
	w *writer
	// tables are those that T empties.
	tables []string
	// alone: it has found no row, and is not sent with others.
	alone bool
}

// apply writes changes and the position after them, in one transaction. An update that finds no row is of one that may have to move: the
// batch is run again, with that one by itself. A transaction that weft is still bringing to its end may hide rows for a moment, so what
// is missing even then is looked for again.
func (a *applier) apply(ctx context.Context, changes []bound, after Position, committed time.Time) error {
	deadline := time.Now().Add(retryFor)
	for tries := 0; ; tries++ {
		err := a.attempt(ctx, changes, after, committed)
		if err == nil || a.conn.IsClosed() || ctx.Err() != nil || errors.Is(err, errTaken) {
			return err
		}
		if _, rolled := a.conn.Exec(ctx, "ROLLBACK"); rolled != nil {
			return errors.Join(err, rolled)
		}
		var missing *rowsError
		switch {
		case errors.Is(err, errMarked) && tries < 3:
		case tries == 0 || errors.Is(err, errMarked): // one by one, to see which it is
			for i := range changes {
				changes[i].alone = true
			}
		case !errors.As(err, &missing) || time.Now().After(deadline):
			return err
		default:
			if err := sleep(ctx, pollEvery); err != nil {
				return err
			}
		}
		if err := a.forget(ctx); err != nil {
			return err
		}
	}
}

// errMarked is that changes were marked to be carried out alone.
var errMarked = errors.New("some updates have found no row")

// forget drops the prepared statements: after an error nobody knows which there are.
func (a *applier) forget(ctx context.Context) error {
	a.names = map[string]string{}
	_, err := a.conn.PgConn().Exec(ctx, "DEALLOCATE ALL").ReadAll()
	return err
}

func (a *applier) attempt(ctx context.Context, changes []bound, after Position, committed time.Time) error {
	if len(a.names) > 500 {
		if err := a.forget(ctx); err != nil {
			return err
		}
	}
	if _, err := a.conn.PgConn().Exec(ctx, "BEGIN").ReadAll(); err != nil {
		return err
	}
	_, err := a.exec(ctx, Statement{
		"UPDATE weft_import.job SET at = $1::text::pg_lsn, part = $2, committed = $3, applied = clock_timestamp(), changes = changes + $4 WHERE run = $5",
		[][]byte{[]byte(after.At.String()), []byte(strconv.FormatInt(after.Part, 10)), stamp(committed), []byte(strconv.Itoa(len(changes))), []byte(a.run)},
		1,
	})
	if e := (*rowsError)(nil); errors.As(err, &e) {
		return errTaken
	}
	if err != nil {
		return err
	}
	var queue []sending
	for i := 0; i < len(changes); i++ {
		c := &changes[i]
		if n := inserts(changes[i:]); n > 1 {
			rows := make([][]Value, n)
			for k := range rows {
				rows[k] = changes[i+k].New
			}
			queue = append(queue, sending{c.w.insert(rows...), nil})
			i += n - 1
			continue
		}
		s, simple := c.statement()
		if simple && !c.alone {
			if s.SQL != "" {
				queue = append(queue, sending{s, c})
			}
			continue
		}
		if err := a.send(ctx, queue); err != nil {
			return err
		}
		queue = queue[:0]
		if err := a.one(ctx, *c, s, simple); err != nil {
			return err
		}
	}
	if err := a.send(ctx, queue); err != nil {
		return err
	}
	a.at("import-batch")
	_, err = a.conn.PgConn().Exec(ctx, "COMMIT").ReadAll()
	return err
}

// inserts counts the changes at the beginning of a list that can be one statement. Numbers of rows are powers of two, so that there are
// few different statements.
func inserts(list []bound) int {
	n := 0
	for n < len(list) && n < mostInserts && list[n].Kind == 'I' && list[n].w == list[0].w && !list[n].alone && (n+1)*len(list[0].New) < mostParams {
		n++
	}
	for n&(n-1) != 0 {
		n &= n - 1
	}
	return n
}

const (
	mostInserts = 128
	mostParams  = 1 << 14
)

func stamp(t time.Time) []byte {
	if t.IsZero() {
		return nil
	}
	return []byte(t.UTC().Format("2006-01-02 15:04:05.999999Z07:00"))
}

// statement returns the one statement that carries a change out, or reports false.
func (c *bound) statement() (Statement, bool) {
	switch c.Kind {
	case 'I':
		return c.w.insert(c.New), true
	case 'U':
		return c.w.update(c.Change)
	case 'D':
		return c.w.remove(c.Change)
	}
	return truncate(c.tables), true
}

// sending is a statement to send, and the change it is for, if it is for one.
type sending struct {
	Statement
	of *bound
}

// send runs statements, all of them in one round trip, and compares how many rows they have concerned. Updates that have found no row
// are marked.
func (a *applier) send(ctx context.Context, list []sending) error {
	if len(list) == 0 {
		return nil
	}
	p := a.conn.PgConn().StartPipeline(ctx)
	for _, s := range list {
		name, ok := a.names[s.SQL]
		if !ok {
			name = "import" + strconv.Itoa(len(a.names))
			a.names[s.SQL] = name
			p.SendPrepare(name, s.SQL, nil)
		}
		p.SendQueryPrepared(name, s.Args, nil, nil)
	}
	marked := false
	err := p.Sync()
	for n := 0; err == nil; {
		var r any
		if r, err = p.GetResults(); err != nil || r == nil {
			break
		}
		if _, over := r.(*pgconn.PipelineSync); over {
			break
		}
		rows, ok := r.(*pgconn.ResultReader)
		if !ok {
			continue // of a statement that was prepared
		}
		var tag pgconn.CommandTag
		if tag, err = rows.Close(); err == nil && list[n].Rows >= 0 && tag.RowsAffected() != list[n].Rows {
			if c := list[n].of; c != nil && c.Kind == 'U' && tag.RowsAffected() == 0 {
				c.alone, marked = true, true
			} else if !marked { // what follows one that is marked may be because of it
				err = &rowsError{list[n].Statement, tag.RowsAffected()}
			}
		}
		n++
	}
	if err = errors.Join(err, p.Close()); marked && !a.conn.IsClosed() {
		return errMarked
	}
	return err
}

// exec runs one statement and returns how many rows it has concerned.
func (a *applier) exec(ctx context.Context, s Statement) (int64, error) {
	tag, err := a.conn.PgConn().ExecParams(ctx, s.SQL, s.Args, nil, nil, nil).Close()
	if err == nil && s.Rows >= 0 && tag.RowsAffected() != s.Rows {
		err = &rowsError{s, tag.RowsAffected()}
	}
	return tag.RowsAffected(), err
}

// one carries out a change by itself.
func (a *applier) one(ctx context.Context, c bound, s Statement, simple bool) error {
	if simple {
		if s.SQL == "" {
			return nil
		}
		_, err := a.exec(ctx, s)
		if e := (*rowsError)(nil); c.Kind == 'U' && errors.As(err, &e) && e.got == 0 {
			return a.move(ctx, c)
		}
		return err
	}
	if len(c.w.key) == 0 {
		return a.replace(ctx, c)
	}
	return a.move(ctx, c)
}

// move deletes a row where it is and inserts it where it belongs now. Large values that have not changed come from the row
// itself.
func (a *applier) move(ctx context.Context, c bound) error {
	row := slices.Clone(c.New)
	if slices.ContainsFunc(row, func(v Value) bool { return v.Kind == 'u' }) {
		s := c.w.current(c.Change)
		r := a.conn.PgConn().ExecParams(ctx, s.SQL, s.Args, nil, nil, nil).Read()
		if r.Err != nil {
			return r.Err
		}
		if len(r.Rows) != 1 {
			return &rowsError{s, int64(len(r.Rows))}
		}
		now := texts(r.Rows[0])
		for i := range row {
			if row[i].Kind == 'u' {
				row[i] = now[i]
			}
		}
	}
	if _, err := a.exec(ctx, c.w.discard(c.Change)); err != nil {
		return err
	}
	_, err := a.exec(ctx, c.w.insert(row))
	return err
}

// replace changes or deletes one of the rows that are written the same: all of them go, and but one come back.
func (a *applier) replace(ctx context.Context, c bound) error {
	s := c.w.alike(c.Old)
	n, err := a.exec(ctx, s)
	if err != nil {
		return err
	}
	if n == 0 {
		s.Rows = 1
		return &rowsError{s, 0}
	}
	for n--; n > 0; n -= mostInserts {
		if _, err := a.exec(ctx, c.w.insert(slices.Repeat([][]Value{c.Old}, int(min(n, mostInserts)))...)); err != nil {
			return err
		}
	}
	if c.Kind == 'U' {
		_, err = a.exec(ctx, c.w.insert(c.New))
	}
	return err
}
