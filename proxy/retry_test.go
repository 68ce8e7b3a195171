package proxy

import (
	"net"
	"testing"

	"weft/parser"
	"weft/wire"
)

// TestRetrySaw: what is noted of statements decides whether they may be repeated.
func TestRetrySaw(t *testing.T) {
	for _, c := range []struct {
		texts         []string
		writes, loose bool
	}{
		{[]string{"select 1"}, false, false},
		{[]string{"select 1", "values (1)"}, false, false},
		{[]string{"select my_function()"}, true, false},
		{[]string{"insert into t values (1)"}, true, false},
		{[]string{"select 1", "delete from t"}, true, false},
		{[]string{"call p()"}, true, true},
		{[]string{"do 'begin end'"}, true, true},
		{[]string{"vacuum"}, true, true},
		{[]string{"begin"}, true, true},
		{[]string{"copy t from stdin"}, true, true},
		{[]string{"select 1; select 2"}, false, true},
		{[]string{"with w as (update t set a = 1 returning a) select * from w"}, true, false},
		{[]string{"select 1 into t2"}, true, false},
		{[]string{"this is no SQL"}, true, true},
	} {
		var r retry
		for _, text := range c.texts {
			r.saw(parser.ParseFacts(text))
		}
		if r.writes != c.writes || r.loose != c.loose || int(r.statements) != len(c.texts) {
			t.Errorf("%q: writes %v, loose %v, %d statements", c.texts, r.writes, r.loose, r.statements)
		}
		if r.forget(); r.statements != 0 || r.writes || r.loose || r.completed {
			t.Errorf("%q is not forgotten", c.texts)
		}
	}
	var r retry
	if r.saw(nil); !r.writes || !r.loose {
		t.Error("an unknown statement may be repeated")
	}
}

// TestHoldsBack: acknowledgements can wait, nothing else can.
func TestHoldsBack(t *testing.T) {
	a, b := net.Pipe()
	defer a.Close()
	defer b.Close()
	s := &Session{client: wire.NewStream(a)}
	s.out.s, s.lost.retry.s = s, s
	r := &s.lost.retry
	ask := func(what string, want bool) {
		t.Helper()
		if r.holdsBack() != want {
			t.Errorf("%s: %v", what, !want)
		}
	}
	s.out.Grow()
	s.out.B = wire.AppendEmpty(s.out.B, wire.ParseComplete)
	ask("no message has come", false)
	s.client.Hold()
	r.within = true
	ask("an acknowledgement", true)
	s.out.B = wire.AppendEmpty(s.out.B, wire.BindComplete)
	s.out.B = wire.AppendEmpty(s.out.B, wire.CloseComplete)
	ask("three acknowledgements", true)
	s.out.B = wire.AppendFrame(s.out.B, wire.DataRow, []byte{0, 0})
	ask("a row", false)
	s.out.cut(5)
	ask("the row was cut off", true)
	r.since = 5
	ask("an answer to earlier messages", false)
	r.since = 0
	s.client.LetGo()
	ask("nothing is held", false)
}
