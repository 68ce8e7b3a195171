package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pglogrepl"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
)

// errOver is that the import has ended while it was followed.
var errOver = errors.New("the import is over")

// follow applies the changes of the source until ctx ends or the import is over; if until is not 0, only what was
// committed before that. Lost connections are made again.
func (i *Importer) follow(ctx context.Context, s *sides, until LSN) error {
	trouble := time.Time{}
	for {
		began := time.Now()
		err := i.followOnce(ctx, s, until)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, errOver):
			i.Say("%v", err)
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case !transient(err):
			return err
		}
		if trouble.IsZero() || time.Since(began) > time.Minute {
			trouble = began
			i.Say("trying again: %v", err)
		}
		for {
			if err := sleep(ctx, pollEvery); err != nil {
				return err
			}
			if err = i.again(ctx, s); err == nil {
				break
			}
			if !transient(err) || until != 0 && time.Since(trouble) > time.Minute {
				return err
			}
		}
	}
}

// again connects to both sides anew.
func (i *Importer) again(ctx context.Context, s *sides) error {
	s.close()
	next, err := i.open(ctx)
	if err != nil {
		return err
	}
	*s = next
	if ok, err := s.lock(ctx, 2*time.Minute); err != nil || !ok {
		return errors.Join(err, map[bool]error{false: errRunning}[ok])
	}
	if job, err := s.job(ctx); err != nil || job == nil {
		return errors.Join(err, map[bool]error{true: errAborted}[job == nil && err == nil])
	}
	return s.take(ctx)
}

// errAborted is that there is no import any more.
var errAborted = errors.New("the import was aborted")

// transient reports whether an error may be over after a while.
func transient(err error) bool {
	if e := (*rowsError)(nil); errors.As(err, &e) || errors.Is(err, errTaken) {
		return false
	}
	if c := code(err); c != "" {
		// Connections, resources, serialization, operators; a slot that somebody still has.
		return c == "55006" || slices.Contains([]string{"08", "40", "53", "57", "58"}, c[:2])
	}
	var n net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &n) || errors.As(err, &connect) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || pgconn.SafeToRetry(err) || strings.Contains(err.Error(), "conn closed")
}

// follower is one stream of changes.
type follower struct {
	*Importer
	s        *sides
	job      *Job
	stream   *pgx.Conn
	a        *applier
	d        *decoder
	b        batch
	changes  []bound // of the batch
	writers  map[*Relation]*writer
	declared map[string]Declared

	until  LSN  // the end; 0: there is none
	hold   LSN  // where to wait
	holds  bool // hold counts
	held   bool
	walEnd LSN // all before it has been sent
	sent   LSN // that the source has been told
	told   time.Time
	polled time.Time
	said   time.Time
	count  int64
}

func (i *Importer) followOnce(ctx context.Context, s *sides, until LSN) error {
	job, err := s.job(ctx)
	if err != nil {
		return err
	}
	if job == nil {
		return errAborted
	}
	if job.State == Finishing || job.State == Done {
		return errOver
	}
	f := &follower{Importer: i, s: s, job: job, d: newDecoder(), b: batch{position: job.Position}, writers: map[*Relation]*writer{}, until: until, said: time.Now()}
	if f.declared, err = s.declared(ctx); err != nil {
		return err
	}
	if f.a, err = newApplier(ctx, s.target, i.at); err != nil {
		return err
	}
	defer closeConn(f.a.conn)
	if f.stream, err = s.replicate(ctx); err != nil {
		return err
	}
	defer closeConn(f.stream)
	err = pglogrepl.StartReplication(ctx, f.stream.PgConn(), s.slot, 0, pglogrepl.StartReplicationOptions{
		Mode: pglogrepl.LogicalReplication, PluginArgs: []string{"proto_version '1'", "publication_names '" + s.slot + "'"},
	})
	if err != nil {
		return fmt.Errorf("follow slot %s: %w", s.slot, err)
	}
	if until == 0 {
		i.Say("following the source from %s", job.Position.At)
	}
	i.at("import-following")
	return f.run(ctx)
}

