package proxy

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"strconv"

	"weft/copydata"
	"weft/executor"
	"weft/pgerr"
	"weft/plan"
)

// supply makes the values of a column that the client's rows do not have, and for which each
// shard would compute another value.
type supply struct {
	*plan.Supply
	drawn []int64 // values of the sequence that are not used yet
	field []byte  // the value for all rows, as COPY data
	n     int64   // the current value
	id    [16]byte
	text  []byte // the current value as text; nil is NULL
}

// newSupply prepares a supply. An expression is evaluated by the home shard.
func (x *load) newSupply(home *inlet, s *plan.Supply) (*supply, error) {
	out := &supply{Supply: s, text: make([]byte, 0, 36)}
	if s.Expr == "" {
		return out, nil
	}
	if err := x.alone(home, ""); err != nil {
		return nil, err
	}
	query := "COPY (SELECT CAST(" + s.Expr + " AS " + s.Type + ")) TO STDOUT"
	data, err := x.ask(home, query)
	if err != nil {
		return nil, err
	}
	c := copydata.New(copydata.Default(copydata.Text))
	if _, err := c.Next(data, true); err != nil {
		return nil, err
	}
	fields, err := c.All(data)
	if err != nil {
		return nil, err
	}
	out.text = fields[0]
	switch f := &x.plan.Format; {
	case f.Kind == copydata.Binary:
		if data, err = x.ask(home, query+" (FORMAT binary)"); err != nil {
			return nil, err
		}
		head := len(copydata.AppendHead(nil))
		tail := len(copydata.AppendTail(nil))
		out.field = data[head+2 : len(data)-tail]
	case out.text == nil:
		out.field = []byte(f.Null)
	default:
		out.field = f.AppendField([]byte{}, out.text)
	}
	return out, nil
}

// ask runs a COPY TO on a shard whose COPY FROM is not open yet.
func (x *load) ask(in *inlet, sql string) ([]byte, error) {
	var b bytes.Buffer
	var err error
	x.s.every.beside(in.conn, func() { err = in.conn.CopyOut(sql, &b) })
	if err != nil {
		in.over, in.err = true, err
		return nil, x.s.legs.endLegs([]*leg{in.leg}, false)
	}
	return b.Bytes(), nil
}

// draw makes sure that values of the sequence are there for n rows, and not for more: the values
// that follow are for the next statement.
func (s *supply) draw(session *Session, n int) error {
	if s.Sequence == "" || len(s.drawn) >= n {
		return nil
	}
	more, err := session.drawn.drawAhead(s.Sequence, s.Identity, n-len(s.drawn))
	if err != nil && session.record.done.schema && pgerr.From(err).Code == pgerr.UndefinedTable {
		// The transaction may have created the sequence, which other sessions cannot see yet.
		return undrawable(s.Column)
	}
	if err != nil {
		return err
	}
	s.drawn = append(s.drawn, more...)
	return nil
}

// next makes the value for the next row.
func (s *supply) next() {
	switch {
	case s.Expr != "":
	case s.Sequence != "":
		s.n, s.drawn = s.drawn[0], s.drawn[1:]
		s.text = strconv.AppendInt(s.text[:0], s.n, 10)
	default: // a version 4 UUID, as gen_random_uuid makes
		_, _ = rand.Read(s.id[:]) // never fails: crypto/rand ends the process instead
		s.id[6], s.id[8] = s.id[6]&0x0f|0x40, s.id[8]&0x3f|0x80
		s.text = s.text[:0]
		for i, part := range [...][]byte{s.id[:4], s.id[4:6], s.id[6:8], s.id[8:10], s.id[10:]} {
			if i > 0 {
				s.text = append(s.text, '-')
			}
			s.text = hex.AppendEncode(s.text, part)
		}
	}
}

// append appends the value as a field of a row in a bucket.
func (s *supply) append(dst []byte, f *copydata.Format, bucket int) ([]byte, error) {
	if s.Expr != "" {
		return append(dst, s.field...), nil
	}
	if s.Routed != nil {
		id, err := executor.RoutedID(s.Routed, s.n, bucket)
		if err != nil {
			return dst, err
		}
		s.n, s.text = id, strconv.AppendInt(s.text[:0], id, 10)
	}
	switch {
	case f.Kind != copydata.Binary:
		return f.AppendField(dst, s.text), nil
	case s.Sequence == "":
		return f.AppendField(dst, s.id[:]), nil
	}
	var raw [8]byte
	binary.BigEndian.PutUint64(raw[:], uint64(s.n))
	return f.AppendField(dst, raw[8-s.Size:]), nil
}
