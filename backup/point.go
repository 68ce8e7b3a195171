package backup

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"weft/directory"
	"weft/pgerr"
	"weft/quote"
)

// Conn is a connection of the service user to a database of a shard.
type Conn interface {
	Exec(sql string) ([][]string, error)
	// Interrupt ends a running Exec, from another goroutine.
	Interrupt()
	Terminate()
}

// Cluster is what a point is made of.
type Cluster interface {
	// Load returns the directory as it is, with the entries of lookups.
	Load(ctx context.Context) (*directory.Snapshot, error)
	// Dial connects to a database of a shard's primary.
	Dial(ctx context.Context, shard, database string) (Conn, error)
}

// Maker makes points.
type Maker struct {
	Cluster Cluster
	// Tries is how many attempts are made. Default 20.
	Tries int
	// Patience bounds how long an attempt waits for a lock, and with that how long commits over several shards wait
	// behind it. Default 1s.
	Patience time.Duration
	// Pause waits between two attempts. Default: a time that grows with each.
	Pause func(ctx context.Context, try int) error
	// Strict makes the commits of all shards wait while the points are made. Directory is needed for that.
	Strict    bool
	Directory Directory
	// Say tells the operator of an attempt that was in vain. Nil: says nothing.
	Say func(text string)
}

// ErrName says that a point cannot have a name.
var ErrName = errors.New("the name of a point has 1 to 40 letters, digits and the signs - _ . only")

var pointName = regexp.MustCompile(`^[A-Za-z0-9][-A-Za-z0-9_.]{0,39}$`)

// Make makes a point and returns its manifest. The WAL of the point may not be archived yet.
func (m *Maker) Make(ctx context.Context, name string) (*Manifest, error) {
	if !pointName.MatchString(name) {
		return nil, fmt.Errorf("%q: %w", name, ErrName)
	}
	var made *Manifest
	err := m.retry(ctx, func() (err error) {
		made, err = m.attempt(ctx, name)
		return err
	})
	return made, err
}

// retry tries something until it does not say that it is busy.
func (m *Maker) retry(ctx context.Context, attempt func() error) error {
	tries, pause := m.Tries, m.Pause
	if tries == 0 {
		tries = 20
	}
	if pause == nil {
		pause = rest
	}
	for try := 1; ; try++ {
		err := attempt()
		var busy *BusyError
		if err == nil || !errors.As(err, &busy) || try == tries {
			return err
		}
		if m.Say != nil {
			m.Say(fmt.Sprintf("attempt %d: %s", try, busy))
		}
		if err := pause(ctx, try); err != nil {
			return err
		}
	}
}

// rest waits for a tenth of a second after the first attempt and for two seconds at most, and a part of that at random.
func rest(ctx context.Context, try int) error {
	var b [1]byte
	_, _ = rand.Read(b[:])
	d := min(time.Duration(try)*100*time.Millisecond, 2*time.Second)
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d/2 + d*time.Duration(b[0])/256):
		return nil
	}
}

// BusyError says what kept an attempt from making a point. Another attempt may succeed.
type BusyError struct {
	Why   string
	Cause error
}

func (e *BusyError) Error() string {
	if e.Cause != nil {
		return e.Why + ": " + e.Cause.Error()
	}
	return e.Why
}

func (e *BusyError) Unwrap() error { return e.Cause }

// place is a database of a shard.
type place struct{ shard, database string }

// failed returns an error of a place. If the shard may be about to get another primary, another attempt may succeed.
func (p place) failed(err error) error {
	if unled(err) {
		return &BusyError{Why: fmt.Sprintf("shard %s has no primary at the moment", p.shard), Cause: err}
	}
	return fmt.Errorf("%s, database %s: %w", p.shard, p.database, err)
}