// run reads the stream and applies it.
func (f *follower) run(ctx context.Context) error {
	for {
		now := time.Now()
		if f.b.ready(now) {
			if err := f.flush(ctx); err != nil {
				return err
			}
		}
		if now.Sub(f.polled) >= pollEvery && f.until == 0 {
			if err := f.poll(ctx); err != nil {
				return err
			}
		}
		if over, err := f.limit(ctx, f.walEnd); err != nil || over {
			return err
		}
		if err := f.tell(now); err != nil {
			return err
		}
		msg, err := f.receive(ctx)
		if err != nil {
			return err
		}
		if msg == nil {
			continue
		}
		if over, err := f.handle(ctx, msg); err != nil || over {
			return err
		}
	}
}

// receive waits for a message; nil: none came in time.
func (f *follower) receive(ctx context.Context) ([]byte, error) {
	wait := pollEvery
	if len(f.b.changes) > 0 {
		wait = max(batchTime-time.Since(f.b.opened), time.Millisecond)
	} else if f.until != 0 || f.holds {
		wait = pollEvery / 10
	}
	short, stop := context.WithTimeout(ctx, wait)
	defer stop()
	m, err := f.stream.PgConn().ReceiveMessage(short)
	if err != nil {
		if ctx.Err() == nil && pgconn.Timeout(err) {
			return nil, nil
		}
		return nil, err
	}
	switch m := m.(type) {
	case *pgproto3.CopyData:
		return m.Data, nil
	case *pgproto3.ErrorResponse:
		return nil, pgconn.ErrorResponseToPgError(m)
	case *pgproto3.CopyDone:
		return nil, io.EOF
	}
	return nil, nil
}

// handle takes a message in. It reports true at the end.
func (f *follower) handle(ctx context.Context, msg []byte) (over bool, err error) {
	switch msg[0] {
	case pglogrepl.PrimaryKeepaliveMessageByteID:
		k, err := pglogrepl.ParsePrimaryKeepaliveMessage(msg[1:])
		if err != nil {
			return false, err
		}
		if f.b.commit == 0 {
			f.walEnd = max(f.walEnd, k.ServerWALEnd)
			f.b.confirm = max(f.b.confirm, k.ServerWALEnd)
		}
		if k.ReplyRequested {
			f.told = time.Time{}
		}
	case pglogrepl.XLogDataByteID:
		x, err := pglogrepl.ParseXLogData(msg[1:])
		if err != nil {
			return false, err
		}
		e, err := f.d.decode(x.WALData)
		if err != nil {
			return false, err
		}
		return f.event(ctx, e)
	}
	return false, nil
}

func (f *follower) event(ctx context.Context, e event) (over bool, err error) {
	switch {
	case e.begin != 0:
		// What begins here has committed later than everything before.
		if over, err := f.limit(ctx, e.begin); err != nil || over {
			return over, err
		}
		f.b.begin(e.begin)
	case e.end != 0:
		f.b.end(e.end, e.at)
	case e.change != nil:
		if f.b.wants() {
			return false, f.take(ctx, e.change)
		}
	}
	return false, nil
}

// take adds a change to the batch, unless the copy of its table has it.
func (f *follower) take(ctx context.Context, c *Change) error {
	one := bound{Change: c}
	relations := c.Truncated
	if c.Kind != 'T' {
		relations = []*Relation{c.Of}
	}
	for _, r := range relations {
		copied := f.job.copied(r.Schema, r.Name)
		if copied == nil || f.b.commit < copied.At {
			continue
		}
		w, err := f.writer(ctx, r)
		if err != nil {
			// What came before it is good.
			return errors.Join(f.flush(ctx), err)
		}
		one.w = w
		one.tables = append(one.tables, w.table)
	}
	if one.w == nil {
		return nil
	}
	f.b.add(c, time.Now())
	f.changes = append(f.changes, one)
	if f.b.ready(time.Now()) && f.b.commit != 0 {
		return f.flush(ctx)
	}
	return nil
}

