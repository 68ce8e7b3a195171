package proxy

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"strconv"

	"weft/datum"
	"weft/directory"
	"weft/executor"
	"weft/finish"
	"weft/pgerr"
	"weft/plan"
	"weft/stream"
	"weft/wire"
)

// splitting is one execution of an INSERT … SELECT whose rows are read first and then sent
// where they belong, see plan.Split.
type splitting struct {
	x     *gathering
	s     *Session
	r     *router
	split *plan.Split

	kept     *spool
	columns  []plan.Column // columns of the rows, with those that weft adds
	instance plan.Instance
	casts    []int // key columns whose values PostgreSQL has to convert first

	batch  [][]byte // rows of the next statements
	bytes  int
	most   int // the most rows of a batch
	places []int
	inputs []*finish.Inputs // by shard
	begun  bool             // rows have been written
}

const (
	// splitBytes is how many bytes of rows are on their way at once, splitRows how many
	// rows.
	splitBytes = 4 << 20
	splitRows  = 50_000
	// wholeBytes is how many bytes of rows there may be if all must go in one statement.
	wholeBytes = 256 << 20
)

// insertQuery reads the rows of the query and sends them to their shards.
func (wr *writer) insertQuery(r *router, x *gathering, w *plan.Stream, describe bool) (n int64, err error) {
	if err := wr.prepareInsert(x); err != nil {
		return 0, err
	}
	in := &splitting{x: x, s: wr.s, r: r, split: w.Split, kept: &spool{limit: wr.s.record.maxGatherBytes()}}
	defer in.kept.close()
	cols, err := wr.readQuery(r, x, &w.Query, in.kept.add)
	if err != nil {
		return 0, err
	}
	if err := in.prepare(cols); err != nil {
		return 0, err
	}
	if err := wr.s.gather.gatherNow(x); err != nil {
		return 0, err
	}
	for {
		row, err := in.kept.next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		in.batch = append(in.batch, slices.Clone(row))
		if in.bytes += len(row) + 64; in.full() {
			changed, err := in.flush(describe)
			if err != nil {
				return 0, err
			}
			n += changed
		}
	}
	changed, err := in.flush(describe)
	if err == nil && x.write.Returns && describe && !x.repeat.told {
		wr.s.out.Grow()
		wr.s.out.B = x.appendStart(wr.s.out.B)
	}
	return n + changed, err
}

// prepare works out batches and keys from the columns of the rows that have been read.
func (in *splitting) prepare(cols []plan.Column) error {
	if err := in.kept.rewind(); err != nil {
		return err
	}
	in.columns = withDrawn(cols, in.split)
	in.most = splitRows
	for i := range in.columns {
		if finish.Carry(&in.columns[i]) == finish.Whole { // each value is a parameter
			in.most = max((maxParams-len(in.x.d.Params))/len(in.columns), 1)
		}
	}
	if in.split.Table == nil {
		return nil
	}
	in.instance = plan.Instance{Table: in.split.Table, Name: in.split.Table.Name, Stored: true}
	for i, key := range in.split.Table.Vindex.Columns() {
		at := in.split.Columns[i]
		var sets []plan.Set
		if at < 0 {
			sets = []plan.Set{{in.split.Fixed[i]}}
		} else if at < len(cols) && !datumReads(key.Column, &cols[at]) {
			in.casts = append(in.casts, i)
		}
		in.instance.Keys = append(in.instance.Keys, sets)
	}
	return nil
}

// withDrawn are the columns of rows that are split, with those that weft adds.
func withDrawn(cols []plan.Column, split *plan.Split) []plan.Column {
	cols = slices.Clone(cols)
	for i := range split.Draws {
		c := plan.Column{Name: plan.DrawnName(i), Type: int8OID, Size: 8, Mod: -1, SQL: "bigint", Array: 1016, Binary: true}
		if split.Draws[i].Sequence == "" {
			c.Type, c.Size, c.SQL, c.Array = uint32(datum.UUID), 16, "uuid", 2951
		}
		cols = append(cols, c)
	}
	return cols
}

// datumReads reports whether weft can tell by itself what a value of a column becomes in a
// key.
func datumReads(key datum.Column, c *plan.Column) bool {
	character := func(t datum.Type) bool { return t == datum.Text || t == datum.Varchar || t == datum.Bpchar }
	integer := func(t datum.Type) bool { return t == datum.Int2 || t == datum.Int4 || t == datum.Int8 }
	value := datum.Type(c.Type)
	switch {
	case character(key.Type) || integer(key.Type):
		return character(key.Type) == character(value) && integer(key.Type) == integer(value)
	}
	// A type modifier rounds.
	return key.Type == value && (key.Mod == -1 || key.Mod == c.Mod)
}

// full reports whether the batch is to be sent.
func (in *splitting) full() bool {
	return !in.split.Whole && (in.bytes >= splitBytes || len(in.batch) >= in.most) || in.bytes > wholeBytes
}

// flush sends the batch to its shards and begins another.
func (in *splitting) flush(describe bool) (int64, error) {
	if in.split.Whole && in.bytes > wholeBytes {
		return 0, pgerr.New(pgerr.ProgramLimitExceeded, "the rows of this INSERT are too many to be inserted by one statement on each shard").
			WithDetail("ON CONFLICT DO UPDATE, a foreign key of the table to itself and triggers demand one statement.").
			WithHint("Insert fewer rows at a time.")
	}
	if len(in.batch) == 0 {
		return 0, nil
	}
	if err := in.place(); err != nil {
		return 0, err
	}
	if err := in.fillInputs(); err != nil {
		return 0, err
	}
	n, err := in.send(describe)
	in.batch, in.bytes, in.inputs = in.batch[:0], 0, nil
	clear(in.batch[:cap(in.batch)])
	return n, unplaced(err)
}

// place finds the shards of the rows in the batch, and adds the values that weft supplies.
func (in *splitting) place() error {
	s := in.s
	in.places = in.places[:0]
	if in.split.Table == nil {
		home := s.route.homeIndex()
		for range in.batch {
			in.places = append(in.places, home)
		}
		return nil
	}
	if err := in.draw(); err != nil {
		return err
	}
	keys, err := in.keys()
	if err != nil {
		return err
	}
	in.r.args.Params, in.r.args.Generated = executor.Params{}, in.r.args.Generated[:0]
	in.r.args.ASCII = s.out.encoding != "UTF8"
	for {
		missing, buckets, err := in.placeRows(keys)
		if err != nil {
			return err
		}
		if len(missing) == 0 {
			return in.routeIDs(buckets)
		}
		if err := s.route.enterMissing(missing); err != nil {
			return err
		}
		if in.begun && s.srv.cfg.Snapshot().Version != s.route.snap.Version {
			s.route.refresh()
		} else if !in.begun {
			s.route.refresh()
		}
	}
}

// placeRows finds shard and bucket of each row in the batch.
func (in *splitting) placeRows(keys [][]*datum.Value) (missing []executor.Missing, buckets []int, err error) {
	seen := missingSet{}
	in.places = in.places[:0]
	sure := true
	err = in.r.bind.BindRows(in.x.plan, in.s.route.snap, &in.r.args, len(in.batch), func(i int) (*plan.Instance, []*datum.Value) {
		return &in.instance, keys[i]
	}, func(_ int, at executor.Place, ok bool) {
		sure = sure && ok
		in.places, buckets = append(in.places, at.Shard), append(buckets, at.Bucket)
		missing = seen.add(missing, at.Missing)
	})
	if err == nil && !sure {
		err = pgerr.New(pgerr.FeatureNotSupported, "weft cannot tell on which shard a row of %q belongs", in.split.Table.Name).
			WithHint("Cast the shard key to the type of its column; with another client_encoding than UTF8 give ASCII values.")
	}
	return missing, buckets, err
}

