package routine

import (
	"context"
	"encoding/binary"
	"strconv"
	"strings"

	"weft/pgerr"
	"weft/program"
	"weft/wire"
)

// Session is what a run needs of the session of the client.
type Session interface {
	// Converse handles messages as if the client had sent them, up to the ReadyForQuery of the last one, and shows each answer to
	// hear. A body is valid until hear returns. An error ends the session.
	Converse(messages []byte, hear func(typ byte, body []byte)) error
	// Probe analyses a text on the home shard, whatever weft would do with it. The transaction is as it was before.
	Probe(sql string, types []uint32) ([]program.Column, error)
	// Tell tells the client something at once.
	Tell(n *pgerr.Error)
	// Stopped returns, once, why the statement of the client must end, or nil. met: a shard has ended a statement for such a reason
	// itself, so that statement_timeout has gone off.
	Stopped(met bool) error
	// Mark returns how many commands a shard must repeat that joins the transaction. Forget says that the commands since then have come
	// to nothing: they have been rolled back, or were a savepoint and its release.
	Mark() int
	Forget(mark int)
}

// Dialogue runs the statements of a program in a session.
type Dialogue struct {
	session  Session
	room     *Room
	points   []point
	level    string // client_min_messages
	readOnly bool   // the program is a function that is not volatile
	rows     rows
}

// ended is an error that ends the session of the client.
type ended struct{ err error }

func (e *ended) Error() string { return e.err.Error() }

func (e *ended) Unwrap() error { return e.err }

// converse sends messages and a Sync, and returns the error that an answer reports.
func (d *Dialogue) converse(messages []byte, hear func(typ byte, body []byte)) error {
	if err := d.session.Stopped(false); err != nil {
		return err
	}
	var failed error
	err := d.session.Converse(wire.AppendEmpty(messages, wire.Sync), func(typ byte, body []byte) {
		switch {
		case typ == wire.ErrorResponse && failed == nil:
			failed = failure(body)
		case failed == nil:
			hear(typ, body)
		}
	})
	if err != nil {
		return &ended{err}
	}
	if e, ok := failed.(*pgerr.Error); ok && e.Code == pgerr.QueryCanceled {
		if err := d.session.Stopped(true); err != nil {
			return err
		}
	}
	return failed
}

// description is what a server says of a statement.
type description struct {
	params  []uint32
	columns []program.Column // nil if there are no rows
	frame   []byte           // the body of the RowDescription
}

// Prepare implements program.Executor.
func (d *Dialogue) Prepare(_ context.Context, sql string, types []uint32) (*program.Prepared, error) {
	if d.readOnly {
		if err := mayRead(sql); err != nil {
			return nil, err
		}
	}
	key := sql + "\x00" + oidText(types)
	if p := d.room.made[key]; p != nil {
		return p, nil
	}
	p := &program.Prepared{SQL: sql, Types: types, Handle: d.room.name("s")}
	described, err := d.describe(p)
	if err != nil {
		return nil, err
	}
	p.Columns = described.columns
	if !strings.HasPrefix(sql, "FETCH") {
		d.room.made[key] = p
	}
	return p, nil
}

// describe parses a statement and lets a server describe it.
func (d *Dialogue) describe(p *program.Prepared) (out description, err error) {
	name := p.Handle.(string)
	b := wire.AppendDescribe(appendParse(nil, name, p.SQL, p.Types), 'S', name)
	err = d.converse(b, func(typ byte, body []byte) {
		switch typ {
		case wire.ParseComplete:
			d.room.opened[name] = true
		case wire.ParameterDescription:
			out.params = typesOf(body)
		case wire.RowDescription:
			out.columns, out.frame = Columns(body), append([]byte(nil), body...)
		}
	})
	return out, err
}

// Execute implements program.Executor.
func (d *Dialogue) Execute(ctx context.Context, p *program.Prepared, args []program.Value, limit int, row func([]program.Value) error) (tag string, err error) {
	if d.readOnly {
		if err := mayRead(p.SQL); err != nil {
			return "", err
		}
	}
	if err := d.guard(p.SQL); err != nil {
		return "", err
	}
	var denied error
	tag, err = d.execute(p, appendValues(nil, args), limit, func(body []byte) {
		if row != nil && denied == nil {
			denied = row(valuesOf(body))
		}
	})
	if err == nil {
		err = denied
	}
	return tag, err
}

