package proxy

import (
	"encoding/binary"
	"regexp"
	"strconv"
	"strings"

	"weft/parser"
	"weft/pgerr"
	"weft/pool"
	"weft/quote"
	"weft/wire"
)

// The arguments of an EXECUTE of a scattered statement may be any expressions. The home shard evaluates them, once, in the
// transaction of the statement: another statement is prepared that has the same parameters and yields them, and is executed
// with the client's arguments. So PostgreSQL itself finds their types, converts them, and judges them.

// ask runs an EXECUTE whose arguments have to be evaluated first, in the client's block or in one of its own.
func (x *execution) ask() error {
	ps := x.ps
	if !ps.s.tx.isOpen() && ps.s.held.conn != nil { // see bindBegin
		if err := ps.s.held.park(); err != nil {
			return ps.s.lost.refuseRead(err)
		}
	}
	return ps.s.tx.inOwnBlock(func() error {
		args, failed, err := x.evaluate()
		if err != nil {
			return err
		}
		var sql string
		if failed == nil {
			sql, failed = x.replacement(args)
		}
		if failed != nil {
			return ps.s.lost.refuseRead(failed)
		}
		return ps.s.tx.runPart([]byte(sql))
	})
}

// evaluate returns the values of the arguments as constants. failed is for the client, err ends the session.
func (x *execution) evaluate() (args []parser.Argument, failed, err error) {
	ps := x.ps
	name := "weft_execute"
	for ps.named[name] != nil {
		name += "_"
	}
	defer func() {
		if st := ps.named[name]; st != nil {
			ps.forgetStatement(st)
		}
	}()
	cut := parser.Edits{{Start: 0, End: len(x.before)}, {Start: x.name, End: x.end, New: quote.Ident(name)}}
	if at := dataOption.FindStringIndex(x.text); at != nil && x.read.MakesTable {
		cut = append(cut, parser.Edit{Start: at[0] + 1, End: at[1]}) // behind the parenthesis
	}
	execute := cut.Apply(x.text)
	if e, ok := parser.ReadExecute(execute, ps.s.record.scanOptions()); !ok || e.MakesTable {
		return nil, notExecutable(x.st), nil
	}
	pr := &ps.s.util.programs
	failed, err = pr.apart(func() (failed, err error) {
		var rows [][]*string
		if _, failed, err = pr.question(echo(name, x.types)); failed == nil && err == nil {
			rows, failed, err = pr.question(execute)
		}
		if e, ok := failed.(*pgerr.Error); ok && e.Position > 0 {
			told := *e
			told.Position = cut.ClientPosition(x.text, e.Position)
			failed = &told
		}
		if failed == nil && err == nil {
			args, failed = constants(rows, len(x.types))
		}
		return failed, err
	})
	return args, failed, err
}

// dataOption is the end of CREATE TABLE AS EXECUTE, with the parenthesis of the arguments.
var dataOption = regexp.MustCompile(`(?i)\)\s*with\s+(?:no\s+)?data[\s;]*$`)

// echo returns a text that prepares a statement whose result are its parameters. Before them comes whether settings are such
// that the parameters can be read again as they are written.
func echo(name string, types []string) string {
	var b strings.Builder
	b.WriteString("PREPARE " + quote.Ident(name) + " (" + strings.Join(types, ", ") + ") AS SELECT " +
		"pg_catalog.current_setting('datestyle') OPERATOR(pg_catalog.~) '^ISO' AND pg_catalog.current_setting('intervalstyle') OPERATOR(pg_catalog.<>) 'sql_standard' " +
		"AND pg_catalog.current_setting('extra_float_digits')::pg_catalog.int4 OPERATOR(pg_catalog.>) 0")
	for i := range types {
		b.WriteString(", $" + strconv.Itoa(i+1))
	}
	return b.String()
}

// constants returns the row that echo yields as arguments.
func constants(rows [][]*string, count int) ([]parser.Argument, error) {
	if len(rows) != 1 || len(rows[0]) != count+1 {
		return nil, pgerr.New(pgerr.InternalError, "the arguments of an EXECUTE have come in %d rows", len(rows))
	}
	if exact := rows[0][0]; exact == nil || *exact != "t" {
		return nil, pgerr.New(pgerr.FeatureNotSupported, "EXECUTE over sharded tables takes expressions as arguments only under settings in which values can be written exactly").
			WithHint("SET datestyle = 'ISO'; SET intervalstyle = 'postgres'; SET extra_float_digits = 1; or send constants.")
	}
	args := make([]parser.Argument, count)
	for i, v := range rows[0][1:] {
		if args[i].Text = "NULL"; v != nil {
			args[i].Text = quote.Literal(*v)
		}
	}
	return args, nil
}

// question sends a simple query as a client would, and returns its rows. failed is what PostgreSQL or weft says against it.
func (pr *programs) question(sql string) (rows [][]*string, failed, err error) {
	if failed := pr.Stopped(false); failed != nil {
		return nil, failed, nil
	}
	err = pr.Converse(wire.AppendQuery(nil, sql), func(typ byte, body []byte) {
		switch {
		case typ == wire.ErrorResponse && failed == nil:
			failed = pool.ServerError(body)
		case typ == wire.DataRow && failed == nil:
			rows = append(rows, texts(body))
		}
	})
	return rows, failed, err
}

// texts returns the values of a DataRow in text format.
func texts(body []byte) []*string {
	out := make([]*string, binary.BigEndian.Uint16(body))
	rest := body[2:]
	for i := range out {
		n := int32(binary.BigEndian.Uint32(rest))
		if rest = rest[4:]; n >= 0 {
			v := string(rest[:n])
			out[i], rest = &v, rest[n:]
		}
	}
	return out
}