// keys are the key values of the rows in the batch.
func (in *splitting) keys() ([][]*datum.Value, error) {
	keys := make([][]*datum.Value, len(in.batch))
	for i, row := range in.batch {
		keys[i] = make([]*datum.Value, len(in.split.Columns))
		for k, at := range in.split.Columns {
			if at < 0 {
				continue
			}
			field, err := fieldOf(row, at)
			if err != nil {
				return nil, err
			}
			v := &datum.Value{Type: datum.Type(in.columns[at].Type), Format: datum.BinaryFormat, Bytes: field}
			if finish.Carry(&in.columns[at]) == finish.Text {
				v.Format = datum.TextFormat
			}
			keys[i][k] = v
		}
	}
	for _, k := range in.casts {
		if err := in.convert(keys, k); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// fieldOf returns a field of a row; nil is NULL.
func fieldOf(row []byte, at int) (field []byte, err error) {
	row = row[min(2, len(row)):]
	for range at + 1 {
		if field, row, err = nextField(row); err != nil {
			return nil, err
		}
	}
	return field, nil
}

// convert has the home shard convert the values of a key column to the type of
// the column.
func (in *splitting) convert(keys [][]*datum.Value, k int) error {
	at := in.split.Columns[k]
	key := in.split.Table.Vindex.Columns()[k]
	inputs := finish.NewInputs([]finish.Shape{{Columns: in.columns[at : at+1]}}, len(in.x.d.Params), finish.Limits{})
	for i := range keys {
		row := appendField([]byte{0, 1}, keys[i][k].Bytes)
		if _, err := inputs.Add(row); err != nil {
			return err
		}
	}
	sql := inputs.AppendInput([]byte("SELECT q.c1::"+key.TypeName+" FROM "), 0)
	sql = append(sql, " q(c1)"...)
	values, err := inputs.AppendBind(nil, in.x.req.values)
	if err != nil {
		return err
	}
	if err := in.s.held.useLane(in.s.lane); err != nil {
		return err
	}
	if err := in.s.tx.quiesce(); err != nil {
		return err
	}
	in.s.held.conn.UnnamedGone()
	l := &leg{s: in.s, conn: in.s.held.conn}
	l.out = wire.AppendParse(nil, "", string(sql), appendOIDs(nil, inputs.AppendTypes(slices.Clone(in.x.d.Params))))
	var start int
	l.out, start = wire.Begin(l.out, wire.Bind)
	l.out = append(append(append(l.out, 0, 0), values...), 0, 1, 0, 1)
	l.out = wire.AppendEmpty(appendExecute(wire.End(l.out, start)), wire.Sync)
	i := 0
	err = eachRow(l, func(row []byte) error {
		field, err := fieldOf(row, 0)
		if err == nil && i < len(keys) {
			keys[i][k] = &datum.Value{Type: key.Type, Format: datum.BinaryFormat, Bytes: slices.Clone(field)}
		}
		i++
		return err
	})
	if err != nil {
		in.s.legs.stopLegs([]*leg{l})
		return unplaced(err)
	}
	if i != len(keys) {
		return pgerr.New(pgerr.InternalError, "%d keys were to be converted, %d came back", len(keys), i)
	}
	return nil
}

func appendField(dst, value []byte) []byte {
	if value == nil {
		return append(dst, 0xff, 0xff, 0xff, 0xff)
	}
	return append(binary.BigEndian.AppendUint32(dst, uint32(len(value))), value...)
}

// draw adds the values that weft supplies to the rows in the batch.
func (in *splitting) draw() error {
	for i := range in.split.Draws {
		v := &in.split.Draws[i]
		var drawn []int64
		if v.Sequence != "" {
			var err error
			if drawn, err = in.s.drawn.draw(v.Sequence, v.Identity, len(in.batch)); err != nil {
				return err
			}
		}
		for j, row := range in.batch {
			if v.Sequence == "" {
				id := randomUUIDBytes()
				row = appendField(row, id[:])
			} else {
				row = binary.BigEndian.AppendUint64(append(row, 0, 0, 0, 8), uint64(drawn[j]))
			}
			binary.BigEndian.PutUint16(row, binary.BigEndian.Uint16(row)+1)
			in.batch[j] = row
		}
	}
	return nil
}

// routeIDs makes routed ids of the numbers that were drawn for them, which are in the last
// columns of the rows.
func (in *splitting) routeIDs(buckets []int) error {
	for i := range in.split.Draws {
		v := &in.split.Draws[i]
		if v.Routed == nil {
			continue
		}
		for j, row := range in.batch {
			field, err := fieldOf(row, len(in.columns)-len(in.split.Draws)+i)
			if err != nil {
				return err
			}
			n := strconv.AppendInt(nil, int64(binary.BigEndian.Uint64(field)), 10)
			id, err := routedID(v.Routed, n, buckets[j])
			if err != nil {
				return err
			}
			binary.BigEndian.PutUint64(field, uint64(id)) // field is part of the row
			in.s.drawn.noteDrawn(v.Sequence, id)
		}
	}
	return nil
}

// fillInputs gives each shard its rows as inputs.
func (in *splitting) fillInputs() error {
	in.inputs = make([]*finish.Inputs, len(in.s.route.snap.Shards))
	for i, row := range in.batch {
		shard := in.places[i]
		if in.inputs[shard] == nil {
			in.inputs[shard] = finish.NewInputs([]finish.Shape{{Columns: in.columns}}, len(in.x.d.Params), finish.Limits{})
		}
		if _, err := in.inputs[shard].Add(row); err != nil {
			return err
		}
	}
	return nil
}

// send sends the shards their rows, and passes on the rows that they return.
func (in *splitting) send(describe bool) (n int64, err error) {
	s, x := in.s, in.x
	if err := in.open(); err != nil {
		return 0, err
	}
	in.begun = true
	if in.split.Skips {
		s.gather.sendInOrder(x.legs)
	} else {
		s.gather.sendLegs(x.legs)
	}
	if in.x.write.Returns {
		_, err = s.gather.passRows(x, in.returned(), describe && !x.repeat.told)
		x.repeat.told = true
	}
	if ended := s.legs.endLegs(x.legs, err != nil && !atEnd(err)); ended != nil && !errors.Is(err, errEnd) {
		err = firstError(x.legs, ended) // the error of the shard itself
	}
	for _, l := range x.legs {
		n += l.changed
	}
	return n, err
}

// returned are the rows that shards return: in the order in which they were read, unless
// some may be missing.
func (in *splitting) returned() stream.Rows {
	if in.split.Skips {
		parts := make([]stream.Rows, len(in.x.legs))
		for i, l := range in.x.legs {
			parts[i] = l
		}
		return stream.Append(parts...)
	}
	legs := make([]*leg, len(in.inputs))
	for _, l := range in.x.legs {
		legs[l.shard] = l
	}
	return &ordered{legs: legs, places: in.places}
}

// open gets the backends ready and fills in the messages for each.
func (in *splitting) open() (err error) {
	s, x := in.s, in.x
	if s.held.conn != nil {
		if err := s.held.park(); err != nil {
			return err
		}
	}
	x.legs = nil
	defer func() {
		x.intake.inputs = nil
		if err != nil {
			_ = s.legs.endLegs(x.legs, true)
			x.legs = nil
		}
	}()
	var shards []int
	for shard, rows := range in.inputs {
		if rows != nil {
			shards = append(shards, shard)
		}
	}
	if err := s.held.reserve(shards, false); err != nil {
		return err
	}
	defer s.held.unreserve()
	for _, shard := range shards {
		rows := in.inputs[shard]
		l, err := s.legs.addLeg(x, shard)
		if err != nil {
			return err
		}
		if err := s.tx.noteWriter(l.conn); err != nil {
			return err
		}
		x.intake.inputs = rows
		if l.out, err = x.appendWrite(l.out, l, x.write.Text()); err != nil {
			return err
		}
	}
	// Of several errors the client is told that of the first row.
	slices.SortStableFunc(x.legs, func(a, b *leg) int { return slices.Index(in.places, a.shard) - slices.Index(in.places, b.shard) })
	if err := s.reach.interrupted(); err != nil {
		return err
	}
	if in.begun && s.route.isOvertaken() {
		// Rows have been written by declarations that no longer hold.
		return pgerr.New(pgerr.SerializationFailure, "a table of this statement was declared anew meanwhile").WithHint("Try again.")
	}
	if in.begun {
		return nil
	}
	return s.route.stillTrue()
}

// homeIndex is the index of the home shard.
func (rt *routing) homeIndex() int {
	return slices.IndexFunc(rt.snap.Shards, func(sh directory.Shard) bool { return sh.Name == rt.snap.Home })
}