// unled reports whether an error is one of a server that is gone, stops, starts, or is a standby.
func unled(err error) bool {
	var e *pgerr.Error
	var n net.Error
	switch {
	case errors.As(err, &e):
		return strings.HasPrefix(e.Code, "08") || slices.Contains([]string{pgerr.AdminShutdown, "57P02", pgerr.CannotConnectNow, "25006", pgerr.ObjectNotInPrerequisiteState}, e.Code)
	case errors.Is(err, context.Canceled): // another place has failed
		return false
	}
	return errors.As(err, &n) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

// attempt makes a point, or says why it could not.
func (m *Maker) attempt(ctx context.Context, name string) (_ *Manifest, err error) {
	before, err := m.Cluster.Load(ctx)
	if err != nil {
		return nil, err
	}
	if why := unsettled(before); why != "" {
		return nil, &BusyError{Why: why}
	}
	if m.Strict {
		if err := m.allFollow(ctx, before.Version); err != nil {
			return nil, err
		}
	}
	h, err := m.hold(ctx, before)
	defer h.release()
	if err != nil {
		return nil, err
	}
	var pause *halting
	if m.Strict {
		pause, err = m.halt(ctx, h)
		defer pause.end()
		if err != nil {
			return nil, err
		}
	}
	// Recovery stops at the first point of a name: every attempt has its own.
	var id [4]byte
	_, _ = rand.Read(id[:])
	out := &Manifest{
		Format: Format, Name: name, Target: fmt.Sprintf("weft:%s:%s", name, hex.EncodeToString(id[:])),
		Cluster: before.Cluster, Home: before.Home, Marks: make([]Mark, len(before.Shards)), Strict: m.Strict,
	}
	if err := h.mark(ctx, before, out); err != nil {
		return nil, err
	}
	if err := errors.Join(h.still(), current(before, out)); err != nil {
		return nil, err
	}
	if err := pause.lasted(); err != nil {
		return nil, err
	}
	out.Held = h.held()
	pause.end()
	h.release()
	after, err := m.Cluster.Load(ctx)
	if err != nil {
		return nil, err
	}
	if why := changed(before, after); why != "" {
		return nil, &BusyError{Why: why}
	}
	if out.Directory, err = after.EncodeCopy(); err != nil {
		return nil, err
	}
	out.Number = after.Number()
	out.seal()
	return out, nil
}

// holding is the locks of one attempt.
type holding struct {
	since  time.Time // when the first lock was asked for
	places []place
	conns  []Conn
	bare   []bool // the database has no table of decisions on the shard
}

// hold locks the decisions of all databases on all shards. The caller releases what is held also after an error.
func (m *Maker) hold(ctx context.Context, snap *directory.Snapshot) (*holding, error) {
	databases := snap.Databases()
	if len(databases) == 0 {
		return &holding{}, errors.New("no table is declared: one PostgreSQL has all rows, and its own backups are enough")
	}
	h := &holding{since: time.Now()}
	for i := range snap.Shards {
		for _, d := range databases {
			h.places = append(h.places, place{snap.Shards[i].Name, d})
		}
	}
	h.conns, h.bare = make([]Conn, len(h.places)), make([]bool, len(h.places))
	g, ctx := errgroup.WithContext(ctx)
	for i, p := range h.places {
		g.Go(func() (err error) {
			defer pgerr.Recovered(&err)
			c, err := m.Cluster.Dial(ctx, p.shard, p.database)
			if err != nil {
				return p.failed(err)
			}
			h.conns[i] = c
			return h.lock(ctx, i, cmp.Or(m.Patience, time.Second))
		})
	}
	return h, g.Wait()
}

// exists asks whether a database has a table of decisions.
const exists = "SELECT pg_catalog.to_regclass('weft.decision') IS NOT NULL"

// pledged finds a transaction that a client has prepared with a decision in it: until it has ended nobody gets the lock. A client that is about
// to end it has a second to do so.
const pledged = `SELECT p.gid FROM pg_catalog.pg_prepared_xacts p
JOIN pg_catalog.pg_locks x ON x.pid IS NULL AND x.locktype = 'transactionid' AND x.transactionid = p.transaction AND x.granted
JOIN pg_catalog.pg_locks l ON l.pid IS NULL AND l.virtualtransaction = x.virtualtransaction AND l.locktype = 'relation' AND l.relation = pg_catalog.to_regclass('weft.decision')
WHERE p.database = pg_catalog.current_database() AND NOT pg_catalog.starts_with(p.gid, 'weft:') AND p.prepared < pg_catalog.clock_timestamp() - interval '1 s'
ORDER BY p.prepared LIMIT 1`

// lock locks the decisions of one database on one shard.
func (h *holding) lock(ctx context.Context, i int, patience time.Duration) error {
	c, p := h.conns[i], h.places[i]
	defer context.AfterFunc(ctx, c.Interrupt)()
	rows, err := c.Exec(exists)
	if err != nil {
		return p.failed(err)
	}
	if rows[0][0] != "t" {
		h.bare[i] = true
		return nil
	}
	// Whoever waits for the lock keeps commits waiting, too: so it is not waited for in vain.
	rows, err = c.Exec(pledged)
	if err != nil {
		return p.failed(err)
	}
	if len(rows) > 0 {
		return &BusyError{Why: fmt.Sprintf("a client has prepared transaction %q of several shards in database %s and not ended it (COMMIT PREPARED, ROLLBACK PREPARED)", rows[0][0], p.database)}
	}
	_, err = c.Exec(fmt.Sprintf("BEGIN; SET LOCAL lock_timeout = %d; LOCK TABLE weft.decision IN SHARE MODE", patience.Milliseconds()))
	switch {
	case err == nil:
		return nil
	case pgerr.From(err).Code == pgerr.LockNotAvailable:
		return &BusyError{Why: fmt.Sprintf("commits over several shards did not end within %s on %s, database %s", patience, p.shard, p.database), Cause: err}
	}
	return p.failed(err)
}

// held is for how long the locks have been asked for or held.
func (h *holding) held() time.Duration { return time.Since(h.since) }

// mark makes the restore points: those of the home shard last.
func (h *holding) mark(ctx context.Context, snap *directory.Snapshot, m *Manifest) error {
	g, gctx := errgroup.WithContext(ctx)
	home := -1
	for i := range snap.Shards {
		if snap.Shards[i].Name == snap.Home {
			home = i
			continue
		}
		g.Go(func() (err error) {
			defer pgerr.Recovered(&err)
			return h.markOne(gctx, snap.Shards[i].Name, m.Target, &m.Marks[i])
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	if home < 0 {
		return fmt.Errorf("the directory has no shard %q, which is to be the home shard", snap.Home)
	}
	return h.markOne(ctx, snap.Home, m.Target, &m.Marks[home])
}

// markQuery makes a restore point and says where it is.
const markQuery = "SELECT l::text, pg_catalog.pg_walfile_name(l), (SELECT system_identifier::text FROM pg_catalog.pg_control_system()), " +
	"pg_catalog.current_setting('server_version'), pg_catalog.clock_timestamp() AT TIME ZONE 'UTC', pg_catalog.current_setting('archive_mode') " +
	"FROM pg_catalog.pg_create_restore_point(%s) l"

func (h *holding) markOne(ctx context.Context, shard, target string, out *Mark) error {
	defer context.AfterFunc(ctx, h.conn(shard).Interrupt)()
	return h.ask(fmt.Sprintf(markQuery, quote.Literal(target)), shard, out)
}

// conn is a connection to a shard.
func (h *holding) conn(shard string) Conn {
	return h.conns[slices.IndexFunc(h.places, func(p place) bool { return p.shard == shard })]
}

// ask runs a query with the columns of markQuery on a shard.
func (h *holding) ask(sql, shard string, out *Mark) error {
	rows, err := h.conn(shard).Exec(sql)
	if err != nil {
		if pgerr.From(err).Code == pgerr.InsufficientPrivilege {
			return fmt.Errorf("%s: %w: GRANT EXECUTE ON FUNCTION pg_create_restore_point(text) TO weft's service user, in the database %s", shard, err, h.places[0].database)
		}
		return place{shard, h.places[0].database}.failed(err)
	}
	r := rows[0]
	*out = Mark{
		Shard: shard, LSN: r[0], File: r[1], System: r[2], Server: r[3], At: strings.Replace(r[4], " ", "T", 1) + "Z", Archives: r[5] != "off",
	}
	return nil
}

// still checks that databases without decisions still have none.
func (h *holding) still() error {
	for i, bare := range h.bare {
		if !bare {
			continue
		}
		rows, err := h.conns[i].Exec(exists)
		if err != nil {
			return h.places[i].failed(err)
		}
		if rows[0][0] == "t" {
			return &BusyError{Why: fmt.Sprintf("the first decision was made on %s, database %s", h.places[i].shard, h.places[i].database)}
		}
	}
	return nil
}

// release gives all locks back.
func (h *holding) release() {
	for i, c := range h.conns {
		if c != nil {
			_, _ = c.Exec("ROLLBACK")
			c.Terminate()
			h.conns[i] = nil
		}
	}
}
