package pool

import (
	"errors"

	"weft/pgerr"
	"weft/wire"
)

// askTries is how often Ask tries. A timeout may go off before it is lifted.
const askTries = 20

// Ask runs queries of weft's own on an idle backend, in a transaction that no
// statement_timeout of the session's bounds. What is to be asked before that is
// lifted is first. An error means that the backend is of no use any more.
func (c *Conn) Ask(first, text string) (rows [][]string, err error) {
	for range askTries {
		rows, err = c.Exec("BEGIN; " + first + "SET LOCAL statement_timeout = 0; " + text + "; COMMIT")
		if !Canceled(err) {
			break
		}
		if err = c.End(); err != nil {
			break
		}
	}
	if err == nil && len(rows) == 0 {
		err = errOutOfStep
	}
	if err != nil && !errors.Is(err, ErrLost) {
		err = c.Lost(err)
	}
	return rows, err
}

// errOutOfStep: what came was the answer to something else.
var errOutOfStep = errors.New("the answer to a question has no rows")

// End rolls back what the backend is in the middle of, if anything. It insists: a
// statement_timeout may be too short even for that.
func (c *Conn) End() (err error) {
	for range askTries {
		if c.Status == wire.TxIdle {
			return nil
		}
		if _, err = c.Exec("ROLLBACK"); err != nil && !Canceled(err) {
			return err
		}
	}
	return err
}

// Canceled reports whether a server says that it has been kept from doing
// something.
func Canceled(err error) bool {
	e := (*pgerr.Error)(nil)
	return errors.As(err, &e) && e.Code == pgerr.QueryCanceled
}
