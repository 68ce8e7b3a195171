package routing

import (
	"bytes"
	"encoding/binary"
	"math"
	"net"
	"runtime"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
	"weft/integration/pair"
)

// TestAllocations: a statement for one shard makes no garbage in the proxy, which runs in the
// process of the test. Other parts of the process allocate meanwhile, and weft itself does when it has found
// that the key is hot, so the best of many short runs counts.
func TestAllocations(t *testing.T) {
	db := database(t, "allocations")
	p := pair.Connect(t, harness.Weft(t), db, "postgres")
	p.Must(t, "create table t (k int primary key, v int)")
	p.Must(t, "insert into t select g, g from generate_series(1, 20) g")
	p.Must(t, "select weft.shard_table('t', 'k')")
	execute := []pgproto3.FrontendMessage{
		&pgproto3.Bind{PreparedStatement: "s", Parameters: [][]byte{[]byte("7")}}, &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{}, &pgproto3.Sync{},
	}
	simple := func(text string) []pgproto3.FrontendMessage {
		return []pgproto3.FrontendMessage{&pgproto3.Query{String: text}}
	}
	for name, test := range map[string]struct {
		prepare string
		say     []pgproto3.FrontendMessage
	}{
		"select, prepared": {"select v from t where k = $1", execute},
		"update, prepared": {"update t set v = v + 1 where k = $1", execute},
		"select":           {"", simple("select v from t where k = 8")},
		"update":           {"", simple("update t set v = v + 1 where k = 9")},
	} {
		t.Run(name, func(t *testing.T) {
			c := newDialogue(t, db)
			c.say(&pgproto3.Parse{Name: "s", Query: test.prepare}, &pgproto3.Sync{})
			c.say(test.say...)
			c.repeat(200) // caches are filled
			const statements = 100
			least := math.Inf(1)
			for range 100 {
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				c.repeat(statements)
				runtime.ReadMemStats(&after)
				least = min(least, float64(after.Mallocs-before.Mallocs)/statements)
			}
			if least > 0.2 {
				t.Errorf("%.2f allocations for each statement", least)
			}
		})
	}
}

// dialogue is a client that allocates nothing when it repeats what it has said last.
type dialogue struct {
	tb   testing.TB
	conn net.Conn
	sent []byte
	read []byte
}

func newDialogue(t *testing.T, db string) *dialogue {
	t.Helper()
	raw, err := pair.Connect(t, harness.Weft(t), db, "postgres").Conn.Hijack()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = raw.Conn.Close() })
	if err := raw.Conn.SetDeadline(time.Now().Add(pair.Patience)); err != nil {
		t.Fatal(err)
	}
	return &dialogue{tb: t, conn: raw.Conn, read: make([]byte, 8192)}
}

// say sends messages, and reads until the proxy is ready.
func (d *dialogue) say(messages ...pgproto3.FrontendMessage) {
	d.tb.Helper()
	d.sent = d.sent[:0]
	for _, m := range messages {
		var err error
		if d.sent, err = m.Encode(d.sent); err != nil {
			d.tb.Fatal(err)
		}
	}
	d.repeat(1)
}

// repeat says n times what was said last.
func (d *dialogue) repeat(n int) {
	d.tb.Helper()
	for range n {
		if _, err := d.conn.Write(d.sent); err != nil {
			d.tb.Fatal(err)
		}
		for have := 0; ; {
			got, err := d.conn.Read(d.read[have:])
			if err != nil {
				d.tb.Fatal(err)
			}
			if have += got; isReady(d.tb, d.read[:have]) {
				break
			}
		}
	}
}

// isReady reports whether an answer is whole, and fails the test if it has an error.
func isReady(tb testing.TB, answer []byte) bool {
	for len(answer) >= 5 {
		size := 1 + int(binary.BigEndian.Uint32(answer[1:]))
		switch {
		case size > len(answer):
			return false
		case answer[0] == 'E':
			tb.Fatalf("%s", bytes.ToValidUTF8(answer[:size], nil))
		case answer[0] == 'Z':
			return true
		}
		answer = answer[size:]
	}
	return false
}
