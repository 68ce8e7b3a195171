package proxy

import (
	"strconv"

	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// drainSQL fetches the notes of a transaction.
var drainSQL = "SELECT * FROM weft.drain(" + strconv.Itoa(maxDrain) + ", $1)"

// lookupCall is a call of one of weft's functions that demand a proof that weft calls them
// (schema.Own.Prove).
type lookupCall struct {
	sql  string
	args []string
	// proves are the texts that the proof is about. The proof is the last parameter.
	proves []string
}

// callOf returns the call of a lookup's function. args are the arguments before the proof.
func callOf(name, function string, args ...string) lookupCall {
	f := name + ":" + function
	sql := "SELECT * FROM weft." + quote.Ident(f) + "("
	for i := range len(args) + 1 {
		if i > 0 {
			sql += ", "
		}
		sql += "$" + strconv.Itoa(i+1)
	}
	return lookupCall{sql: sql + ")", args: args, proves: append([]string{f}, args...)}
}

// appendCall appends the messages of a call on a backend.
func (lk *lookups) appendCall(b []byte, c *pool.Conn, call lookupCall) ([]byte, error) {
	b, err := lk.appendProved(b, c, call)
	return wire.AppendEmpty(b, wire.Sync), err
}

// appendProved is appendCall without the Sync.
func (lk *lookups) appendProved(b []byte, c *pool.Conn, call lookupCall) ([]byte, error) {
	own, err := lk.s.srv.keeper.owns.Ensure(lk.s.srv.ctx, c.Shard(), lk.s.db.Name)
	if err != nil {
		return b, err
	}
	args := append(call.args[:len(call.args):len(call.args)], own.Prove(c.PID(), call.proves...))
	return wire.AppendCall(b, call.sql, args...), nil
}

// askProved calls a function of a lookup on a shard, and leaves nothing behind in the
// transaction there.
func (lk *lookups) askProved(l *pool.Lane, call lookupCall) ([][]string, error) {
	const point = `"\x01f"`
	return lk.s.route.askBy(l, func(c *pool.Conn) ([][]string, error) {
		c.UnnamedGone()
		inside := c.Status() == wire.TxActive
		var b []byte
		if inside {
			b = wire.AppendCall(b, "SAVEPOINT "+point)
		}
		b, err := lk.appendProved(b, c, call)
		if err != nil {
			return nil, err
		}
		if inside {
			b = wire.AppendCall(wire.AppendCall(b, "ROLLBACK TO "+point), "RELEASE "+point)
		}
		return c.Answer(wire.AppendEmpty(b, wire.Sync))
	})
}
