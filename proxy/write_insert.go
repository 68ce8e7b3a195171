package proxy

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"

	"weft/datum"
	"weft/executor"
	"weft/finish"
	"weft/pgerr"
	"weft/plan"
	"weft/pool"
	"weft/stream"
	"weft/wire"
)

// inserting is one execution of an INSERT … VALUES whose rows belong on several shards, see
// plan.Rows.
type inserting struct {
	x    *gathering
	s    *Session
	r    *router
	rows *plan.Rows

	given   []argument  // the client's parameters
	cells   []*argument // values that have been asked for, by cell; nil for other cells
	places  []int       // shard of each row
	buckets []int
	parts   [][]int      // rows of each shard
	late    map[int]bool // rows whose keys had to be asked for
}

// argument is a parameter of a text that a shard is sent.
type argument struct {
	typ    uint32
	format int16
	value  []byte // nil is NULL
}

// insertRows sends each row of an INSERT … VALUES to its shard.
func (wr *writer) insertRows(r *router, x *gathering, rows *plan.Rows, describe bool) (int64, error) {
	in := &inserting{x: x, s: wr.s, r: r, rows: rows, late: map[int]bool{}}
	if err := wr.prepareInsert(x); err != nil {
		return 0, err
	}
	if err := in.arguments(); err != nil {
		return 0, err
	}
	if err := in.supply(); err != nil {
		return 0, err
	}
	in.cells = make([]*argument, len(in.rows.Cells))
	if rows.Query != nil {
		if err := in.readCells(); err != nil {
			return 0, err
		}
	}
	if err := in.askFirst(); err != nil {
		return 0, err
	}
	if err := in.place(); err != nil {
		return 0, err
	}
	if err := wr.firesHere(x, func(shard int) bool { return len(in.parts[shard]) > 0 }); err != nil {
		return 0, err
	}
	if err := in.routeIDs(); err != nil {
		return 0, err
	}
	if err := wr.s.gather.gatherNow(x); err != nil {
		return 0, err
	}
	if err := wr.s.reach.interrupted(); err != nil {
		return 0, err
	}
	if len(in.rows.Rows[0].Conflict) > 0 {
		return in.runClaimed(describe)
	}
	return in.run(describe)
}

// prepareInsert does what comes before rows are read or written.
func (wr *writer) prepareInsert(x *gathering) error {
	if err := wr.mayWrite(onOneShard(x.write)); err != nil {
		return err
	}
	wr.s.reach.limitGather(x.began)
	if err := wr.s.tx.takeSnapshots(); err != nil {
		return err
	}
	if err := wr.describeWrite(x); err != nil {
		return err
	}
	return x.keepsPromise()
}

// arguments splits the client's Bind into parameters.
func (in *inserting) arguments() error {
	values := in.x.req.values
	codes := int(binary.BigEndian.Uint16(values))
	formats := values[2 : 2+2*codes]
	values = values[2+2*codes:]
	n := int(binary.BigEndian.Uint16(values))
	if n != len(in.x.d.Params) {
		return pgerr.New(pgerr.ProtocolViolation, "bind message supplies %d parameters, but the statement requires %d", n, len(in.x.d.Params))
	}
	if codes > 1 && codes != n {
		return pgerr.New(pgerr.ProtocolViolation, "bind message has %d parameter formats but %d parameters", codes, n)
	}
	values = values[2:]
	for i := range n {
		a := argument{typ: in.x.d.Params[i]}
		switch {
		case codes == 1:
			a.format = int16(binary.BigEndian.Uint16(formats))
		case codes > 1:
			a.format = int16(binary.BigEndian.Uint16(formats[2*i:]))
		}
		var err error
		if a.value, values, err = nextField(values); err != nil {
			return err
		}
		in.given = append(in.given, a)
	}
	return nil
}

// nextField takes the first value off a list of values; nil is NULL.
func nextField(b []byte) (field, rest []byte, err error) {
	if len(b) < 4 {
		return nil, nil, wire.ErrMalformed
	}
	size := int(int32(binary.BigEndian.Uint32(b)))
	b = b[4:]
	switch {
	case size < 0:
		return nil, b, nil
	case size > len(b):
		return nil, nil, wire.ErrMalformed
	}
	return b[:size:size], b[size:], nil
}

