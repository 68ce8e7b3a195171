package proxy

import (
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"weft/executor"
	"weft/parser"
	"weft/recording"
)

// tapedSession returns a session of database app whose transactions are recorded.
func tapedSession() (*Session, *recording.Recorder) {
	srv := &Server{}
	srv.memory.scanners = sync.Pool{New: func() any { return new(parser.Scanner) }}
	r := &recording.Recorder{Database: "app", Share: 1, Key: recording.Key{1}}
	srv.counts.tapes.start(r, time.Hour)
	return newSession(srv, nil, nil, "u", "app"), r
}

func factsOf(text string) *parser.Facts {
	var s parser.Scanner
	s.Scan([]byte(text), parser.Options{})
	f := parser.ParseFacts(text)
	f.Norm = string(s.Norm)
	return f
}

// boundTexts is the part of a Bind after the names.
func boundTexts(values ...string) []byte {
	b := []byte{0, 0, 0, byte(len(values))}
	for _, v := range values {
		b = append(append(b, 0, 0, 0, byte(len(v))), v...)
	}
	return append(b, 0, 0)
}

// Literals and parameters of equal value have equal sums, in the order in which parser.Statement
// numbers them, and values are nowhere.
func TestTape(t *testing.T) {
	s, r := tapedSession()
	a := &s.account
	query := "select * from orders where customer_id = 7 and note = 'it''s' and id = $1"
	a.tapeQuery(factsOf("begin"), []byte("begin"))
	a.tapeQuery(factsOf("select * from orders where customer_id = 7"), []byte("select * from orders where customer_id = 7"))
	a.tapeBind(factsOf(query), []byte(query), boundTexts("42"))
	a.endTape()
	got := r.Transactions()
	if len(got) != 1 || len(got[0]) != 2 {
		t.Fatalf("%+v", got)
	}
	seven, its, answer := r.Key.Text([]byte("7")), r.Key.Text([]byte("it's")), r.Key.Text([]byte("42"))
	if want := []recording.Value{seven}; !reflect.DeepEqual(got[0][0].Values, want) {
		t.Errorf("%v, not %v", got[0][0].Values, want)
	}
	if want := []recording.Value{answer, seven, its}; !reflect.DeepEqual(got[0][1].Values, want) {
		t.Errorf("%v, not %v", got[0][1].Values, want)
	}
	if text := parser.Statement(got[0][1].Text); text != "select * from orders where customer_id = $2 and note = $3 and id = $1" {
		t.Error(text)
	}
	if p, ok := executor.DecodeParams(boundTexts("42")); !ok || p.Len() != 1 {
		t.Error("boundTexts makes no Bind")
	}
	// A list whose items were left out of the Norm says nothing.
	long := "select * from orders where id in (" + strings.Repeat("1, ", 500) + "1)"
	f := factsOf(long)
	f.Norm = "shortened"
	a.tapeQuery(f, []byte(long))
	a.endTape()
	if got := r.Transactions(); len(got) != 2 || len(got[1][0].Values) != 0 {
		t.Errorf("%+v", got[1:])
	}
}

// Other databases are not recorded, nor is a transaction whose beginning was missed, and after the end
// of a recording sessions keep nothing of it.
func TestTapeEnds(t *testing.T) {
	s, r := tapedSession()
	other := newSession(s.srv, nil, nil, "u", "other")
	text := []byte("select * from orders")
	other.account.tapeQuery(factsOf(string(text)), text)
	if other.account.tape != nil {
		t.Error("another database is recorded")
	}
	s.account.tapeQuery(factsOf(string(text)), text)
	s.srv.counts.tapes.stop("other")
	if !s.account.records() {
		t.Error("the recording of another database was ended")
	}
	s.srv.counts.tapes.stop("app")
	s.account.endTape()
	if s.account.records() || s.account.tape != nil || len(r.Transactions()) != 1 {
		t.Errorf("%v, %v", s.account.tape, r.Transactions())
	}
	if l := s.srv.counts.tapes.recorded("app"); l == nil || l.Recorder != r || s.srv.counts.tapes.recorded("other") != nil {
		t.Error("what was recorded is lost")
	}
	if allocs := testing.AllocsPerRun(100, func() { s.account.records() }); allocs != 0 {
		t.Errorf("%v allocations while nothing is recorded", allocs)
	}
	again := &recording.Recorder{Database: "app", Share: 1}
	s.srv.counts.tapes.start(again, time.Nanosecond)
	for deadline := time.Now().Add(3 * time.Minute); s.account.records(); {
		if time.Now().After(deadline) {
			t.Fatal("a recording does not end")
		}
		time.Sleep(time.Millisecond)
	}
}
