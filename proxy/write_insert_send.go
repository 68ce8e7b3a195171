package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"

	"weft/executor"
	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// How the rows of an INSERT get to their shards.

// open gets the backends ready and fills in the messages for each. With trial the INSERT
// can be undone.
func (in *inserting) open(trial bool) (err error) {
	s, x := in.s, in.x
	if s.held.conn != nil {
		if err := s.held.park(); err != nil {
			return err
		}
	}
	x.legs = nil
	defer func() {
		if err != nil {
			_ = s.legs.endLegs(x.legs, true)
			x.legs = nil
		}
	}()
	var shards []int
	for shard, rows := range in.parts {
		if len(rows) > 0 {
			shards = append(shards, shard)
		}
	}
	if err := s.held.reserve(shards, false); err != nil {
		return err
	}
	defer s.held.unreserve()
	for _, shard := range shards {
		rows := in.parts[shard]
		l, err := s.legs.addLeg(x, shard)
		if err != nil {
			return err
		}
		if err := s.tx.noteWriter(l.conn); err != nil {
			return err
		}
		if trial {
			l.out = appendCommand(l.out, "SAVEPOINT "+trialName)
		}
		if l.out, err = in.appendRows(l.out, l, rows); err != nil {
			return err
		}
		l.out = wire.AppendEmpty(l.out, wire.Sync)
	}
	// Of several errors the client is told that of the first row.
	slices.SortStableFunc(x.legs, func(a, b *leg) int { return in.parts[a.shard][0] - in.parts[b.shard][0] })
	if err := s.reach.interrupted(); err != nil {
		return err
	}
	return s.route.stillTrue()
}

// appendCommand appends the messages of a command without parameters or rows.
func appendCommand(dst []byte, sql string) []byte {
	dst = wire.AppendParse(dst, "", sql, []byte{0, 0})
	dst, at := wire.Begin(dst, wire.Bind)
	dst = wire.End(append(dst, 0, 0, 0, 0, 0, 0, 0, 0), at)
	return appendExecute(dst)
}

// appendRows appends the INSERT of some rows, up to its Execute.
func (in *inserting) appendRows(dst []byte, l *leg, rows []int) ([]byte, error) {
	var args []argument
	numbers := map[int]int{}
	number := func(dst []byte, key int, a argument) []byte {
		n, ok := numbers[key]
		if !ok {
			args = append(args, a)
			n = len(args)
			numbers[key] = n
		}
		return strconv.AppendInt(append(dst, '$'), int64(n), 10)
	}
	fill := in.x.fill()
	fill.Own = func(dst []byte, kind plan.PartKind, i int) []byte {
		switch kind {
		case plan.Given:
			if i >= len(in.given) {
				return dst // the server has refused the parameter
			}
			return number(dst, i, in.given[i])
		case plan.Supplied:
			return append(dst, executor.Literal(in.x.progress.supplied[i], in.x.plan.Generate.Values[i].Type)...)
		}
		if a := in.cells[i]; a != nil {
			return number(dst, -1-i, *a)
		}
		return in.rows.Cells[i].Text.Append(dst, fill)
	}
	sql := in.rows.Head.Append(nil, fill)
	for n, i := range rows {
		sql = append(appendComma(sql, n), ' ')
		sql = in.rows.Rows[i].Text.Append(sql, fill)
	}
	sql = in.rows.Tail.Append(append(sql, ' '), fill)
	if len(args) > maxParams {
		return dst, pgerr.New(pgerr.ProgramLimitExceeded, "the statement would have %d parameters with those weft adds, and %d are possible", len(args), maxParams).
			WithHint("Insert fewer rows at a time.")
	}
	types, values := bindArguments(args)
	oids, err := l.translate.ParseOIDs(types)
	if err != nil {
		return dst, untranslatable(err)
	}
	if values, err = l.translate.Bind(values, types); err != nil {
		return dst, untranslatable(err)
	}
	dst = wire.AppendParse(dst, "", string(sql), oids)
	dst, at := wire.Begin(dst, wire.Bind)
	dst = append(append(append(dst, 0, 0), values...), in.x.req.formats...)
	dst = wire.End(dst, at)
	if l.translate != nil && in.x.write.Returns {
		dst = wire.AppendDescribe(dst, 'P', "")
	}
	return appendExecute(dst), nil
}

// maxParams is how many parameters a statement may have.
const maxParams = 65535

// bindArguments returns the types of arguments as a Parse has them, and formats
// and values as a Bind has them.
func bindArguments(args []argument) (types, values []byte) {
	types = binary.BigEndian.AppendUint16(nil, uint16(len(args)))
	size := 4 + 2*len(args)
	for i := range args {
		types = binary.BigEndian.AppendUint32(types, args[i].typ)
		size += 4 + len(args[i].value)
	}
	values = make([]byte, 0, size)
	values = binary.BigEndian.AppendUint16(values, uint16(len(args)))
	for i := range args {
		values = binary.BigEndian.AppendUint16(values, uint16(args[i].format))
	}
	values = binary.BigEndian.AppendUint16(values, uint16(len(args)))
	for i := range args {
		if args[i].value == nil {
			values = append(values, 0xff, 0xff, 0xff, 0xff)
			continue
		}
		values = binary.BigEndian.AppendUint32(values, uint32(len(args[i].value)))
		values = append(values, args[i].value...)
	}
	return types, values
}

// ordered yields the rows that shards return in the order in which the rows were given:
// each shard returns its own rows in that order.
type ordered struct {
	legs   []*leg
	places []int
	at     int
}

// Next implements stream.Rows.
func (o *ordered) Next() ([]byte, error) {
	if o.at == len(o.places) {
		return nil, io.EOF
	}
	row, err := o.legs[o.places[o.at]].Next()
	if errors.Is(err, io.EOF) {
		return nil, pgerr.New(pgerr.InternalError, "a shard has returned fewer rows than it was given")
	}
	o.at++
	return row, err
}