// supply draws the values that weft supplies, unless they have been drawn already.
func (in *inserting) supply() error {
	g := in.x.plan.Generate
	switch {
	case g == nil:
		return nil
	case len(in.x.progress.supplied) == len(g.Values):
		in.r.args.Generated = append(in.r.args.Generated[:0], in.x.progress.supplied...)
	default:
		if err := in.s.drawn.generate(in.r, in.x.plan); err != nil {
			return err
		}
	}
	in.x.progress.supplied = slices.Clone(in.r.args.Generated)
	return nil
}

// readCells reads the values of cells that cannot be evaluated where the rows go.
func (in *inserting) readCells() error {
	var row []byte
	cols, err := in.s.write.readQuery(in.r, in.x, in.rows.Query, func(r []byte) error {
		row = slices.Clone(r)
		return nil
	})
	if err != nil {
		return err
	}
	in.params()
	if len(row) < 2 {
		return pgerr.New(pgerr.InternalError, "the values of an INSERT have not come")
	}
	row = row[2:]
	at := 0
	for i := range in.rows.Cells {
		if !in.rows.Cells[i].Apart {
			continue
		}
		if at >= len(cols) {
			return pgerr.New(pgerr.InternalError, "the values of an INSERT are fewer than its cells")
		}
		a := &argument{typ: cols[at].Type}
		if finish.Carry(&cols[at]) != finish.Text {
			a.format = 1
		}
		if a.value, row, err = nextField(row); err != nil {
			return err
		}
		in.cells[i] = a
		at++
	}
	return nil
}

// params gives the router the client's parameters again.
func (in *inserting) params() {
	in.r.args.Text, in.r.args.Literals, in.r.args.Options = in.x.req.text, in.x.req.literals, in.s.record.scanOptions()
	in.r.args.Params, _ = executor.DecodeParams(in.x.req.values) // arguments has checked them
	in.r.args.Generated = append(in.r.args.Generated[:0], in.x.progress.supplied...)
	in.r.args.ASCII = in.s.out.encoding != "UTF8"
}

// place finds the shards of the rows.
func (in *inserting) place() error {
	s := in.s
	in.places, in.buckets = make([]int, len(in.rows.Rows)), make([]int, len(in.rows.Rows))
	if len(in.rows.Instances) == 0 {
		home := s.route.homeIndex()
		for i := range in.places {
			in.places[i] = home
		}
		in.divide(0, len(in.places))
		return nil
	}
	for {
		missing, unknown, err := in.placeRows()
		if err != nil {
			return err
		}
		switch {
		case len(unknown) > 0 && len(in.late) > 0 && in.late[unknown[0]]:
			return in.unknown()
		case len(unknown) > 0:
			if err := in.ask(unknown); err != nil {
				return err
			}
		case len(missing) == 0:
			in.divide(0, len(in.places))
			return nil
		default:
			if err := s.route.enterMissing(missing); err != nil {
				return err
			}
			s.route.refresh()
		}
	}
}

// unknown refuses a row whose shard cannot be told.
func (in *inserting) unknown() error {
	return pgerr.New(pgerr.FeatureNotSupported, "weft cannot tell on which shard a row of %q belongs", in.rows.Instances[0].Table.Name).
		WithHint("Cast the shard key to the type of its column; with another client_encoding than UTF8 give ASCII values.")
}

// placeRows finds the shards of all rows whose keys are known.
func (in *inserting) placeRows() (missing []executor.Missing, unknown []int, err error) {
	in.params()
	seen := missingSet{}
	err = in.r.bind.BindRows(in.x.plan, in.s.route.snap, &in.r.args, len(in.rows.Rows), func(i int) (*plan.Instance, []*datum.Value) {
		return &in.rows.Instances[i], in.keys(i)
	}, func(i int, at executor.Place, ok bool) {
		if !ok {
			unknown = append(unknown, i)
			return
		}
		in.places[i], in.buckets[i] = at.Shard, at.Bucket
		missing = seen.add(missing, at.Missing)
	})
	return missing, unknown, err
}

// missingSet tells which lookup entries have been listed.
type missingSet map[string]bool

// add appends to list those of more that are new to the set.
func (set missingSet) add(list, more []executor.Missing) []executor.Missing {
	for _, m := range more {
		if name := m.Lookup + "\x00" + string(m.Key); !set[name] {
			set[name] = true
			list = append(list, m)
		}
	}
	return list
}

