package twopc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"weft/directory"
	"weft/pgerr"
)

// Conn is a connection to a shard that nobody else uses. *pool.Conn is one.
type Conn interface {
	// Exec runs a simple query and returns its rows as text, NULL as "".
	Exec(sql string) ([][]string, error)
	// Interrupt ends it, from another goroutine.
	Interrupt()
	// Terminate closes the connection.
	Terminate()
}

// Dial opens a connection to a shard, to the transaction's database and as the
// role that prepared there.
type Dial func(ctx context.Context, shard string) (Conn, error)

// Transaction is what must be known to end one.
type Transaction struct {
	Cluster string
	ID      string
	Decider string
	XID     string // the decider's
	// Parts are the other participants.
	Parts []directory.Part
}

// GID returns the name of the transaction that a participant prepares.
func (t *Transaction) GID(participant string) string {
	return Name{t.Cluster, t.ID, t.XID, t.Decider, participant}.String()
}

// Resolver ends transactions that their owner has left.
type Resolver struct {
	Dial Dial
	Log  *slog.Logger
}

// ErrUndecided says that the decider's part is still open.
var ErrUndecided = errors.New("the deciding transaction has not ended yet")

// Decide asks the decider. Nobody waits for a transaction that is still open:
// its backend is ended, and the next call will know more.
func (r *Resolver) Decide(ctx context.Context, t *Transaction) (Outcome, error) {
	var o Outcome
	err := r.on(ctx, t.Decider, func(c Conn) (err error) {
		if o, err = status(c, t.XID); err != nil || o != Open {
			return err
		}
		if _, err := c.Exec(endSQL(t.XID)); err != nil {
			return err
		}
		return ErrUndecided
	})
	if err == nil && o == Forgotten {
		err = fmt.Errorf("shard %s does not know any more how transaction %s ended", t.Decider, t.XID)
	}
	return o, err
}

// Finish makes all participants follow. An error means that some have not, and
// that it must be tried again.
func (r *Resolver) Finish(ctx context.Context, t *Transaction, decided Outcome) error {
	var errs []error
	for _, p := range t.Parts {
		err := r.on(ctx, p.Shard, func(c Conn) error { return r.follow(c, t, p, decided) })
		if err != nil {
			errs = append(errs, fmt.Errorf("shard %s: %w", p.Shard, err))
		}
	}
	return errors.Join(errs...)
}

var errLater = errors.New("the shard's part of the transaction is still open")

func (r *Resolver) follow(c Conn, t *Transaction, p directory.Part, decided Outcome) error {
	gid := t.GID(p.Shard)
	f, err := find(c, gid, p.XID)
	if err != nil {
		return err
	}
	step := Next(decided, f)
	switch step {
	case Commit, Rollback:
		_, err := c.Exec(decided.Verb() + " PREPARED " + quote(gid))
		if e := (*pgerr.Error)(nil); errors.As(err, &e) && e.Code == pgerr.UndefinedObject {
			return nil // its owner lives, or another proxy was faster
		}
		if err == nil {
			r.Log.Info("ended a transaction whose owner has left it", "shard", p.Shard, "gid", gid, "outcome", decided.String())
		}
		return err
	case End:
		if _, err := c.Exec(endSQL(p.XID)); err != nil {
			return err
		}
		return errLater
	case Wait:
		return errLater
	case Missing:
		// It has been restored from a backup, or a standby took over that did
		// not have it; or it cannot prepare. Nothing brings it back.
		r.Log.Error("a shard has lost its part of a committed transaction: its schema may differ", "shard", p.Shard, "gid", gid)
	}
	return nil
}

// on runs f with a connection that ends with ctx.
func (r *Resolver) on(ctx context.Context, shard string, f func(Conn) error) error {
	c, err := r.Dial(ctx, shard)
	if err != nil {
		return err
	}
	defer c.Terminate()
	stop := context.AfterFunc(ctx, c.Interrupt)
	defer stop()
	return f(c)
}

func status(c Conn, xid string) (Outcome, error) {
	rows, err := c.Exec("SELECT pg_catalog.pg_xact_status(" + quote(xid) + "::pg_catalog.xid8)")
	if err == nil && len(rows) != 1 {
		err = errors.New("pg_xact_status gave no row")
	}
	if err != nil {
		return ReadOutcome("", err)
	}
	return ReadOutcome(rows[0][0], nil)
}

// find asks a participant. The state comes first: what was open then and is not
// prepared now has either not come to that, or is over.
func find(c Conn, gid, xid string) (f Found, err error) {
	if f.Outcome, err = status(c, xid); err != nil {
		return f, err
	}
	rows, err := c.Exec("SELECT FROM pg_catalog.pg_prepared_xacts WHERE gid = " + quote(gid))
	f.Prepared = len(rows) > 0
	return f, err
}

// endSQL ends the backend that runs a transaction.
func endSQL(xid string) string {
	return "SELECT pg_catalog.pg_terminate_backend(pid) FROM pg_catalog.pg_stat_activity WHERE backend_xid = " + quote(xid) +
		"::pg_catalog.xid8::pg_catalog.xid AND datname = pg_catalog.current_database() AND usename = session_user"
}

// quote quotes what holds no backslash.
func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }
