package routing

import (
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/pair"
)

// TestReadOnlyLock: in a READ ONLY block it is the Bind of a query that fails if it would
// lock rows, also where they are on several shards.
func TestReadOnlyLock(t *testing.T) {
	p := newPair(t, database(t, "read_only_lock"))
	p.Both(t, "setup", "create table t (k int primary key, v int)")
	p.Both(t, "setup", "insert into t select g, g from generate_series(1, 20) g")
	declare(t, p, pair.Statement{SQL: "select weft.shard_table('t', 'k')"})
	bind := func(peer *pair.Peer, sql string) (code, message string) {
		f := peer.Conn.Frontend()
		f.SendParse(&pgproto3.Parse{Query: sql})
		f.SendBind(&pgproto3.Bind{})
		f.SendSync(&pgproto3.Sync{})
		if err := f.Flush(); err != nil {
			t.Fatal(err)
		}
		for {
			msg, err := peer.Conn.ReceiveMessage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			switch m := msg.(type) {
			case *pgproto3.ErrorResponse:
				code, message = m.Code, m.Message
			case *pgproto3.ReadyForQuery:
				return code, message
			}
		}
	}
	for _, begin := range [][]string{
		{"begin read only"},
		{"start transaction isolation level repeatable read, read only"},
		{"begin", "set transaction read only"},
		{"begin read only", "select v from t where k = 3"},
		{"begin"},
		{"begin read write"},
		{"begin read only", "set transaction read write"},
	} {
		for _, sql := range []string{
			"select * from t for update", "select * from t where k in (1, 2, 3, 4) order by k for no  key update", "select * from t for share", "select * from t order by k limit 2 for key share",
			"select * from t where k = 3 for update", "select * from t",
		} {
			for _, command := range begin {
				p.Both(t, "begin", command)
			}
			wantCode, want := bind(p.Plain, sql)
			code, got := bind(p.Weft, sql)
			if code != wantCode || got != want {
				t.Errorf("%q, %s: PostgreSQL says %s %s, weft %s %s", begin, sql, wantCode, want, code, got)
			}
			p.Both(t, "end", "rollback")
		}
	}
}
