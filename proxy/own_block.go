package proxy

import (
	"errors"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// A command that goes to every shard is one transaction, and so is a text of several
// statements. If one backend cannot run the whole, weft opens the transaction itself, runs
// each part where it belongs, and ends the transaction.

// consumed stands for the length of a message that the client's buffer has let
// go of.
const consumed = -wire.HeaderLen

// inOwnBlock calls run in a transaction that weft opens, or in the client's if the client
// has one. run tells the client everything but that weft is ready again. An error of run
// ends the session.
func (t *transaction) inOwnBlock(run func() error) error {
	if t.s.out.isQuiet() {
		return run() // part of a statement whose transaction is open
	}
	own := !t.isOpen()
	if own {
		t.start("BEGIN")
	}
	failed, err := t.s.out.quietly(run)
	if err != nil {
		return err
	}
	if own {
		if _, err := t.endOwn(failed); err != nil {
			return err
		}
	}
	t.s.out.tellReady()
	return nil
}

// endOwn ends a transaction that weft opened: commits it unless a statement in it has failed. It
// reports whether a statement or the COMMIT has failed; the client has been told then.
func (t *transaction) endOwn(failed bool) (bool, error) {
	m := t.s.out.mark()
	err := t.commitOwn(failed)
	return failed || t.s.out.failedSince(m), err
}

// commitOwn is endOwn, but does not say what has come of the COMMIT.
func (t *transaction) commitOwn(failed bool) error {
	t.s.lost.end() // the client is in no block
	if !t.isOpen() || !t.chooseEnder() {
		t.end()
		return nil
	}
	c := t.s.held.conn
	if err := t.quiesce(); err != nil {
		if errors.Is(err, errTold) {
			return nil
		}
		return err
	}
	t.noteTag("COMMIT")
	if failed || c.Status() == wire.TxFailed {
		t.noteTag("ROLLBACK")
	} else if err := t.s.commit.agree(); err != nil {
		if errors.Is(err, errTold) {
			return nil
		}
		return t.s.commit.disagree(err)
	}
	if err := t.execEnd(c, t.tag); err != nil {
		if errors.Is(err, pool.ErrLost) {
			if t.tag == "COMMIT" {
				t.s.held.drop()
				if err = t.s.lost.lostCommit(err); err == nil {
					t.abandon()
					return nil
				}
			}
			t.s.lost.closeAll()
			t.s.lost.end()
			return t.s.out.refuse(err)
		}
		t.noteTag("ROLLBACK")
		t.s.out.fail()
		t.s.out.tell(pgerr.From(err))
	}
	t.s.commit.noteSent(t.tag)
	if err := t.s.pipe.afterBlock(c); err != nil {
		return t.s.pipe.failed(err)
	}
	return nil
}

// execEnd runs the COMMIT or ROLLBACK that ends a transaction that weft opened. The client
// gets what the backend says beside the tag: notices of deferred triggers, notifications.
func (t *transaction) execEnd(c *pool.Conn, sql string) error {
	if _, err := c.Write(wire.AppendQuery(nil, sql)); err != nil {
		return c.Lost(err)
	}
	var failed error
	for c.UnnamedGone(); ; {
		typ, body, err := c.Next(wire.LargeLimit)
		if err != nil {
			return c.Lost(err)
		}
		switch typ {
		case wire.ErrorResponse:
			failed = pool.ServerError(body)
			c.QueryFailed()
		case wire.CommandComplete:
			if sql == "COMMIT" {
				t.s.script.tellDue() // notifications come after the tags
			}
		case wire.NoticeResponse:
			if a := t.s.commit.agreement; sql == "COMMIT" && a != nil && pool.Unreplicated(body) {
				return c.Lost(pool.ErrUnreplicated)
			}
			t.s.out.Grow()
			t.s.out.B = wire.AppendFrame(t.s.out.B, typ, body)
		case wire.NotificationResponse:
			t.s.record.onBackendNotification(c, body)
		case wire.ParameterStatus:
			t.s.out.onParameterStatus(c, body)
		case wire.ReadyForQuery:
			c.Ready(body[0])
		}
		c.Consume(wire.HeaderLen + len(body))
		if typ == wire.ReadyForQuery {
			return failed
		}
	}
}

// runPart runs one statement whose text is not in the client's buffer: a part of the open
// block, or a replacement for another statement.
func (t *transaction) runPart(text []byte) error {
	r := t.s.srv.memory.routers.Get().(*router)
	defer t.s.srv.memory.routers.Put(r)
	f := t.s.route.read(r, text)
	if toAll(f) {
		return t.s.route.queryForAll(text, f, consumed)
	}
	return t.s.route.plannedQuery(r, text, f, consumed)
}
