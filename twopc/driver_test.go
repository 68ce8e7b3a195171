package twopc

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// fate is what happens to one message of a commit.
type fate int

const (
	carriedOut fate = iota
	refused
	failed    // refused, and the transaction is open still
	lostAsked // the connection is lost before the shard reads the message
	lostDone  // the connection is lost after the shard has carried it out
	diesFirst // the process dies before it sends the message
	diesAfter // the process dies when the shard has carried it out
	fates
)

var fateNames = []string{"ok", "refused", "failed", "lost", "lost-done", "dies", "dies-after"}

func (f fate) answer() Answer {
	switch f {
	case refused:
		return Refusal
	case failed:
		return Failed
	case lostAsked, lostDone:
		return Lost
	}
	return OK
}

func (f fate) happens() bool { return f == carriedOut || f == lostDone || f == diesAfter }

// shardState is a shard's part of the transaction.
type shardState int

const (
	isOpen shardState = iota
	isPrepared
	isCommitted
	isAborted
)

// died is what the process of a model panics with.
type died struct{}

// model is a cluster with one transaction, whose messages meet their fates.
type model struct {
	next   func(message string) fate
	script []string // messages and points, in order

	row     bool // the decision is entered, in the deciding transaction
	decider shardState
	shards  []shardState
	cut     []bool // the connection to the participant is lost
	reads   []bool
	waits   []fate // fates of the messages that were sent and not heard
	broken  string // the first promise that was broken
}

func (m *model) breach(format string, args ...any) {
	if m.broken == "" {
		m.broken = fmt.Sprintf(format, args...)
	}
}

func (m *model) meet(message string) fate {
	f := m.next(message)
	if m.script = append(m.script, message+" "+fateNames[f]); f == diesFirst {
		panic(died{})
	}
	return f
}

// over lets the process die after what it has done.
func (f fate) over() {
	if f == diesAfter {
		panic(died{})
	}
}

func (m *model) Decide() Answer {
	f := m.meet("decide")
	if f.happens() {
		m.row = true
	}
	if f.answer() == Lost {
		m.decider = isAborted
	}
	f.over()
	return f.answer()
}

func (m *model) Announce() Answer {
	f := m.meet("announce")
	if !m.row {
		m.breach("announced before the decision was entered")
	}
	f.over()
	return f.answer()
}

func (m *model) Rollback() {
	if m.decider != isOpen {
		m.breach("ROLLBACK of a deciding transaction that is over")
	}
	f := m.meet("rollback")
	m.decider = isAborted // by the message, or with the connection
	f.over()
}

// commit is COMMIT on the deciding shard, which the caller of a Driver sends.
func (m *model) commit() Answer {
	f := m.meet("commit")
	for i, s := range m.shards {
		if s != isPrepared && !m.reads[i] {
			m.breach("COMMIT before participant %d has prepared", i)
		}
	}
	m.decider = isAborted
	if f.happens() {
		m.decider = isCommitted
	}
	f.over()
	return f.answer()
}

func (m *model) Arbitrate() Outcome {
	f := m.meet("arbitrate")
	f.over()
	if f != carriedOut {
		return Open
	}
	return m.truth()
}

// truth is how the transaction ended, as a resolver finds out.
func (m *model) truth() Outcome {
	if m.decider == isCommitted {
		return Committed
	}
	return Aborted
}

func (m *model) Send(i int, o Order, last bool) {
	f := m.meet(fmt.Sprintf("%s %d", o, i))
	if m.cut[i] {
		m.breach("%s for %d, whose connection is lost", o, i)
	}
	m.waits[i] = f
	if f == lostAsked || f == lostDone {
		m.cut[i] = true
	}
	m.carryOut(i, o, f)
	f.over()
}

func (m *model) carryOut(i int, o Order, f fate) {
	s := &m.shards[i]
	switch o {
	case PrepareTransaction:
		switch {
		case !m.row:
			m.breach("%d prepares before the decision is entered", i)
		case m.reads[i]:
			m.breach("%d prepares and has nothing to keep", i)
		case f.happens():
			*s = isPrepared
		case f != failed:
			*s = isAborted
		}
	case CommitPrepared:
		if *s != isPrepared || m.decider != isCommitted {
			m.breach("COMMIT PREPARED for %d, which is %d, by %d", i, *s, m.decider)
		}
		if f.happens() {
			*s = isCommitted
		}
	case RollbackPrepared:
		if *s != isPrepared || m.decider != isAborted {
			m.breach("ROLLBACK PREPARED for %d, which is %d, by %d", i, *s, m.decider)
		}
		if f.happens() {
			*s = isAborted
		}
	case CommitReads, Rollback:
		if *s != isOpen || o == CommitReads && !m.reads[i] {
			m.breach("%s for %d, which is %d", o, i, *s)
		}
		*s = isAborted // or committed, which is the same for a reader
	}
}