// writer returns what writes a table, once it is certain that both sides define the table alike.
func (f *follower) writer(ctx context.Context, r *Relation) (*writer, error) {
	if w := f.writers[r]; w != nil {
		return w, nil
	}
	types, err := f.s.types(ctx, r)
	if err != nil {
		return nil, err
	}
	there := Table{Schema: r.Schema, Name: r.Name}
	for i := range r.Columns {
		there.Columns = append(there.Columns, Column{Name: r.Columns[i], Type: types[i]})
	}
	tables, err := readTables(ctx, f.s.target.conn)
	if err != nil {
		return nil, err
	}
	here := find(tables, r.Schema, r.Name)
	if here == nil || here.definition() != there.definition() {
		e := &DefinitionError{Table: there.name(), Source: there.definition()}
		if here != nil {
			e.Target = here.definition()
		}
		return nil, e
	}
	w := newWriter(r, here, f.declared[here.name()].Columns)
	f.writers[r] = w
	return w, nil
}

// flush applies the batch.
func (f *follower) flush(ctx context.Context) error {
	if len(f.changes) == 0 {
		return nil
	}
	if err := f.a.apply(ctx, f.changes, f.b.position, f.b.at); err != nil {
		return err
	}
	f.count += int64(len(f.changes))
	f.changes = nil
	f.b.clear()
	f.at("import-committed")
	return nil
}

// tell lets the source forget what has been applied, and asks where it is if that is being waited for.
func (f *follower) tell(now time.Time) error {
	waits := f.until != 0 || f.holds && !f.held
	pending := len(f.changes) > 0
	due := now.Sub(f.told) >= statusEach || waits && now.Sub(f.told) >= pollEvery/10
	if !pending && f.b.confirm > f.sent && now.Sub(f.told) >= pollEvery {
		due = true
	}
	if !due {
		return nil
	}
	if !pending {
		f.sent = max(f.sent, f.b.confirm)
	}
	f.told = now
	return pglogrepl.SendStandbyStatusUpdate(context.Background(), f.stream.PgConn(), pglogrepl.StandbyStatusUpdate{
		WALWritePosition: f.sent, ReplyRequested: waits,
	})
}

// limit ends or holds the stream where nothing is left that has committed before the limit. Everything before next has been
// taken in.
func (f *follower) limit(ctx context.Context, next LSN) (over bool, err error) {
	if f.b.commit != 0 {
		return false, nil
	}
	if f.until != 0 && next >= f.until {
		return true, f.flush(ctx)
	}
	for f.holds && next >= f.hold {
		if !f.held {
			if err := f.flush(ctx); err != nil {
				return false, err
			}
			if _, err := f.s.target.conn.Exec(ctx, "UPDATE weft_import.job SET held_at = hold_at WHERE run = $1 AND hold_at = $2::text::pg_lsn", f.s.run, f.hold.String()); err != nil {
				return false, err
			}
			f.held = true
		}
		if err := sleep(ctx, pollEvery/4); err != nil {
			return false, err
		}
		if err := f.poll(ctx); err != nil {
			return false, err
		}
		if time.Since(f.told) >= statusEach {
			if err := f.tell(time.Now()); err != nil {
				return false, err
			}
		}
	}
	return false, nil
}

// poll asks whether the import goes on, and whether somebody wants it to stop somewhere.
func (f *follower) poll(ctx context.Context) error {
	var state, run string
	var at *string
	var told bool
	err := f.s.target.conn.QueryRow(ctx, "SELECT state, run, CASE WHEN hold_until > clock_timestamp() THEN hold_at::text END, coalesce(held_at = hold_at, false) FROM weft_import.job").Scan(&state, &run, &at, &told)
	switch {
	case code(err) == "42P01" || code(err) == "3F000" || errors.Is(err, pgx.ErrNoRows):
		return errAborted
	case err != nil:
		return err
	case run != f.s.run:
		return errTaken
	case State(state) == Finishing, State(state) == Done:
		return errOver
	}
	f.polled = time.Now()
	f.holds, f.held, f.hold = at != nil, told, 0
	if at != nil {
		if f.hold, err = pglogrepl.ParseLSN(*at); err != nil {
			return err
		}
	}
	if f.polled.Sub(f.said) >= 2*statusEach {
		if f.said = f.polled; f.count > 0 {
			f.Say("applied %d changes, up to %s", f.count, f.b.position.At)
			f.count = 0
		}
	}
	return nil
}