// keys are the values of a row's key that have been asked for; nil for other values.
func (in *inserting) keys(row int) []*datum.Value {
	var out []*datum.Value
	for k, cell := range in.rows.Rows[row].Keys {
		if cell < 0 || in.cells[cell] == nil {
			continue
		}
		if out == nil {
			out = make([]*datum.Value, len(in.rows.Rows[row].Keys))
		}
		a := in.cells[cell]
		out[k] = &datum.Value{Type: datum.Type(a.typ), Format: datum.Format(a.format), Bytes: a.value}
	}
	return out
}

// divide lists, by shard, the rows of a range.
func (in *inserting) divide(from, to int) {
	in.parts = make([][]int, len(in.s.route.snap.Shards))
	for i := from; i < to; i++ {
		in.parts[in.places[i]] = append(in.parts[in.places[i]], i)
	}
}

// routeIDs makes the routed ids of rows whose buckets were not known before.
func (in *inserting) routeIDs() error {
	if in.x.plan.Generate == nil || len(in.late) == 0 {
		return nil
	}
	for i := range in.x.plan.Generate.Values {
		v := &in.x.plan.Generate.Values[i]
		if v.Routed == nil || !in.late[v.Row] {
			continue
		}
		id, err := routedID(v.Routed, in.x.progress.supplied[i], in.buckets[v.Row])
		if err != nil {
			return err
		}
		in.x.progress.supplied[i] = strconv.AppendInt(nil, id, 10)
		in.s.drawn.noteDrawn(v.Sequence, id)
	}
	return nil
}

// routedID makes a routed id of a number that was drawn.
func routedID(ids *plan.IDs, number []byte, bucket int) (int64, error) {
	n, err := strconv.ParseInt(string(number), 10, 64)
	if err != nil {
		return 0, err
	}
	return executor.RoutedID(ids, n, bucket)
}

// run sends the shards their rows and passes on the rows that they return.
func (in *inserting) run(describe bool) (n int64, err error) {
	s, x := in.s, in.x
	shards := 0
	for _, rows := range in.parts {
		if len(rows) > 0 {
			shards++
		}
	}
	trial := in.rows.Skips && in.x.write.Returns && shards > 1
	if err := in.open(trial); err != nil {
		return 0, err
	}
	if trial {
		return in.runTrial(describe)
	}
	if in.rows.Skips {
		s.gather.sendInOrder(x.legs)
	} else {
		s.gather.sendLegs(x.legs)
	}
	if in.x.write.Returns {
		var rows stream.Rows = x.legs[0]
		if shards > 1 {
			rows = &ordered{legs: in.byShard(), places: in.places}
		}
		_, err = s.gather.passRows(x, rows, describe)
	}
	if ended := s.legs.endLegs(x.legs, err != nil && !atEnd(err)); ended != nil && !errors.Is(err, errEnd) {
		err = firstError(x.legs, ended) // the error of the shard itself
	}
	for _, l := range x.legs {
		n += l.changed
	}
	return n, unplaced(err)
}

// atEnd reports whether an error is one that PostgreSQL raises after all rows are in: that
// of a foreign key.
func atEnd(err error) bool {
	e := (*pgerr.Error)(nil)
	return errors.As(err, &e) && e.Code == foreignKeyViolation
}

const foreignKeyViolation = "23503"

// firstError chooses among the errors of several shards the one that PostgreSQL would have
// met first, as far as that can be told. err is one of them.
func firstError(legs []*leg, err error) error {
	if errors.Is(err, pool.ErrLost) || !atEnd(err) {
		return err
	}
	for _, l := range legs {
		if l.err != nil && !atEnd(l.err) {
			return l.err
		}
	}
	return err
}

// byShard returns the leg of each shard.
func (in *inserting) byShard() []*leg {
	out := make([]*leg, len(in.parts))
	for _, l := range in.x.legs {
		out[l.shard] = l
	}
	return out
}

// unplaced removes the position from an error about a text that the client does not know.
func unplaced(err error) error {
	e := (*pgerr.Error)(nil)
	if !errors.As(err, &e) || e.Position == 0 || errors.Is(err, pool.ErrLost) {
		return err
	}
	out := *e
	out.Position = 0
	return &out
}