func (m *model) Hear(i int, o Order, last bool) Answer {
	m.script = append(m.script, fmt.Sprintf("hear %d", i))
	return m.waits[i].answer()
}

func (m *model) Finish(i int) bool {
	f := m.meet(fmt.Sprintf("finish %d", i))
	if m.decider != isCommitted {
		m.breach("%d is made to commit", i)
	}
	if f.happens() && m.shards[i] == isPrepared {
		m.shards[i] = isCommitted
	}
	f.over()
	return f == carriedOut
}

// run drives the commit to its end, or to the death of the process.
func (m *model) run(parts []Part, announces bool) (d Driver, alive bool) {
	m.shards, m.cut, m.waits = make([]shardState, len(parts)), make([]bool, len(parts)), make([]fate, len(parts))
	for _, p := range parts {
		m.reads = append(m.reads, p == Reader)
	}
	d = NewDriver(m, m, func(p Point) { m.script = append(m.script, "· "+string(p)) })
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(died); !ok {
				panic(r)
			}
		}
	}()
	if d.Agree(parts, announces) {
		d.Ended(m.commit())
	} else {
		d.Undo()
	}
	return d, true
}

// resolve is what is left to a resolver after the process or its connections are gone: open
// transactions end with their connections, prepared ones as the deciding one has.
func (m *model) resolve() {
	if m.decider == isOpen {
		m.decider = isAborted
	}
	for i, s := range m.shards {
		switch {
		case s == isOpen:
			m.shards[i] = isAborted
		case s == isPrepared && m.truth() == Committed:
			m.shards[i] = isCommitted
		case s == isPrepared:
			m.shards[i] = isAborted
		}
	}
}

// TestDriver plays commits and writes down their messages and points. The input is the
// participants, and messages with their fates where these are not ok.
func TestDriver(t *testing.T) {
	datadriven.RunTest(t, "testdata/driver", func(t *testing.T, d *datadriven.TestData) string {
		lines := strings.Split(strings.TrimSpace(d.Input), "\n")
		var parts []Part
		announces := false
		for _, w := range strings.Fields(lines[0]) {
			switch w {
			case "writer":
				parts = append(parts, Active)
			case "reader":
				parts = append(parts, Reader)
			case "announces":
				announces = true
			default:
				t.Fatalf("unknown word %q", w)
			}
		}
		m := &model{next: func(message string) fate {
			for _, line := range lines[1:] {
				if name, ok := strings.CutPrefix(line, message+": "); ok {
					return fate(slices.Index(fateNames, name))
				}
			}
			return carriedOut
		}}
		driver, alive := m.run(parts, announces)
		if m.broken != "" {
			t.Error(m.broken)
		}
		out := strings.Join(m.script, "\n") + "\n"
		if alive {
			out += fmt.Sprintf("outcome: %s, settled: %v\n", driver.Outcome(), driver.Settled())
		}
		return out
	})
}

// TestDriverNeverHalves lets every message of a commit meet every fate, in all combinations, with
// up to three participants. Whatever happens, all shards that have written end alike once a
// resolver has looked, and as the driver has said.
func TestDriverNeverHalves(t *testing.T) {
	for _, parts := range [][]Part{{}, {Reader}, {Active}, {Active, Active}, {Active, Reader}, {Reader, Active, Active}} {
		for _, announces := range []bool{false, true} {
			runs := 0
			everyScript(func(next func() fate) {
				runs++
				m := &model{next: func(string) fate { return next() }}
				d, alive := m.run(parts, announces)
				if m.broken != "" {
					t.Fatalf("%v: %s\n%s", parts, m.broken, strings.Join(m.script, "\n"))
				}
				before := slices.Clone(m.shards)
				m.resolve()
				for i, s := range m.shards {
					if parts[i] == Active && (s == isCommitted) != (m.decider == isCommitted) {
						t.Fatalf("%v: participant %d ends as %d, the deciding one as %d\n%s", parts, i, s, m.decider, strings.Join(m.script, "\n"))
					}
				}
				if alive && d.Outcome() != Open && d.Outcome() != m.truth() {
					t.Fatalf("%v: %s is taken for %s\n%s", parts, m.truth(), d.Outcome(), strings.Join(m.script, "\n"))
				}
				if alive && d.Settled() && slices.Contains(before, isPrepared) {
					t.Fatalf("%v: settled, and a participant is prepared\n%s", parts, strings.Join(m.script, "\n"))
				}
			})
			t.Logf("%v: %d runs", parts, runs)
		}
	}
}

// everyScript calls run with every sequence of fates that run asks for.
func everyScript(run func(next func() fate)) {
	var script []fate
	for {
		at := 0
		run(func() fate {
			if at == len(script) {
				script = append(script, 0)
			}
			at++
			return script[at-1]
		})
		for len(script) > 0 && script[len(script)-1] == fates-1 {
			script = script[:len(script)-1]
		}
		if len(script) == 0 {
			return
		}
		script[len(script)-1]++
	}
}
