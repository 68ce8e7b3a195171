package routine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weft/pgerr"
	"weft/program"
	"weft/wire"
)

// scripted is a session that answers from a list, at its end with ParseComplete, and notes what it was sent.
type scripted struct {
	answers [][]byte
	sent    []string
	told    []string
	mark    int
	stop    error
}

func (s *scripted) Converse(messages []byte, hear func(typ byte, body []byte)) error {
	var types []byte
	for b := messages; len(b) > 0; {
		n := 1 + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4])
		if types = append(types, b[0]); b[0] == wire.Parse {
			p, _ := wire.DecodeParse(b[wire.HeaderLen:n])
			s.sent = append(s.sent, string(p.SQL))
		}
		b = b[n:]
	}
	s.sent = append(s.sent, string(types))
	if len(s.answers) == 0 {
		if types[0] == wire.Parse {
			hear(wire.ParseComplete, nil)
		}
		return nil
	}
	for b := s.answers[0]; len(b) > 0; {
		n := 1 + int(b[1])<<24 + int(b[2])<<16 + int(b[3])<<8 + int(b[4])
		hear(b[0], b[wire.HeaderLen:n])
		b = b[n:]
	}
	s.answers = s.answers[1:]
	return nil
}

func (s *scripted) Probe(string, []uint32) ([]program.Column, error) { return nil, nil }
func (s *scripted) Tell(n *pgerr.Error)                              { s.told = append(s.told, n.Message) }
func (s *scripted) Stopped(bool) error                               { return s.stop }
func (s *scripted) Mark() int                                        { s.mark += 2; return s.mark }
func (s *scripted) Forget(mark int)                                  { s.mark = mark }

func newDialogue(t *testing.T, s *scripted) *Dialogue {
	t.Helper()
	r, err := New(s, &Room{}, Config{})
	if err != nil {
		t.Fatal(err)
	}
	return r.d
}

