package proxy

import (
	"strconv"
	"strings"
	"sync/atomic"

	"weft/pgerr"
	"weft/pool"
	"weft/wire"
)

// Rows of other shards are lent to tables of the home shard while a command runs
// there that must read its tables itself: CREATE and REFRESH MATERIALIZED VIEW.
// Each table gets a temporary one that inherits from it, which has these rows and
// goes when the command is through, in the same transaction: nobody else sees it.

// lendings makes the names of the temporary tables unique.
var lendings atomic.Uint64

// answerLent answers a simple query.
func (s *Session) answerLent(x *gathering) error {
	if err := s.appendLent(x, nil, appendExecute(nil)); err != nil {
		return s.refuseRead(err)
	}
	s.toServer.B = wire.AppendEmpty(s.toServer.B, wire.Sync)
	s.ops.push(op{kind: opSync, quiet: s.quiet})
	return s.exchange()
}

// executeLent executes a portal. body is the Execute's.
func (s *Session) executeLent(x *gathering, name, body []byte) error {
	if err := s.appendLent(x, name, wire.AppendFrame(nil, wire.Execute, body)); err != nil {
		return s.refuseBoundRead(err)
	}
	s.unsynced = true
	s.handOver(x, name)
	s.interrupt.handed = true
	return nil
}

// appendLent appends all that the home shard is sent: a transaction, if it is in
// none.
func (s *Session) appendLent(x *gathering, portal, execute []byte) error {
	// The home shard's own rows are read now, those of others have been: rows
	// must not have moved between.
	if s.overtaken() {
		return pgerr.New(pgerr.SerializationFailure, "a table was declared, or its declaration taken back, while the statement was on its way").
			WithHint("Run the transaction again.")
	}
	// Everything first that may fail here: what is appended is sent.
	values, err := x.in.AppendBind(nil, nil)
	if err != nil {
		return err
	}
	number := strconv.FormatUint(lendings.Add(1), 10)
	var makes, names, fills []string
	for i, lent := range x.g.Lend {
		name := "pg_temp.weft_lent_" + number + "_" + strconv.Itoa(i)
		columns := make([]string, len(lent.Columns))
		for j, c := range lent.Columns {
			columns[j] = pool.QuoteIdent(c)
		}
		names = append(names, name)
		makes = append(makes, "CREATE TEMP TABLE "+name+" () INHERITS ("+pool.QuoteIdent(lent.Table.Schema)+"."+pool.QuoteIdent(lent.Table.Table)+")")
		fills = append(fills, "f"+strconv.Itoa(i)+" AS (INSERT INTO "+name+" ("+strings.Join(columns, ", ")+") SELECT * FROM "+string(x.in.AppendInput(nil, i))+" q)")
	}
	for _, sql := range makes {
		s.also(sql)
	}
	oids := appendOIDs(nil, x.in.AppendTypes(nil))
	s.alsoBound("WITH "+strings.Join(fills, ", ")+" SELECT", oids, append(values, 0, 0))
	x.in = nil

	s.toServer.B = wire.AppendParse(s.toServer.B, "", string(x.text), []byte{0, 0})
	s.ops.push(op{kind: opParse, injected: true})
	var at int
	s.toServer.B, at = wire.Begin(s.toServer.B, wire.Bind)
	s.toServer.B = append(append(s.toServer.B, portal...), 0, 0, 0, 0, 0, 0, 0, 0)
	s.toServer.B = append(wire.End(s.toServer.B, at), execute...)
	s.ops.push(op{kind: opBind, injected: true})
	s.ops.push(op{kind: opExecute, run: s.deferRun()})

	s.also("DROP TABLE " + strings.Join(names, ", "))
	return nil
}

// also runs a command of weft's own among the client's messages. The client
// sees no more of it than its error.
func (s *Session) also(sql string) {
	s.alsoBound(sql, []byte{0, 0}, []byte{0, 0, 0, 0, 0, 0})
}

// alsoBound does so with parameters: tail is what a Bind has behind the names.
func (s *Session) alsoBound(sql string, oids, tail []byte) {
	s.toServer.B = wire.AppendParse(s.toServer.B, "", sql, oids)
	var at int
	s.toServer.B, at = wire.Begin(s.toServer.B, wire.Bind)
	s.toServer.B = append(append(s.toServer.B, 0, 0), tail...)
	s.toServer.B = appendExecute(wire.End(s.toServer.B, at))
	for _, k := range []opKind{opParse, opBind, opExecute} {
		s.ops.push(op{kind: k, injected: true, foreign: true})
	}
}
