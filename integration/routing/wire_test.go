package routing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"

	"weft/integration/harness"
	"weft/integration/pair"
)

// Statements of the wire conversations. k is the shard key.
const (
	read = "select v from pairs where k = $1"
	bump = "update pairs set n = n + 1 where k = $1 returning n"
	look = "select n from pairs where k = $1"
)

// talk is messages of the extended protocol under way to a server.
type talk []pgproto3.FrontendMessage

// x is one statement through the unnamed portal, its result described.
func x(sql string, args ...string) talk {
	return append(bind(sql, "", args...), &pgproto3.Describe{ObjectType: 'P'}, &pgproto3.Execute{})
}

// bind is a Parse of the unnamed statement and a Bind to a portal.
func bind(sql, portal string, args ...string) talk {
	b := &pgproto3.Bind{DestinationPortal: portal}
	for _, a := range args {
		b.Parameters = append(b.Parameters, []byte(a))
	}
	return talk{&pgproto3.Parse{Query: sql}, b}
}

// again binds a statement that has been parsed before, and executes it.
func again(name string, args ...string) talk {
	b := bind("", "", args...)[1].(*pgproto3.Bind)
	b.PreparedStatement = name
	return talk{b, &pgproto3.Execute{}}
}

func named(name, sql string) talk { return talk{&pgproto3.Parse{Name: name, Query: sql}} }

func execute(portal string) talk { return talk{&pgproto3.Execute{Portal: portal}} }

func all(parts ...talk) talk {
	var t talk
	for _, p := range parts {
		t = append(t, p...)
	}
	return t
}

// conversations are groups of messages, each ended with a Sync. The keys in
// them are on three shards of four (see TestConversations).
func conversations(a, b, c string) map[string][]talk {
	begin, commit, rollback := x("begin"), x("commit"), x("rollback")
	fails := x("select 1 / (k - k) from pairs where k = $1", b)
	return map[string][]talk{
		"commit after another shard was read": {begin, x(bump, a), x(read, b), commit, x(look, a)},
		"block in one go":                     {all(begin, x(bump, a), x(read, b), commit), x(look, a)},
		"block in one go, rolled back":        {all(begin, x(bump, a), x(read, b), x(read, c), rollback), x(look, a)},
		"two blocks in one go":                {all(begin, x(bump, a), commit, begin, x(bump, b)), rollback, x(look, a), x(look, b)},
		"read, then a block":                  {all(x(read, a), begin, x(bump, b)), rollback, x(look, b)},
		"write, then a block":                 {all(x(bump, a), begin, x(bump, a)), rollback, x(look, a)},
		"block, then a write":                 {all(begin, x(bump, a), rollback, x(bump, b)), x(look, a), x(look, b)},
		"failed, ended and gone on":           {all(begin, x(bump, a)), fails, all(rollback, x(read, c), x(read, a)), x(look, a)},
		"failed, ended and begun again":       {all(begin, x(bump, a)), fails, all(commit, begin, x(bump, c)), rollback, x(look, a), x(look, c)},
		"failed, ended and chained":           {all(begin, x(bump, a)), fails, all(x("rollback and chain"), x(read, c)), x(bump, b), commit, x(look, b)},
		"failed before anybody joined":        {all(begin, x("selec")), all(rollback, begin, x(bump, b)), rollback, x(look, b)},
		"back to a savepoint":                 {all(begin, x("savepoint s"), x(bump, a)), fails, all(x("rollback to s"), x(read, c), x(look, a)), commit, x(look, a)},
		"back to a savepoint, prepared": {
			all(begin, x("savepoint s"), x(bump, a)), fails, all(named("back", "rollback to s"), again("back")),
			x(bump, a), x(read, b), again("back"), commit, x(look, a),
		},
		"rollback, prepared while failed": {begin, fails, all(named("end", "rollback"), again("end")), begin, again("end"), begin, x(read, a), again("end")},
		"savepoints in one go":            {all(begin, x("savepoint s"), x(bump, a), x("rollback to s"), x(read, b), x("release s"), commit), x(look, a)},
		"commit bound early":              {all(begin, x(bump, a)), bind("commit", "end"), x(read, b), execute("end"), x(look, a)},
		"begin bound twice":               {all(bind("begin", "one"), bind("begin", "two"), execute("one")), x(bump, a), execute("two"), rollback, x(look, a), execute("one")},
		"portals of three shards": {
			begin, all(bind(read, "a", a), bind(read, "b", b), bind(read, "c", c)), all(execute("b"), execute("a"), execute("c")), commit, execute("a"),
		},
		"too few parameters": {all(begin, x(bump, a), x(read)), commit, x(look, a)},
	}
}

// TestConversations holds the messages of transactions in pipelines to what one
// server answers: what is sent before an answer was read must go where it
// would go if it were sent alone.
func TestConversations(t *testing.T) {
	db, _ := pairs(t, "conversations", 50)
	keys := keysOfShards(t, db, 3)
	for name, groups := range conversations(keys[0], keys[1], keys[2]) {
		t.Run(name, func(t *testing.T) {
			want := converse(t, harness.Postgres(t), db, groups)
			got := converse(t, harness.Weft(t), db, groups)
			for i := range want {
				if want[i] != got[i] {
					t.Errorf("group %d:\nPostgreSQL %s\nweft       %s", i, want[i], got[i])
				}
			}
		})
	}
}

