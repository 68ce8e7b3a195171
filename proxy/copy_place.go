package proxy

import (
	"errors"

	"weft/copydata"
	"weft/datum"
	"weft/executor"
	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// placement finds out to which shards rows go, and what weft adds to them.
type placement struct {
	x      *load
	placer *executor.Placer // nil for a reference table
	want   []int            // the fields that are part of the key
	slots  []int            // the key column of each field in want
	fields [][]byte
	values []datum.Value

	// waiting are rows that have been cut and not been sent.
	waiting []waitingRow
	supply  []*supply
	prefix  []byte // what is put before a row
	skip    int    // how many bytes of a row prefix replaces
}

// waitingRow is a row, its offset in the data, and the line in which it ends.
type waitingRow struct {
	at   int
	row  copydata.Row
	line int64
}

// newPlacement prepares the placement of a load. It asks the home shard for the values that are
// the same for all rows.
func newPlacement(x *load, home *inlet) (*placement, error) {
	p := &placement{x: x}
	c := x.plan
	if c.Unclear != "" {
		return p, nil
	}
	for i := range c.Supply {
		s, err := x.newSupply(home, &c.Supply[i])
		if err != nil {
			return nil, err
		}
		p.supply = append(p.supply, s)
	}
	if len(p.supply) > 0 && c.Format.Kind == copydata.Binary {
		p.skip = 2 // prefix has a new count of fields
	}
	if c.Table.Reference {
		return p, nil
	}
	p.placer = executor.NewPlacer(c.Table, x.s.route.snap)
	p.placer.ASCII = x.encoding() != "UTF8" || x.s.out.reported["server_encoding"] != "UTF8"
	p.values = make([]datum.Value, len(c.Keys))
	for field := range c.Columns {
		for i, k := range c.Keys {
			if k.Field == field {
				p.want, p.slots = append(p.want, field), append(p.slots, i)
			}
		}
	}
	p.fields = make([][]byte, len(p.want))
	for i, k := range c.Keys {
		v := &p.values[i]
		switch {
		case k.Field >= 0 && c.Format.Kind == copydata.Binary:
			v.Type, v.Format = c.Table.Vindex.Columns()[i].Type, datum.BinaryFormat
		case k.Field >= 0 || k.Supply >= 0:
			v.Type = datum.Unknown
		case k.Source.Kind == plan.Constant:
			v.Type, v.Bytes = k.Source.Type, []byte(k.Source.Text)
		}
	}
	return p, nil
}

// add takes a row that was cut from the data at the offset at.
func (p *placement) add(at int, r copydata.Row) {
	p.waiting = append(p.waiting, waitingRow{at, r, p.x.cut.Line})
}

// send sends the waiting rows to their shards.
func (p *placement) send(data []byte) error {
	if len(p.waiting) == 0 {
		return nil
	}
	for _, s := range p.supply {
		if err := s.draw(p.x.s, len(p.waiting)); err != nil {
			return err
		}
	}
	cut := p.x.cut
	line := cut.Line
	for _, w := range p.waiting {
		cut.Row, cut.Line = w.row, w.line
		if err := p.one(data[w.at : w.at+w.row.Size]); err != nil {
			return err
		}
	}
	cut.Line = line
	p.waiting = p.waiting[:0]
	return nil
}

// one sends a row to its shard, or to all shards if the table is a reference table.
func (p *placement) one(row []byte) error {
	x := p.x
	if p.skip > 0 {
		if n := copydata.Count(row); n != len(x.plan.Columns) {
			return x.at(pgerr.New(pgerr.BadCopyFileFormat, "row field count is %d, expected %d", n, len(x.plan.Columns)))
		}
	}
	for i, s := range p.supply {
		s.next()
		for k := range p.values {
			if x.plan.Keys[k].Supply == i {
				p.values[k].Bytes = s.text
			}
		}
	}
	if p.placer == nil {
		x.placed()
		if err := p.prepend(0); err != nil {
			return err
		}
		for shard := range x.inlets {
			if err := p.put(shard, row); err != nil {
				return err
			}
		}
		return nil
	}
	shard, bucket, err := p.shard(row)
	x.placed()
	if err == nil && p.supply != nil {
		err = p.prepend(bucket)
	}
	if err != nil {
		return err
	}
	return p.put(shard, row)
}

// put adds a row to the COPY of a shard.
func (p *placement) put(shard int, row []byte) error {
	in, err := p.x.inlet(shard)
	if err != nil {
		return err
	}
	return in.add(p.prefix, row[p.skip:], p.x.cut.Row)
}

// shard finds the shard of a row. A row that no shard will accept goes to the home shard, which
// refuses it.
func (p *placement) shard(row []byte) (shard, bucket int, err error) {
	x := p.x
	if !x.cut.Fields(row, p.want, p.fields) {
		return x.home, 0, nil
	}
	for i, slot := range p.slots {
		p.values[slot].Bytes = p.fields[i]
	}
	for {
		shard, bucket, missing, err := p.placer.Place(p.values)
		switch {
		case errors.Is(err, executor.ErrInvalid):
			return x.home, 0, nil
		case err != nil:
			if e := (*pgerr.Error)(nil); errors.As(err, &e) {
				return 0, 0, x.at(e)
			}
			return 0, 0, err
		case len(missing) == 0:
			return shard, bucket, nil
		}
		if err := x.s.route.enterMissing(missing); err != nil {
			return 0, 0, err
		}
		if x.s.route.isOvertaken() {
			return 0, 0, declaredAnew()
		}
		x.s.route.refresh()
		p.placer.Use(x.s.route.snap)
	}
}

// declaredAnew is the error for declarations that have changed while a statement was on its way.
func declaredAnew() *pgerr.Error {
	return pgerr.New(pgerr.SerializationFailure, "a table was declared, or its declaration taken back, while the statement was on its way").
		WithHint("Run the transaction again.")
}

// prepend writes into prefix what comes before a row of a bucket.
func (p *placement) prepend(bucket int) error {
	f := &p.x.plan.Format
	dst := p.prefix[:0]
	if p.skip > 0 {
		n := len(p.supply) + len(p.x.plan.Columns)
		dst = append(dst, byte(n>>8), byte(n))
	}
	var err error
	for _, s := range p.supply {
		if dst, err = s.append(dst, f, bucket); err != nil {
			return p.x.at(pgerr.From(err))
		}
		if f.Kind != copydata.Binary {
			dst = append(dst, f.Delimiter)
		}
	}
	p.prefix = dst
	return nil
}

// inlet returns the COPY of a shard and notes that the shard gets rows.
func (x *load) inlet(shard int) (*inlet, error) {
	in := x.inlets[shard]
	if in != nil && in.writes {
		return in, nil
	}
	if in == nil {
		if x.s.route.isOvertaken() {
			return nil, declaredAnew()
		}
		var err error
		if in, err = x.join(shard); err != nil {
			return nil, err
		}
		in.leg.out = wire.AppendQuery(in.leg.out, x.sql)
		in.start()
	}
	in.writes = true
	return in, x.s.tx.noteWriter(in.conn)
}
