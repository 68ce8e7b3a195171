package executor

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/datum"
	"weft/parser"
	"weft/pgerr"
	"weft/pgserver"
	"weft/pgserver/pgtest"
	"weft/plan"
	"weft/quote"
)

// generated returns what a planner would say of an INSERT in which each ‹n› stands for value n and what stands between ‹
// and › otherwise is added; ‹n:DEFAULT› replaces. The second result is the text without all that.
func generated(t *testing.T, marked string, values ...plan.Value) (*plan.Generate, string) {
	t.Helper()
	g := &plan.Generate{Values: values}
	var text strings.Builder
	type place struct {
		at int
		plan.Edit
	}
	var places []place
	for marked != "" {
		before, rest, ok := strings.Cut(marked, "‹")
		text.WriteString(before)
		if !ok {
			break
		}
		inside, after, _ := strings.Cut(rest, "›")
		marked = after
		p := place{at: text.Len(), Edit: plan.Edit{Text: inside, Value: -1}}
		head, deleted, _ := strings.Cut(inside, ":")
		if n := strings.Index("0123", head); n >= 0 && len(head) == 1 {
			p.Text, p.Value, p.Delete = "", n, len(deleted)
			text.WriteString(deleted)
		}
		places = append(places, p)
	}
	var s parser.Scanner
	if !s.Scan([]byte(text.String()), parser.Options{}) {
		t.Fatal(text.String())
	}
	for _, p := range places {
		p.After, p.Offset = -1, p.at
		for i, l := range s.Literals {
			if int(l.End) <= p.at {
				p.After, p.Offset = i, p.at-int(l.End)
			}
		}
		g.Edits = append(g.Edits, p.Edit)
	}
	return g, text.String()
}

// inserts have the marked text a plan was made of, without comments, and another text of the same Norm that it serves too.
var inserts = []struct {
	marked, other string
	values        []string
	want          string // rows of the other text
}{
	{
		"INSERT INTO g (‹id, ›name) VALUES (‹0›‹, ›'a') RETURNING id, name",
		"INSERT INTO g (name) VALUES ('it''s') RETURNING id, name",
		[]string{"41"},
		"41,it's",
	},
	{
		"INSERT INTO g (name, id) VALUES ('a', ‹0:DEFAULT›), ('b', ‹1:DEFAULT›) RETURNING id, name",
		"INSERT INTO g (name, id) VALUES ('aaaa', DEFAULT), ($$)$$, DEFAULT) RETURNING id, name",
		[]string{"42", "43"},
		"42,aaaa 43,)",
	},
	{
		"INSERT INTO g (name, id) VALUES ($1, ‹0:DEFAULT›), ('b', ‹1:DEFAULT›) RETURNING id, name",
		"INSERT INTO g (name, id) VALUES ($1, DEFAULT), ('c' \n'd', DEFAULT) RETURNING id, name",
		[]string{"44", "45"},
		"44,param 45,cd",
	},
	{
		"INSERT INTO g (name, u ‹, id›) VALUES ('a', ‹0:DEFAULT› ‹, ›‹1›) RETURNING id, name, u",
		"INSERT INTO g (name, u ) VALUES ('x', DEFAULT ) RETURNING id, name, u",
		[]string{"6ba7b810-9dad-11d1-80b4-00c04fd430c8", "46"},
		"46,x,6ba7b810-9dad-11d1-80b4-00c04fd430c8",
	},
}

func (o *oracle) exec(text string) (string, error) {
	results, err := o.conn.Exec(o.t.Context(), text).ReadAll()
	var out []string
	for _, r := range results {
		for _, row := range r.Rows {
			out = append(out, string(bytes.Join(row, []byte(","))))
		}
	}
	return strings.Join(out, " "), err
}

func valueTypes(values []string) []plan.Value {
	var out []plan.Value
	for _, v := range values {
		if len(v) > 20 {
			out = append(out, plan.Value{Type: "uuid"})
		} else {
			out = append(out, plan.Value{Sequence: "public.g_id_seq", Type: "bigint"})
		}
	}
	return out
}

func byteValues(values []string) [][]byte {
	var out [][]byte
	for _, v := range values {
		out = append(out, []byte(v))
	}
	return out
}

func TestLiteralEdits(t *testing.T) {
	o := generateServer(t)
	for _, test := range inserts {
		if strings.Contains(test.marked, "$1") {
			continue
		}
		g, _ := generated(t, test.marked, valueTypes(test.values)...)
		for _, text := range []string{test.other, comment(test.other)} {
			a := scanned(t, text)
			edits, err := LiteralEdits(g, a.Text, a.Literals, byteValues(test.values))
			if err != nil {
				t.Fatal(err)
			}
			got, err := o.exec(edits.Apply(text))
			if err != nil || got != test.want {
				t.Errorf("%s: %q, %v, want %q", edits.Apply(text), got, err, test.want)
			}
			// An error is where it is in the client's own text.
			bad := strings.Replace(text, "RETURNING id", "RETURNING oops", 1)
			_, err = o.exec(edits.Apply(bad))
			var e *pgconn.PgError
			if !errors.As(err, &e) || edits.ClientPosition(bad, int(e.Position)) != utf8.RuneCountInString(bad[:strings.Index(bad, "oops")])+1 {
				t.Errorf("%s: %v", bad, err)
			}
		}
	}
}