// TestTextEndsBlock ends blocks in the middle of a text. weft may refuse that,
// and then nothing of it has happened; or it does what one server does.
func TestTextEndsBlock(t *testing.T) {
	db, _ := pairs(t, "ends", 50)
	k := keysOfShards(t, db, 3)
	query := func(sql string) talk {
		return talk{&pgproto3.Query{String: strings.NewReplacer("{a}", k[0], "{b}", k[1], "{c}", k[2]).Replace(sql)}}
	}
	fails := query("select 1 / (k - k) from pairs where k = {c}")
	opens := map[string][]talk{
		"nobody":  {query("begin")},
		"writer":  {query("begin"), x(bump, k[0])},
		"two":     {query("begin"), x(bump, k[0]), x(read, k[1])},
		"failed":  {query("begin"), x(bump, k[0]), fails},
		"failed1": {query("begin"), query("selec")},
	}
	for name, open := range opens {
		for _, text := range []string{
			"commit; begin", "rollback; begin", "commit; select n from pairs where k = {b}", "rollback; select v from pairs where k = {b}",
			"commit; update pairs set n = n + 1 where k = {b}", "rollback; update pairs set n = n + 1 where k = {c}",
			"rollback; insert into pairs select 1000 + {b}, 0; delete from pairs where k >= 1000", "commit and chain; select 1",
		} {
			t.Run(name+"/"+text, func(t *testing.T) {
				groups := append(slices.Clone(open), query(text))
				got := converse(t, harness.Weft(t), db, groups)
				if strings.Contains(got[len(open)], "0A000") {
					groups[len(open)] = query("rollback")
					got = got[:len(open)] // its connection is closed: rolled back
				}
				want := converse(t, harness.Postgres(t), db, groups)
				for i := range got {
					if want[i] != got[i] {
						t.Errorf("group %d:\nPostgreSQL %s\nweft       %s", i, want[i], got[i])
					}
				}
				after := []talk{x(look, k[0]), x(look, k[1]), x(look, k[2])}
				if want, got := converse(t, harness.Postgres(t), db, after), converse(t, harness.Weft(t), db, after); !slices.Equal(want, got) {
					t.Errorf("afterwards:\nPostgreSQL %s\nweft       %s", want, got)
				}
			})
		}
	}
}

// keysOfShards returns keys of pairs on as many shards.
func keysOfShards(t *testing.T, db string, n int) []string {
	t.Helper()
	var keys []string
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	for _, shard := range harness.Weft(t).Shards()[:n] {
		conn, err := pgconn.Connect(ctx, shard.ConnString(db))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := conn.Exec(ctx, "select k from pairs order by k limit 1").ReadAll()
		_ = conn.Close(ctx)
		if err != nil || len(rows) != 1 || len(rows[0].Rows) != 1 {
			t.Fatalf("no key on %s: %v", shard.ConnString(db), err)
		}
		keys = append(keys, string(rows[0].Rows[0][0]))
	}
	return keys
}

// converse returns what a server answers to each group.
func converse(t *testing.T, target *harness.Target, db string, groups []talk) []string {
	t.Helper()
	peer := pair.Connect(t, target, db, "postgres")
	var said []string
	fe := peer.Conn.Frontend()
	ctx, stop := context.WithTimeout(context.Background(), pair.Patience)
	defer stop()
	undo := context.AfterFunc(ctx, func() { _ = peer.Conn.Conn().Close() })
	defer undo()
	for _, group := range groups {
		for _, m := range group {
			fe.Send(m)
		}
		if _, simple := group[len(group)-1].(*pgproto3.Query); !simple {
			fe.Send(&pgproto3.Sync{})
		}
		if err := fe.Flush(); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for {
			m, err := fe.Receive()
			if err != nil {
				return append(said, b.String()+err.Error())
			}
			b.WriteString(sketch(m))
			if _, ok := m.(*pgproto3.ReadyForQuery); ok {
				break
			}
		}
		said = append(said, b.String())
	}
	return said
}

// sketch is a message as far as it must be alike.
func sketch(m pgproto3.BackendMessage) string {
	switch m := m.(type) {
	case *pgproto3.DataRow:
		return fmt.Sprintf("%q ", m.Values)
	case *pgproto3.CommandComplete:
		return string(m.CommandTag) + " "
	case *pgproto3.ErrorResponse:
		return m.Code + " "
	case *pgproto3.NoticeResponse:
		return m.Code + " "
	case *pgproto3.ReadyForQuery:
		return string(m.TxStatus)
	case *pgproto3.ParameterStatus:
		return ""
	}
	return strings.TrimPrefix(fmt.Sprintf("%T ", m), "*pgproto3.")
}
