package pool

import (
	"errors"

	"weft/pgerr"
	"weft/wire"
)

// askTries is how often Ask and End try: a statement_timeout may strike before it is lifted.
const askTries = 20

// Ask runs weft's queries on an idle backend, in a transaction without the session's
// statement_timeout. The statements in first run before the timeout is lifted. After an error
// the backend is unusable.
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

// errOutOfStep says that the backend answered, but not to the question asked.
var errOutOfStep = errors.New("the answer to a question has no rows")

// End rolls back the backend's transaction, if there is one. It tries several times, because a
// statement_timeout may be too short even for a ROLLBACK.
func (c *Conn) End() (err error) {
	for range askTries {
		if c.status == wire.TxIdle {
			return nil
		}
		if _, err = c.Exec("ROLLBACK"); err != nil && !Canceled(err) {
			return err
		}
	}
	return err
}

// Canceled reports whether an error is a server's query_canceled, by a request or a timeout.
func Canceled(err error) bool {
	e := (*pgerr.Error)(nil)
	return errors.As(err, &e) && e.Code == pgerr.QueryCanceled
}