// TestPreparedOnce: a text is described once, and parsed again by a run that does not have it.
func TestPreparedOnce(t *testing.T) {
	described := wire.AppendRowDescription(wire.AppendEmpty(nil, wire.ParseComplete), []wire.Column{{Name: "x", OID: 23, Size: 4}})
	s := &scripted{answers: [][]byte{described}}
	d := newDialogue(t, s)
	p, err := d.Prepare(context.Background(), "SELECT 1", nil)
	if err != nil || len(p.Columns) != 1 || p.Columns[0].OID != 23 {
		t.Fatalf("%+v, %v", p, err)
	}
	if again, _ := d.Prepare(context.Background(), "SELECT 1", nil); again != p {
		t.Error("prepared twice")
	}
	one := "1"
	s.answers = [][]byte{wire.AppendCommandComplete(wire.AppendTextRow(nil, []*string{&one, nil}), "SELECT 1")}
	var row []program.Value
	tag, err := d.Execute(context.Background(), p, nil, 0, func(r []program.Value) error { row = r; return nil })
	if err != nil || tag != "SELECT 1" || !slices.Equal(row, []program.Value{{Text: "1", Valid: true}, {}}) {
		t.Errorf("%q %v %v", tag, row, err)
	}
	inner, err := New(s, d.room, Config{})
	if err == nil {
		_, err = inner.d.Execute(context.Background(), p, nil, 0, nil)
	}
	if err == nil {
		err = inner.End() // the outer run may need the statement
	}
	if err == nil {
		err = (&Run{d: d}).End()
	}
	if err != nil {
		t.Fatal(err)
	}
	other, err := New(s, d.room, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.d.Execute(context.Background(), p, nil, 0, nil); err != nil {
		t.Error(err)
	}
	if want := []string{"SELECT 1", "PDS", "BECS", "BECS", "CS", "SELECT 1", "PBECS"}; !slices.Equal(s.sent, want) {
		t.Errorf("sent %q, want %q", s.sent, want)
	}
}

// TestBindFails: a statement whose values do not fit is still prepared, and DEALLOCATE ALL takes it away.
func TestBindFails(t *testing.T) {
	unfit := wire.AppendError(nil, pgerr.New("22P02", "no number"))
	parsed := wire.AppendEmpty(nil, wire.ParseComplete)
	s := &scripted{answers: [][]byte{append(slices.Clone(parsed), unfit...), unfit, wire.AppendCommandComplete(nil, "SELECT 1"), parsed}}
	d := newDialogue(t, s)
	p := &program.Prepared{SQL: "SELECT $1", Handle: "p"}
	for range 3 {
		_, _ = d.Execute(context.Background(), p, nil, 0, nil)
	}
	if err := d.run("DEALLOCATE ALL"); err != nil {
		t.Fatal(err)
	}
	_, _ = d.Execute(context.Background(), p, nil, 0, nil)
	if want := []string{"SELECT $1", "PBECS", "BECS", "BECS", "DEALLOCATE ALL", "PBECS", "SELECT $1", "PBECS"}; !slices.Equal(s.sent, want) {
		t.Errorf("sent %q, want %q", s.sent, want)
	}
}

// TestFailures: a program may catch errors of PostgreSQL, and none that weft has raised in the place of an answer.
func TestFailures(t *testing.T) {
	native := pgerr.New(pgerr.UniqueViolation, "twice")
	native.Routine = "_bt_check_unique"
	refused := pgerr.New(pgerr.FeatureNotSupported, "weft does not do this")
	stable := pgerr.New(pgerr.FeatureNotSupported, "PostgreSQL does not do this")
	stable.Routine = "somewhere"
	for _, tc := range []struct {
		e     *pgerr.Error
		catch bool
	}{{native, true}, {refused, false}, {stable, true}, {pgerr.New(pgerr.ConnectionFailure, "lost"), false}, {pgerr.New(pgerr.UniqueViolation, "in a lookup"), true}} {
		d := newDialogue(t, &scripted{answers: [][]byte{wire.AppendError(nil, tc.e)}})
		err := d.run("SELECT 1")
		if _, catch := err.(*pgerr.Error); catch != tc.catch || pgerr.From(err).Message != tc.e.Message {
			t.Errorf("%v: %v, caught %t", tc.e, err, catch)
		}
	}
}

// TestNamesForgotten: what was prepared before the schema changed is prepared again.
func TestNamesForgotten(t *testing.T) {
	s := &scripted{}
	d := newDialogue(t, s)
	for _, sql := range []string{"SELECT 1", "SELECT 1", "CREATE TABLE x ()", "SELECT 1"} {
		p, err := d.Prepare(context.Background(), sql, nil)
		if err == nil {
			_, err = d.Execute(context.Background(), p, nil, 0, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	for _, sql := range s.sent {
		if sql == "SELECT 1" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("SELECT was prepared %d times: %q", n, s.sent)
	}
}

// TestReadOnly: a function that is not volatile runs no command that writes.
func TestReadOnly(t *testing.T) {
	for sql, may := range map[string]bool{" (select 1)": true, "with x as (select 1) select 1": true, "INSERT INTO t VALUES (1)": false, "update t set a = 1": false} {
		if err := mayRead(sql); (err == nil) != may || err != nil && !strings.Contains(err.Error(), "is not allowed in a non-volatile function") {
			t.Errorf("%s: %v", sql, err)
		}
	}
}

// TestDepth: programs that call each other without end are refused, and no program catches that.
func TestDepth(t *testing.T) {
	room := &Room{}
	for range deepest {
		if _, err := New(&scripted{}, room, Config{}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := New(&scripted{}, room, Config{})
	if _, catch := err.(*pgerr.Error); catch || err == nil || pgerr.From(err).Code != "54001" {
		t.Errorf("%v", err)
	}
}

// TestStopped: nothing is sent once the client's statement must end.
func TestStopped(t *testing.T) {
	s := &scripted{stop: errors.New("cancelled")}
	if err := newDialogue(t, s).run("SELECT 1"); err != s.stop || len(s.sent) > 0 {
		t.Errorf("%v, sent %q", err, s.sent)
	}
}

// TestNext: an Execute with a limit gets so many rows, and the rest comes later.
func TestNext(t *testing.T) {
	v := "x"
	r := &Result{Tag: "SELECT", Count: 3}
	for range 3 {
		r.Rows = wire.AppendTextRow(r.Rows, []*string{&v})
	}
	var got []string
	for _, limit := range []int{2, 2, 2} {
		b, types := r.Next(limit), ""
		for len(b) > 0 {
			n := 1 + int(b[4])
			if types += string(b[0]); b[0] == wire.CommandComplete {
				types += string(b[wire.HeaderLen : n-1])
			}
			b = b[n:]
		}
		got = append(got, types)
	}
	if want := []string{"DDs", "DCSELECT 1", "CSELECT 0"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestSplitBind: the parameters of a Bind and the formats of its rows, and what is cut off is refused.
func TestSplitBind(t *testing.T) {
	tail := []byte{0, 1, 0, 1, 0, 2, 0, 0, 0, 1, 'x', 255, 255, 255, 255, 0, 1, 0, 1}
	values, formats, err := splitBind(tail)
	if err != nil || len(values) != len(tail)-4 || !slices.Equal(formats, []int16{1}) {
		t.Errorf("%v %v %v", values, formats, err)
	}
	for n := 1; n < len(tail)-2; n++ {
		if _, _, err := splitBind(tail[:n]); err == nil {
			t.Errorf("%d bytes are a Bind", n)
		}
	}
	if values, formats, err := splitBind(nil); err != nil || len(values) != 4 || formats != nil {
		t.Errorf("%v %v %v", values, formats, err)
	}
}

// TestReadCall: which routine a statement calls, and with what.
func TestReadCall(t *testing.T) {
	for sql, want := range map[string]string{
		"SELECT f(1, $2 + 1)": "false false . f [1 $2 + 1]", "SELECT * FROM s.f('x') AS y": "false true s f ['x']", "CALL p(NULL)": "true false . p [NULL]",
		"SELECT f(2, a => 1)": "false false . f [2 a1]",
	} {
		c, err := readCall(sql)
		if err != nil {
			t.Fatal(err)
		}
		var args []string
		for _, a := range c.args {
			args = append(args, a.name+a.sql)
		}
		if got := strings.ReplaceAll(fmt.Sprint(c.procedure, c.from, " ", cmp.Or(c.schema, "."), " ", c.name, " ", args), "  ", " "); got != want {
			t.Errorf("%s: %q, want %q", sql, got, want)
		}
	}
}
