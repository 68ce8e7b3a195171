package queue

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/config"
	"weft/integration/harness"
)

// way is how a client sends a read.
type way struct {
	name    string
	prepare []pgproto3.FrontendMessage
	ask     []pgproto3.FrontendMessage
}

// ways are all ways in which reads are shared.
func ways() (out []way) {
	const text = "select id, n, m, at, n::text as s from wide where id = "
	sync, exec, describe := &pgproto3.Sync{}, &pgproto3.Execute{}, &pgproto3.Describe{ObjectType: 'P'}
	out = append(out, way{"simple", nil, []pgproto3.FrontendMessage{&pgproto3.Query{String: text + "42"}}})
	out = append(out, way{"simple with a semicolon", nil, []pgproto3.FrontendMessage{&pgproto3.Query{String: text + "42;"}}})
	for formats, codes := range map[string][]int16{"text": nil, "binary": {1}, "mixed": {0, 1, 0, 1, 0}} {
		for values, bind := range map[string]*pgproto3.Bind{
			"text values":   {Parameters: [][]byte{[]byte("42")}, ResultFormatCodes: codes},
			"binary values": {ParameterFormatCodes: []int16{1}, Parameters: [][]byte{{0, 0, 0, 0, 0, 0, 0, 42}}, ResultFormatCodes: codes},
		} {
			named := *bind
			named.PreparedStatement = "w"
			parse := pgproto3.Parse{Query: text + "$1", ParameterOIDs: []uint32{20}}
			prepare := parse
			prepare.Name = "w"
			name := formats + ", " + values
			out = append(out,
				way{"parsed, " + name, nil, []pgproto3.FrontendMessage{&parse, bind, describe, exec, sync}},
				way{"parsed, not described, " + name, nil, []pgproto3.FrontendMessage{&parse, bind, exec, sync}},
				way{"prepared, " + name, []pgproto3.FrontendMessage{&prepare, sync}, []pgproto3.FrontendMessage{&named, describe, exec, sync}},
				way{"prepared, not described, " + name, []pgproto3.FrontendMessage{&prepare, sync}, []pgproto3.FrontendMessage{&named, exec, sync}},
			)
		}
	}
	return out
}

// raw is a connection whose messages are seen one by one.
type raw struct {
	*testing.T
	front *pgproto3.Frontend
}

func hijack(t *testing.T, c *pgx.Conn) raw {
	t.Helper()
	h, err := c.PgConn().Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = h.Conn.Close() })
	return raw{t, h.Frontend}
}

func (r raw) send(messages []pgproto3.FrontendMessage) {
	for _, m := range messages {
		r.front.Send(m)
	}
	if err := r.front.Flush(); err != nil {
		r.Errorf("send: %v", err)
	}
}

// answer is all bytes up to ReadyForQuery, but OIDs of tables, which differ between servers, and where in the source of a server an error was raised.
func (r raw) answer() string {
	var out []byte
	for {
		m, err := r.front.Receive()
		if err != nil {
			return err.Error()
		}
		if d, ok := m.(*pgproto3.RowDescription); ok {
			for i := range d.Fields {
				d.Fields[i].TableOID = 0
			}
		}
		if e, ok := m.(*pgproto3.ErrorResponse); ok {
			e.File, e.Line, e.Routine = "", 0, ""
		}
		out, _ = m.(pgproto3.Message).(interface {
			Encode([]byte) ([]byte, error)
		}).Encode(out)
		if _, ready := m.(*pgproto3.ReadyForQuery); ready {
			return string(out)
		}
	}
}

// Whoever shares an answer gets it byte for byte as PostgreSQL gives it, in every way and format, and can go on with the same statement.
func TestTranscripts(t *testing.T) {
	const table = "create table wide (id bigint primary key, n int, m numeric, at timestamptz, b bytea); insert into wide values (42, 7, 1.50, '2026-11-17 12:00+00', '\\x00ff')"
	plain := harness.Postgres(t)
	plain.CreateDatabase(t, "ferrywide")
	pg := plain.Connect(t, "postgres", "dbname=ferrywide")
	w := newWorld(t, "ferrytalk", shares(config.CoalesceOn))
	a := w.conn(0, "postgres")
	for _, c := range []*pgx.Conn{pg, a} {
		if _, err := c.Exec(t.Context(), table, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
	}
	w.must(a, "select weft.shard_table('wide', 'id', colocate_with => 'acct')")
	w.reads(4)
	w.awaitFerries(a, "on")
	shard := w.direct(42)
	const each = 7
	for _, way := range ways() {
		p := hijack(t, plain.Connect(t, "postgres", "dbname=ferrywide"))
		var all []raw
		for range each {
			all = append(all, hijack(t, w.conn(0, "postgres")))
		}
		for _, r := range append(all, p) {
			if way.prepare != nil {
				r.send(way.prepare)
				r.answer()
			}
		}
		p.send(way.ask)
		want := p.answer()
		before := w.shared(a)
		w.must(shard, "begin")
		w.must(shard, "lock table wide in access exclusive mode")
		for _, r := range all {
			r.send(way.ask)
		}
		w.await(way.name, func() (any, bool) {
			n := w.number(a, "select count(*) from weft.sessions where state = $1 and statement not like '%from acct%'", rides)
			return fmt.Sprint(n, " wait"), n >= each-4
		})
		w.must(shard, "commit")
		for i, r := range all {
			if got := r.answer(); got != want {
				t.Errorf("%s, client %d:\n got %q\nwant %q", way.name, i, got, want)
			}
		}
		if n := w.shared(a) - before; n < each-5 {
			t.Errorf("%s: %d answers were shared", way.name, n)
		}
		for i, r := range all { // alone this time
			r.send(way.ask)
			if got := r.answer(); got != want {
				t.Errorf("%s, client %d, once more:\n got %q\nwant %q", way.name, i, got, want)
			}
		}
	}
}
