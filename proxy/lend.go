package proxy

import (
	"strconv"
	"strings"
	"sync/atomic"

	"weft/pgerr"
	"weft/quote"
	"weft/wire"
)

// Rows of other shards are lent to tables of the home shard while a command runs there that
// must read its tables itself: CREATE and REFRESH MATERIALIZED VIEW. Each table gets a
// temporary child table that inherits from it and holds these rows. The child table is dropped
// after the command, in the same transaction: no other session sees it.

// lendings makes the names of the temporary tables unique.
var lendings atomic.Uint64

// answerLent answers a simple query that reads lent rows.
func (p *pipe) answerLent(x *gathering) error {
	if err := p.appendLent(x, nil, appendExecute(nil)); err != nil {
		return p.s.lost.refuseRead(err)
	}
	p.unsent.B = wire.AppendEmpty(p.unsent.B, wire.Sync)
	p.ops.push(op{kind: opSync, quiet: p.s.out.isQuiet()})
	return p.exchange()
}

// executeLent executes a portal that reads lent rows. body is that of the Execute.
func (p *pipe) executeLent(x *gathering, name, body []byte) error {
	if err := p.appendLent(x, name, wire.AppendFrame(nil, wire.Execute, body)); err != nil {
		return p.s.lost.refuseBoundRead(err)
	}
	p.awaitSync()
	p.s.portals.handOver(x, name)
	p.s.reach.interrupt.handed = true
	return nil
}

// appendLent appends all messages that the home shard is sent. Outside of a block they are one
// transaction up to the Sync.
func (p *pipe) appendLent(x *gathering, portal, execute []byte) error {
	// The home shard's own rows are read now, those of other shards have been read before: rows
	// must not have moved in between.
	if p.s.route.isOvertaken() {
		return pgerr.New(pgerr.SerializationFailure, "a table was declared, or its declaration taken back, while the statement was on its way").
			WithHint("Run the transaction again.")
	}
	// Everything that may fail here comes first: appended messages are sent.
	values, err := x.intake.inputs.AppendBind(nil, nil)
	if err != nil {
		return err
	}
	number := strconv.FormatUint(lendings.Add(1), 10)
	var makes, names, fills []string
	for i, lent := range x.g.Lend {
		name := "pg_temp.weft_lent_" + number + "_" + strconv.Itoa(i)
		columns := make([]string, len(lent.Columns))
		for j, c := range lent.Columns {
			columns[j] = quote.Ident(c)
		}
		names = append(names, name)
		makes = append(makes, "CREATE TEMP TABLE "+name+" () INHERITS ("+quote.Ident(lent.Table.Schema)+"."+quote.Ident(lent.Table.Table)+")")
		fills = append(fills, "f"+strconv.Itoa(i)+" AS (INSERT INTO "+name+" ("+strings.Join(columns, ", ")+") SELECT * FROM "+string(x.intake.inputs.AppendInput(nil, i))+" q)")
	}
	for _, sql := range makes {
		p.sendAside(sql)
	}
	oids := appendOIDs(nil, x.intake.inputs.AppendTypes(nil))
	p.alsoBound("WITH "+strings.Join(fills, ", ")+" SELECT", oids, append(values, 0, 0))
	x.intake.inputs = nil

	p.unsent.B = wire.AppendParse(p.unsent.B, "", string(x.req.text), []byte{0, 0})
	p.ops.push(op{kind: opParse, injected: true})
	var at int
	p.unsent.B, at = wire.Begin(p.unsent.B, wire.Bind)
	p.unsent.B = append(append(p.unsent.B, portal...), 0, 0, 0, 0, 0, 0, 0, 0)
	p.unsent.B = append(wire.End(p.unsent.B, at), execute...)
	p.ops.push(op{kind: opBind, injected: true})
	p.ops.push(op{kind: opExecute, run: p.s.account.deferRun()})

	p.sendAside("DROP TABLE " + strings.Join(names, ", "))
	return nil
}

// sendAside runs one of weft's commands among the client's messages. The client sees nothing of
// the command but its error.
func (p *pipe) sendAside(sql string) {
	p.alsoBound(sql, []byte{0, 0}, []byte{0, 0, 0, 0, 0, 0})
}

// alsoBound is sendAside with parameters: tail is the part of a Bind behind the names.
func (p *pipe) alsoBound(sql string, oids, tail []byte) {
	p.unsent.B = wire.AppendParse(p.unsent.B, "", sql, oids)
	var at int
	p.unsent.B, at = wire.Begin(p.unsent.B, wire.Bind)
	p.unsent.B = append(append(p.unsent.B, 0, 0), tail...)
	p.unsent.B = appendExecute(wire.End(p.unsent.B, at))
	for _, k := range []opKind{opParse, opBind, opExecute} {
		p.ops.push(op{kind: k, injected: true, foreign: true})
	}
}