// execute binds values and executes. values are the part of a Bind behind the names.
func (d *Dialogue) execute(p *program.Prepared, values []byte, limit int, row func(body []byte)) (tag string, err error) {
	name, portal := p.Handle.(string), d.room.name("p")
	var b []byte
	if !d.room.opened[name] {
		b = appendParse(b, name, p.SQL, p.Types)
	}
	b, at := wire.Begin(b, wire.Bind)
	b = wire.AppendCString(wire.AppendCString(b, portal), name)
	b = wire.End(append(b, values...), at)
	b, at = wire.Begin(b, wire.Execute)
	b = wire.End(binary.BigEndian.AppendUint32(wire.AppendCString(b, portal), uint32(limit)), at)
	b = wire.AppendClose(b, 'P', portal)
	err = d.converse(b, func(typ byte, body []byte) {
		switch typ {
		case wire.ParseComplete:
			d.room.opened[name] = true // also if Bind fails, as it does where a value does not fit
		case wire.DataRow:
			if row != nil {
				row(body)
			}
		case wire.CommandComplete:
			text, _, _ := wire.CString(body)
			tag = string(text)
		}
	})
	if err == nil && firstWord(p.SQL) == "DEALLOCATE" {
		clear(d.room.opened)
	}
	if err == nil && (changesNames(p.SQL) || d.room.changed && tag == "ROLLBACK") {
		d.room.forget()
		d.room.changed = true
	}
	return tag, err
}

// run runs a statement that has neither parameters nor rows.
func (d *Dialogue) run(sql string) error {
	name := d.room.name("c")
	_, err := d.execute(&program.Prepared{SQL: sql, Handle: name}, appendValues(nil, nil), 0, nil)
	return err
}

// Probe implements program.Executor.
func (d *Dialogue) Probe(_ context.Context, sql string, types []uint32) ([]program.Column, error) {
	if err := d.session.Stopped(false); err != nil {
		return nil, err
	}
	return d.session.Probe(sql, types)
}

// Notice implements program.Output.
func (d *Dialogue) Notice(n *pgerr.Error) {
	if n.Severity == "INFO" || rank[strings.ToLower(string(n.Severity))] >= rank[d.level] {
		d.session.Tell(n)
	}
}

// rank orders the values of client_min_messages, and the severities of RAISE.
var rank = map[string]int{"debug5": -5, "debug4": -4, "debug3": -3, "debug2": -2, "debug1": -1, "debug": -1, "log": 1, "notice": 2, "warning": 3, "error": 4}

// Row implements program.Output.
func (d *Dialogue) Row(row []program.Value) error { return d.rows.add(row) }

// close forgets the prepared statements in the session, once no run is left that may have them.
func (d *Dialogue) close() error {
	opened := d.room.opened
	if d.room.depth > 0 || len(opened) == 0 {
		return nil
	}
	var b []byte
	for name := range opened {
		b = wire.AppendClose(b, 'S', name)
	}
	clear(opened)
	return d.session.Converse(wire.AppendEmpty(b, wire.Sync), func(byte, []byte) {})
}

// mayRead refuses a statement that PostgreSQL does not run in a function that is not volatile.
func mayRead(sql string) error {
	word := firstWord(sql)
	switch word {
	case "SELECT", "WITH", "VALUES", "TABLE", "FETCH", "MOVE", "CLOSE", "DECLARE", "SHOW", "EXPLAIN":
		return nil
	}
	e := pgerr.New(pgerr.FeatureNotSupported, "%s is not allowed in a non-volatile function", word)
	e.File, e.Routine = "spi.c", "_SPI_execute_plan"
	return e
}

func appendParse(b []byte, name, sql string, types []uint32) []byte {
	oids := binary.BigEndian.AppendUint16(nil, uint16(len(types)))
	for _, t := range types {
		oids = binary.BigEndian.AppendUint32(oids, t)
	}
	return wire.AppendParse(b, name, sql, oids)
}

// appendValues appends the part of a Bind behind the names: values as texts, and rows that are wanted as texts.
func appendValues(b []byte, args []program.Value) []byte {
	b = binary.BigEndian.AppendUint16(append(b, 0, 0), uint16(len(args)))
	for _, v := range args {
		if !v.Valid {
			b = append(b, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(v.Text))), v.Text...)
	}
	return append(b, 0, 0)
}

func oidText(types []uint32) string {
	var b strings.Builder
	for _, t := range types {
		b.WriteString(strconv.FormatUint(uint64(t), 10) + ",")
	}
	return b.String()
}
