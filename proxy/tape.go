package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"weft/executor"
	"weft/parser"
	"weft/recording"
	"weft/wire"
)

// tapes is the recording of transactions on this proxy. There is one at a time.
type tapes struct {
	// on is the recording under way, nil for none. Sessions look at it at each statement.
	on atomic.Pointer[recording.Recorder]

	mu   sync.Mutex
	last *taping // the recording under way, or the last one; nil for none
}

// taping is one recording, from its beginning on.
type taping struct {
	*recording.Recorder
	since, until time.Time
	timer        *time.Timer
}

// start begins a recording. One that is under way ends, and is forgotten.
func (t *tapes) start(r *recording.Recorder, lasting time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last != nil {
		t.last.timer.Stop()
	}
	now := time.Now()
	t.last = &taping{Recorder: r, since: now, until: now.Add(lasting)}
	t.on.Store(r) // before the timer, which ends nothing but r
	t.last.timer = time.AfterFunc(lasting, func() { t.on.CompareAndSwap(r, nil) })
}

// stop ends the recording that is under way. What was recorded is kept.
func (t *tapes) stop(database string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r := t.on.Load(); r == nil || r.Database != database {
		return
	}
	t.on.Store(nil)
	t.last.timer.Stop()
	t.last.until = time.Now()
}

// recorded returns the recording of a database, nil if there is none.
func (t *tapes) recorded(database string) *taping {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.last == nil || database != "" && t.last.Database != database {
		return nil
	}
	l := *t.last
	return &l
}

// tape is what a session records of the transaction that it is in.
type tape struct {
	to *recording.Recorder
	// begun says that the transaction began while the recording was under way, and chosen that it is one
	// of the sample.
	begun, chosen bool
	tx            recording.Transaction
}

// records reports whether transactions are recorded.
func (a *account) records() bool { return a.s.srv.counts.tapes.on.Load() != nil }

// taped returns the tape that the session's transaction is recorded on, nil if it is not.
func (a *account) taped() *tape {
	r := a.s.srv.counts.tapes.on.Load()
	if r == nil || r.Database != a.owner.Database {
		return nil
	}
	if a.tape == nil || a.tape.to != r {
		a.tape = &tape{to: r}
	}
	if t := a.tape; !t.begun {
		if a.s.localStatus() != wire.TxIdle {
			return nil // its beginning was missed
		}
		t.begun, t.chosen = true, r.Chosen()
	}
	if !a.tape.chosen || len(a.tape.tx) >= recording.MaxExecutions {
		return nil
	}
	return a.tape
}

// tapeQuery records a simple query.
func (a *account) tapeQuery(f *parser.Facts, text []byte) {
	if t := a.taped(); t != nil && worthTaping(f) {
		t.tx = append(t.tx, recording.Execution{Text: f.Norm, Values: a.literalSums(nil, t.to.Key, f, text)})
	}
}

// tapeBind records the execution of a prepared statement. bind is the part of the Bind after the
// names; what has not arrived of it is not recorded.
func (a *account) tapeBind(f *parser.Facts, text, bind []byte) {
	t := a.taped()
	if t == nil || !worthTaping(f) {
		return
	}
	var values []recording.Value
	params, ok := executor.DecodeParams(bind)
	for i := range min(params.Len(), recording.MaxValues) {
		var sum recording.Value
		v, format, known := params.At(i)
		switch {
		case !ok || !known || v == nil:
		case format == 0:
			sum = t.to.Key.Text(v)
		default:
			sum = t.to.Key.Binary(v)
		}
		values = append(values, sum)
	}
	t.tx = append(t.tx, recording.Execution{Text: f.Norm, Values: a.literalSums(values, t.to.Key, f, text)})
}

// worthTaping reports whether a text may say something about keys.
func worthTaping(f *parser.Facts) bool { return f != nil && f.Norm != "" && len(f.Relations) > 0 }

// literalSums appends the sums of a text's literals to the values of its parameters. A text whose
// long lists were left out of its Norm has other literals than the Norm: nothing is said of them.
func (a *account) literalSums(values []recording.Value, key recording.Key, f *parser.Facts, text []byte) []recording.Value {
	sc := a.s.srv.memory.scanners.Get().(*parser.Scanner)
	defer a.s.srv.memory.scanners.Put(sc)
	opt := a.s.record.scanOptions()
	if !sc.Scan(text, opt) || string(sc.Norm) != f.Norm {
		return values
	}
	for _, l := range sc.Literals {
		if len(values) >= recording.MaxValues {
			break
		}
		v := text[l.Start:l.End]
		if l.Kind == parser.String || l.Kind == parser.NationalString {
			read, ok := l.AppendValue(nil, text, opt)
			if v = read; !ok {
				values = append(values, nil)
				continue
			}
		}
		values = append(values, key.Text(v))
	}
	return values
}

// endTape hands over what was recorded, if the transaction has ended.
func (a *account) endTape() {
	t := a.tape
	if t.begun && (a.s.localStatus() != wire.TxIdle || a.s.implicit.isOpen()) {
		return
	}
	if t.chosen {
		t.to.Put(t.tx)
	}
	t.begun, t.chosen, t.tx = false, false, nil
	if a.s.srv.counts.tapes.on.Load() != t.to {
		a.tape = nil
	}
}