// comment puts comments where a Norm has a space anyway.
func comment(text string) string {
	return strings.NewReplacer("INSERT INTO", "INSERT/* ' \" -- é */INTO", " VALUES", "/*/**/*/VALUES").Replace(text)
}

func generateServer(t *testing.T) *oracle {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	srv := pgtest.Start(t, pgserver.Config{})
	conn, err := pgconn.Connect(ctx, srv.ConnString("postgres"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	o := &oracle{t: t, conn: conn}
	if _, err := o.exec("CREATE TABLE g (id bigint, name text, u uuid)"); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestParamEdits(t *testing.T) {
	o := generateServer(t)
	hijacked, err := o.conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	net := hijacked.Conn
	defer net.Close()
	front := pgproto3.NewFrontend(net, net)
	for _, test := range inserts {
		g, _ := generated(t, test.marked, valueTypes(test.values)...)
		a := scanned(t, test.other)
		count := strings.Count(test.other, "$1")
		edits, err := ParamEdits(g, a.Text, a.Literals, count)
		if err != nil {
			t.Fatal(err)
		}
		for _, formats := range [][]int{nil, {0}, {1}} {
			// The parameter is a text, which is the same in both formats.
			own := []any{"param"}[:count]
			tail, err := AppendBind([]byte("\x00\x00"), bindBody(formats, own...), byteValues(test.values))
			if err != nil {
				t.Fatal(err)
			}
			front.Send(&pgproto3.Parse{Query: edits.Apply(test.other), ParameterOIDs: []uint32{25}[:count]})
			front.Send(&pgproto3.Describe{ObjectType: 'S'})
			if err := front.Flush(); err != nil {
				t.Fatal(err)
			}
			raw := append([]byte{'B'}, binary.BigEndian.AppendUint32(nil, uint32(4+len(tail)))...)
			if _, err := net.Write(append(raw, tail...)); err != nil {
				t.Fatal(err)
			}
			front.Send(&pgproto3.Execute{})
			front.Send(&pgproto3.Sync{})
			if err := front.Flush(); err != nil {
				t.Fatal(err)
			}
			var rows []string
			for done := false; !done; {
				m, err := front.Receive()
				if err != nil {
					t.Fatal(err)
				}
				switch m := m.(type) {
				case *pgproto3.DataRow:
					rows = append(rows, string(bytes.Join(m.Values, []byte(","))))
				case *pgproto3.ParameterDescription:
					checkParameters(t, m, count, len(test.values))
				case *pgproto3.ErrorResponse:
					t.Errorf("%s, formats %v: %s", edits.Apply(test.other), formats, m.Message)
				case *pgproto3.ReadyForQuery:
					done = true
				}
			}
			if got := strings.Join(rows, " "); got != test.want {
				t.Errorf("%s, formats %v: %q, want %q", edits.Apply(test.other), formats, got, test.want)
			}
		}
	}
}

// checkParameters: the client sees its own parameters only.
func checkParameters(t *testing.T, m *pgproto3.ParameterDescription, count, extra int) {
	t.Helper()
	frame, err := m.Encode(nil)
	if err != nil {
		t.Fatal(err)
	}
	body, err := AppendParameters(nil, frame[5:], extra)
	if err != nil || len(body) != 2+4*count || int(binary.BigEndian.Uint16(body)) != count {
		t.Errorf("parameters %v become %v, %v", m.ParameterOIDs, body, err)
	}
}

func TestAppendBindKeepsTheRest(t *testing.T) {
	body := bindBody([]int{1, 0}, be(7, 8), nil)
	body = append(body[:len(body)-2], 0, 2, 0, 1, 0, 0) // formats of the results
	got, err := AppendBind(nil, body, [][]byte{[]byte("42")})
	want := append(bindBody([]int{1, 0, 0}, be(7, 8), nil, "42"), 0, 1, 0, 0)
	binary.BigEndian.PutUint16(want[len(want)-6:], 2)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n got %q\nwant %q", err, got, want)
	}
	p, _ := DecodeParams(got)
	ints := declare(t, "hash", nil, 64, column{"k", datum.Int8})
	if got := buckets(t, keyed(ints, sets(set(plan.Source{Kind: plan.Param, Index: 2}))), &Args{Params: p}); fmt.Sprint(got) != fmt.Sprint(of(t, ints, "42")) {
		t.Errorf("the added value is bound to %v", got)
	}
}

func TestGenerateLimits(t *testing.T) {
	g := &plan.Generate{Values: make([]plan.Value, 2)}
	var e *pgerr.Error
	if _, err := ParamEdits(g, nil, nil, 65534); !errors.As(err, &e) || e.Code != pgerr.ProgramLimitExceeded {
		t.Errorf("%v", err)
	}
	full := bindBody(nil, make([]any, 65534)...)
	if _, err := AppendBind(nil, full, make([][]byte, 2)); !errors.As(err, &e) || e.Code != pgerr.ProgramLimitExceeded {
		t.Errorf("%v", err)
	}
	if _, err := AppendBind(nil, bindBody(nil, "abc")[:8], nil); err == nil {
		t.Error("a cut message is accepted")
	}
	if _, err := LiteralEdits(g, nil, nil, nil); err == nil {
		t.Error("values are missing")
	}
	g = &plan.Generate{Edits: []plan.Edit{{After: 3}}}
	if _, err := LiteralEdits(g, []byte("1"), nil, nil); err == nil {
		t.Error("the literal is missing")
	}
	if got := quote.Literal(`a'\b`); got != ` E'a''\\b'` {
		t.Errorf("%s", got)
	}
}
