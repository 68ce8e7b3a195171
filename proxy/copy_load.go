package proxy

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"weft/copydata"
	"weft/parser"
	"weft/pgerr"
	"weft/plan"
	"weft/wire"
)

// COPY FROM STDIN into a declared table is one COPY on each shard that gets rows. The client's
// bytes are cut into rows. The bytes of each row go unchanged to the COPY of the shard that its
// key names, or to all shards if the table is a reference table.
//
//	client ──▶ session's goroutine: cut, place ──┬─▶ shard 0 ──▶ its listener ─┐
//	   ▲                                         ├─▶ shard 1 ──▶ its listener ─┤
//	   └───────── notices ───────────────────────┼─────────────────────────────┘
//
// The COPY of the home shard is opened first: it checks the options, and its lock keeps the
// table's declaration from changing. The others are opened with their first row. The session's
// goroutine reads from the client and writes to shards; a listener reads from its shard, and the
// listeners together write to the client. A slow shard makes the session wait, and with it the
// client: nothing is queued but one frame per shard.

// load is one execution of a COPY FROM STDIN into a declared table.
type load struct {
	s        *Session
	plan     *plan.Copy
	fires    *pgerr.Error // see plan.Plan.Fires
	facts    *parser.Facts
	lookups  bool // lookups must be brought up to date after the COPY
	text     []byte
	literals []parser.Literal
	began    time.Time

	sql  string // what the shards run
	cut  *copydata.Cutter
	rows *placement

	soak   soak
	inlets []*inlet // by shard; nil for shards without rows
	open   []*inlet // the open inlets, the home shard's first
	home   int

	data    []byte       // data that have come and are not cut yet
	rem     int          // bytes of the client's current message still to come
	head    []byte       // the header of binary rows
	headed  bool         // the header line has been read
	ended   bool         // the rows have ended: later data are ignored
	spoiled bool         // the data cannot be cut, and go to the home shard to be refused
	strange *pgerr.Error // the error about the unexpected message that has ended the data

	// syncs has the line of the last row before each Sync among the data. owed is how many of
	// these Syncs a single server would have read after it had failed.
	syncs []int64
	owed  int

	// telling is held to write to the client while listeners run.
	telling sync.Mutex
	// stop: a shard has failed.
	stop atomic.Bool

	tag string
}

const (
	// maxRow is the most bytes that a row may have.
	maxRow = 256 << 20
	// lineMemory bounds what is remembered of line numbers, for all shards together.
	lineMemory = 4 << 20
)

func (cp *copier) newLoad(p *plan.Plan, text []byte, literals []parser.Literal, f *parser.Facts) *load {
	return &load{s: cp.s, plan: p.Copy(), fires: p.Fires, facts: f, lookups: p.Lookups, text: text, literals: literals, began: time.Now()}
}

// run carries the COPY out in the open block. It leaves the command tag in tag.
func (x *load) run() error {
	s := x.s
	if err := x.prepare(); err != nil {
		return err
	}
	if err := x.openHome(); err != nil {
		return err
	}
	s.pipe.noteCopy(copyLoading)
	defer s.pipe.noteCopy(copyOver)
	x.tellCopyIn()
	if err := s.out.flushOrEnd(); err != nil {
		x.abandon()
		return err
	}
	x.open[0].start()
	err := x.receive()
	if err == nil {
		x.soak.begin()
		err = x.finish()
		x.soak.pause()
	}
	x.tellHeat(true)
	if errors.Is(err, errEnd) {
		x.abandon()
		return err
	}
	err = x.end(err)
	s.pipe.noteCopy(copyOver)
	if err == nil && x.lookups {
		err = s.lookups.keepWritten(&keeping{})
	}
	return err
}

// prepare does everything that needs the home shard before rows can come. If it fails, nothing
// has been written.
func (x *load) prepare() error {
	s := x.s
	if err := s.write.mayWrite(false); err != nil {
		return err
	}
	if err := s.write.mayFire(x.fires); err != nil {
		return err
	}
	s.reach.limitGather(x.began)
	if err := s.tx.takeSnapshots(); err != nil {
		return err
	}
	if err := x.readable(); err != nil {
		return err
	}
	if err := x.drawable(); err != nil {
		return err
	}
	now := ""
	if x.plan.Text.Has(plan.Now) {
		var err error
		if now, err = s.gather.transactionNow(); err != nil {
			return err
		}
	}
	x.sql = string(x.plan.Text.Append(nil, &plan.Fill{
		Literal: func(dst []byte, i int) []byte {
			return append(dst, x.text[x.literals[i].Start:x.literals[i].End]...)
		},
		Now: func(dst []byte) []byte {
			return append(append(append(dst, '\''), now...), "'::pg_catalog.timestamptz"...)
		},
	}))
	if x.plan.Unclear != "" {
		x.sql = string(x.text)
	}
	x.cut = copydata.New(x.plan.Format)
	x.inlets = make([]*inlet, len(s.route.snap.Shards))
	if s.held.conn != nil {
		if err := s.held.park(); err != nil {
			return err
		}
	}
	for i, sh := range s.route.snap.Shards {
		if sh.Name == s.route.snap.Home {
			x.home = i
		}
		// This may need a backend of the same shard: ask while the session holds none.
		if _, err := s.held.translationTo(s.held.laneOf(s.route.snap, i).lane); err != nil {
			return err
		}
	}
	s.reach.bePatient(nil) // a shard that reads rows could not be told later
	return s.route.stillTrue()
}

// readable refuses data in an encoding that cannot be cut into rows.
func (x *load) readable() error {
	name := x.encoding()
	if oddEncodings[name] {
		return pgerr.New(pgerr.FeatureNotSupported, "COPY in encoding %s is not supported for a table that is on several shards", name).
			WithHint("Use UTF8: SET client_encoding, or the option ENCODING.")
	}
	return nil
}

// drawable refuses to supply values of a sequence if this very transaction has set a sequence:
// only its own backend of the home shard knows the values, and this backend is reading the data.
func (x *load) drawable() error {
	if !x.s.record.done.resequence {
		return nil
	}
	for i := range x.plan.Supply {
		if x.plan.Supply[i].Sequence != "" {
			return undrawable(x.plan.Supply[i].Column)
		}
	}
	return nil
}

func undrawable(column string) *pgerr.Error {
	return pgerr.New(pgerr.FeatureNotSupported, "COPY cannot draw values for column %q in a transaction that has set a sequence", column).
		WithHint("Commit first, or give the column in the data.")
}

// encoding returns the encoding of the data.
func (x *load) encoding() string {
	if x.plan.Encoding != "" {
		return canonicalEncoding(x.plan.Encoding)
	}
	return x.s.out.encoding
}

// openHome opens the COPY of the home shard and waits until the shard asks for data.
func (x *load) openHome() error {
	s := x.s
	in, err := x.join(x.home)
	if err != nil {
		return err
	}
	if x.plan.Table.Reference && x.plan.Unclear == "" {
		// Other writers of the copies wait here, so that all copies see the writers in the same
		// order.
		if err := x.alone(in, "LOCK TABLE "+quoteTable(x.plan.Table)+" IN SHARE ROW EXCLUSIVE MODE"); err != nil {
			return err
		}
	}
	if x.rows, err = newPlacement(x, in); err != nil {
		return err
	}
	if err := s.route.stillTrue(); err != nil {
		in.over, in.leg.out = true, nil
		_ = s.legs.endLegs([]*leg{in.leg}, false)
		return err
	}
	in.leg.out = wire.AppendQuery(in.leg.out, x.sql)
	in.send()
	for !in.over {
		typ, _, err := in.frame()
		if err != nil {
			break
		}
		if typ == wire.CopyInResponse {
			in.conn.Consume(in.consume)
			in.consume = 0
			break
		}
	}
	if in.over {
		err := s.legs.endLegs([]*leg{in.leg}, false)
		if e := (*pgerr.Error)(nil); errors.As(err, &e) && x.sql != string(x.text) {
			e.Position = 0
		}
		if err == nil {
			err = pgerr.New(pgerr.InternalError, "the home shard did not take this for a COPY")
		}
		return err
	}
	if x.plan.Unclear == "" {
		return nil
	}
	in.leg.out = wire.AppendFrame(nil, wire.CopyFail, []byte{0})
	in.send()
	in.drain()
	if !in.lost() {
		in.err = nil
	}
	if err := s.legs.endLegs([]*leg{in.leg}, false); err != nil {
		return err
	}
	return pgerr.New(pgerr.FeatureNotSupported, "COPY with %s is not supported for a table that is on several shards", x.plan.Unclear).
		WithHint("Use another format, or other options: text, CSV and binary are supported.")
}

// alone runs a statement in the block, on a shard whose COPY is not open yet. With "" it only
// opens the block there.
func (x *load) alone(in *inlet, sql string) error {
	if in.begins {
		sql = x.s.reach.beginning(in.conn) + ";" + sql
		in.begins, in.leg.out = false, nil
		in.conn.BeginWithdrawn()
	}
	if sql == "" {
		return nil
	}
	if err := x.s.every.execBeside(in.conn, sql); err != nil {
		in.over, in.err = true, err
		return x.s.legs.endLegs([]*leg{in.leg}, false)
	}
	return nil
}

// tellCopyIn asks the client for its data.
func (x *load) tellCopyIn() {
	format := byte(0)
	if x.plan.Format.Kind == copydata.Binary {
		format = 1
	}
	s := x.s
	s.out.Grow()
	b, at := wire.Begin(s.out.B, wire.CopyInResponse)
	n := len(x.plan.Columns)
	b = append(b, format, byte(n>>8), byte(n))
	for range n {
		b = append(b, 0, format)
	}
	s.out.B = wire.End(b, at)
}

// canonicalEncoding returns the name of an encoding as PostgreSQL reports it, for the encodings
// that matter here.
func canonicalEncoding(name string) string {
	var b []byte
	for i := range len(name) {
		switch c := name[i]; {
		case c >= 'a' && c <= 'z':
			b = append(b, c-'a'+'A')
		case c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
			b = append(b, c)
		}
	}
	switch string(b) {
	case "UTF8", "UNICODE":
		return "UTF8"
	case "SJIS", "MSKANJI", "SHIFTJIS", "WIN932", "WINDOWS932":
		return "SJIS"
	case "SHIFTJIS2004":
		return "SHIFT_JIS_2004"
	case "BIG5", "WIN950", "WINDOWS950":
		return "BIG5"
	case "GBK", "WIN936", "WINDOWS936":
		return "GBK"
	case "UHC", "WIN949", "WINDOWS949":
		return "UHC"
	}
	return string(b) // GB18030, JOHAB, and encodings in which bytes of ASCII are only ASCII
}
